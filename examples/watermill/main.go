// Command watermill is a shop's service on a Watermill Router that gives one of
// its handlers to Lockstep.
//
// Before, three handlers did everything:
//
//	router.AddHandler("receipts", "orders", subscriber, "receipts", publisher, shop.receipt)
//	router.AddConsumerHandler("mails", "receipts", subscriber, shop.mail)
//	router.AddConsumerHandler("revenue", "orders", subscriber, shop.revenue)
//
// The first two may do a thing twice: a second mail is a nuisance. The third may
// not, and did: it added an order to the total in the database and then told a
// dashboard, and whenever that failed, the Retry middleware ran all of it again.
// A process killed between the commit and the acknowledgement had the same effect.
//
// After, revenue is a pipeline (revenue.go) that runs beside the Router (run, below),
// with the subscriber's settings and the logger that the service has. The Router,
// its middlewares, its publisher and the other handlers are as they were. What
// Retry and Recoverer did for the handler is a failure policy now, and its
// correlation ID is in the record's metadata. The old handler is still there, with
// a group and a table of its own, as one leaves it for a while to compare.
//
// The program brings a Kafka inside the process and a SQLite file, sends orders,
// stops and starts the service while they come, and checks the outcome. It needs
// nothing but Go.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/IBM/sarama"
	wm "github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	verbose := flag.Bool("v", false, "log what the service and its pipeline do, to standard error")
	flag.Parse()
	log := slog.New(slog.DiscardHandler)
	if *verbose {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if err := demo(ctx, os.Stdout, log); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// service is the shop's service: what it has always had, and the database.
type service struct {
	brokers []string
	logger  wm.LoggerAdapter
	shop    *shop
	db      *database
}

// run runs the service until ctx ends: the Router as it was, and the pipeline
// beside it.
func (s *service) run(ctx context.Context) error {
	router, err := s.router()
	if err != nil {
		return err
	}
	revenue, err := s.revenue()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return router.Run(ctx) })
	group.Go(func() error { return revenue.Run(ctx) })
	return group.Wait()
}

func (s *service) router() (*message.Router, error) {
	router, err := message.NewRouter(message.RouterConfig{}, s.logger)
	if err != nil {
		return nil, err
	}
	router.AddMiddleware(
		middleware.CorrelationID,
		middleware.Retry{MaxRetries: 3, InitialInterval: pause, Logger: s.logger}.Middleware,
		middleware.Recoverer,
	)
	receipts, err := kafka.NewSubscriber(s.subscriber("receipts"), s.logger)
	if err != nil {
		return nil, err
	}
	mails, err := kafka.NewSubscriber(s.subscriber("mails"), s.logger)
	if err != nil {
		return nil, err
	}
	before, err := kafka.NewSubscriber(s.subscriber("revenue-before"), s.logger)
	if err != nil {
		return nil, err
	}
	publisher, err := s.publisher()
	if err != nil {
		return nil, err
	}
	router.AddHandler("receipts", "orders", receipts, "receipts", publisher, s.shop.receipt)
	router.AddConsumerHandler("mails", "receipts", mails, s.shop.mail)
	router.AddConsumerHandler("revenue-before", "orders", before, s.revenueBefore)
	return router, nil
}

// subscriber is how the service has always read Kafka.
func (s *service) subscriber(group string) kafka.SubscriberConfig {
	settings := kafka.DefaultSaramaSubscriberConfig()
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	return kafka.SubscriberConfig{Brokers: s.brokers, ConsumerGroup: group, Unmarshaler: kafka.DefaultMarshaler{}, OverwriteSaramaConfig: settings}
}

func (s *service) publisher() (*kafka.Publisher, error) {
	return kafka.NewPublisher(kafka.PublisherConfig{Brokers: s.brokers, Marshaler: kafka.DefaultMarshaler{}}, s.logger)
}
