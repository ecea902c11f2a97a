package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// order is a message's payload, as JSON.
type order struct {
	ID       string
	Customer string
	Cents    int64
}

// pause is what comes before something is tried again.
const pause = 10 * time.Millisecond

func parse(m *message.Message) (o order, err error) {
	err = json.Unmarshal(m.Payload, &o)
	return o, err
}

// shop is what handlers do beside the database.
type shop struct {
	dashboard dashboard // as the pipeline calls it
	before    dashboard // as the handler did

	mu    sync.Mutex
	mails map[string]int // by order
}

func newShop() *shop {
	return &shop{mails: map[string]int{}, dashboard: dashboard{shown: map[string]bool{}}, before: dashboard{shown: map[string]bool{}}}
}

// receipt answers an order.
func (s *shop) receipt(m *message.Message) ([]*message.Message, error) {
	return []*message.Message{message.NewMessage(m.UUID, m.Payload)}, nil
}

// mail sends a receipt to the customer. The middleware has seen to its
// correlation ID.
func (s *shop) mail(m *message.Message) error {
	o, err := parse(m)
	if err != nil {
		return err
	}
	if middleware.MessageCorrelationID(m) != correlationOf(o) {
		return fmt.Errorf("the receipt of order %s has correlation ID %q", o.ID, middleware.MessageCorrelationID(m))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails[o.ID]++
	return nil
}

// mailed returns to how many orders there was a mail, and how many mails.
func (s *shop) mailed() (orders, mails int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.mails {
		mails += n
	}
	return len(s.mails), mails
}

// correlationOf is the ID that a request brought along in which an order was made.
func correlationOf(o order) string { return "request-" + o.ID }

// dashboard is another system. It fails now and then.
type dashboard struct {
	mu    sync.Mutex
	calls int
	fails int
	shown map[string]bool // by order
}

var errDashboard = errors.New("the dashboard does not answer")

func (d *dashboard) show(correlation string, o order) error {
	if correlation != correlationOf(o) {
		return fmt.Errorf("order %s has correlation ID %q", o.ID, correlation)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls++; d.calls%50 == 0 {
		d.fails++
		return errDashboard
	}
	d.shown[o.ID] = true
	return nil
}

// seen returns how many orders are shown, and how often showing one has failed.
func (d *dashboard) seen() (orders, fails int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.shown), d.fails
}
