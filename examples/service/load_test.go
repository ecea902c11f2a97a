package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/examples/service/app"
)

// at is where a record stands.
type at struct {
	partition int32
	offset    int64
}

// model is what has been produced, and so what must be saved.
type model struct {
	mu     sync.Mutex
	orders map[at]app.Order
}

func (m *model) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.orders)
}

// spent adds up the orders by customer.
func (m *model) spent() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	totals := map[string]int64{}
	for _, o := range m.orders {
		totals[o.Customer] += o.Cents
	}
	return totals
}

// compare names what differs from the orders that were saved.
func (m *model) compare(t *testing.T, saved map[at]app.Order) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if maps.Equal(saved, m.orders) {
		return
	}
	for where, o := range m.orders {
		if saved[where] != o {
			t.Errorf("%+v: produced %+v, saved %+v", where, o, saved[where])
		}
	}
	for where, o := range saved {
		if _, ok := m.orders[where]; !ok {
			t.Errorf("%+v: saved %+v, which was not produced", where, o)
		}
	}
}

func newBroker(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newProducer(t *testing.T, c *kfake.Cluster) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// load produces orders, 20 at a time, from start until the returned function is
// called, which waits for the last and says what went wrong.
func (m *model) load(cl *kgo.Client) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		for n := 0; ctx.Err() == nil; n += 20 {
			if err := m.produce(cl, n, n+20); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return func() error {
		cancel()
		return <-done
	}
}

func (m *model) produce(cl *kgo.Client, from, to int) error {
	var records []*kgo.Record
	var orders []app.Order
	for n := from; n < to; n++ {
		o := app.Order{ID: strconv.Itoa(n), Customer: fmt.Sprintf("customer-%d", n%7), Cents: int64(n % 100)}
		value, err := json.Marshal(o)
		if err != nil {
			return err
		}
		records = append(records, &kgo.Record{Partition: -1, Key: []byte(o.Customer), Value: value})
		orders = append(orders, o)
	}
	results := cl.ProduceSync(context.Background(), records...)
	if err := results.FirstErr(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range records { // now with their places
		m.orders[at{r.Partition, r.Offset}] = orders[i]
	}
	return nil
}

// nobody returns an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
