package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	wm "github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/twmb/franz-go/pkg/kfake"
)

const (
	orders = 600
	stops  = 2 // of the service, while orders come
)

// demo runs the service on servers of its own and checks what it has done.
func demo(ctx context.Context, out io.Writer, log *slog.Logger) (err error) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders", "receipts"),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		return fmt.Errorf("starting a Kafka in this process: %w", err)
	}
	defer broker.Close()
	dir, err := os.MkdirTemp("", "lockstep-watermill")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := openDatabase(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close(context.WithoutCancel(ctx))) }()

	s := &service{brokers: broker.ListenAddrs(), logger: wm.NewSlogLogger(log.With("service", "shop")), shop: newShop(), db: db}
	spent, err := s.attack(ctx)
	if err != nil {
		return err
	}
	return s.report(ctx, out, spent)
}

// attack sends the orders and stops the service while they come. It returns what
// each customer has spent in truth.
func (s *service) attack(ctx context.Context) (map[string]int64, error) {
	publisher, err := s.publisher()
	if err != nil {
		return nil, err
	}
	defer publisher.Close()
	spent := map[string]int64{}
	for from := 0; from < orders; from += orders / (stops + 1) {
		sending := func() error { return publish(publisher, from, from+orders/(stops+1), spent) }
		if err := s.during(ctx, sending); err != nil {
			return nil, err
		}
	}
	return spent, s.during(ctx, func() error { return s.await(ctx) })
}

// during runs the service as long as work takes.
func (s *service) during(ctx context.Context, work func() error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	err := work()
	stop()
	return errors.Join(err, <-ended)
}

// publish sends orders as an HTTP handler would, with the request's ID.
func publish(publisher message.Publisher, from, to int, spent map[string]int64) error {
	for n := from; n < to; n++ {
		o := order{ID: strconv.Itoa(n), Customer: fmt.Sprintf("customer-%d", n%7), Cents: int64(100 + n%50)}
		payload, err := json.Marshal(o)
		if err != nil {
			return err
		}
		m := message.NewMessage(wm.NewUUID(), payload)
		middleware.SetCorrelationID(correlationOf(o), m)
		if err := publisher.Publish("orders", m); err != nil {
			return err
		}
		spent[o.Customer] += o.Cents
		time.Sleep(5 * time.Millisecond) // so that the service works meanwhile
	}
	return nil
}

// await returns once everybody has seen every order, or says who has not.
func (s *service) await(ctx context.Context) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		mailed, _ := s.shop.mailed()
		before, _ := s.shop.before.seen()
		now, _ := s.shop.dashboard.seen()
		switch {
		case mailed == orders && before == orders && now == orders:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("of %d orders %d were mailed, %d seen by the handler and %d by the pipeline", orders, mailed, before, now)
		}
	}
}

// report says what became of the orders, and checks the pipeline's totals against
// what was spent in truth.
func (s *service) report(ctx context.Context, out io.Writer, spent map[string]int64) error {
	before, err := s.db.totals(ctx, "revenue_before")
	if err != nil {
		return err
	}
	now, err := s.db.totals(ctx, "revenue")
	if err != nil {
		return err
	}
	_, mails := s.shop.mailed()
	fmt.Fprintf(out, "%d orders over %d cents; the service was stopped and started %d times while they came\n", orders, sum(spent), stops)
	fmt.Fprintf(out, "mails, by the Router:     %d, at least one an order\n", mails)
	for _, by := range []struct {
		name   string
		totals map[string]int64
		dash   *dashboard
	}{{"handler: ", before, &s.shop.before}, {"pipeline:", now, &s.shop.dashboard}} {
		_, fails := by.dash.seen()
		fmt.Fprintf(out, "revenue, by the %s %d cents, %d too many; the dashboard failed %d times\n", by.name, sum(by.totals), sum(by.totals)-sum(spent), fails)
	}
	return compare(out, spent, now)
}

// errDiffers is the error of a check that has found differences.
var errDiffers = errors.New("the pipeline's totals are not what was spent")

func compare(out io.Writer, spent, saved map[string]int64) error {
	if maps.Equal(spent, saved) {
		fmt.Fprintf(out, "exactly once: the pipeline's totals of all %d customers are right\n", len(saved))
		return nil
	}
	for _, customer := range slices.Sorted(maps.Keys(spent)) {
		if saved[customer] != spent[customer] {
			fmt.Fprintf(out, "difference: %s has spent %d, the pipeline says %d\n", customer, spent[customer], saved[customer])
		}
	}
	return errDiffers
}

func sum(totals map[string]int64) (cents int64) {
	for _, c := range totals {
		cents += c
	}
	return cents
}
