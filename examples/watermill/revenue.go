package main

import (
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/sinks/sql"
	"github.com/lockstep-stream/lockstep/sources/watermill"
)

// revenueBefore is the handler as it was. It writes, and then something fails.
func (s *service) revenueBefore(m *message.Message) error {
	o, err := parse(m)
	if err != nil {
		return err
	}
	if err := s.db.add(m.Context(), o); err != nil {
		return err
	}
	return s.shop.before.show(middleware.MessageCorrelationID(m), o)
}

// revenue is what took the handler's place: what it returns is saved in one
// transaction with its offset, so that nothing it does again counts again.
func (s *service) revenue() (*framework.Runner, error) {
	source, err := watermill.NewKafka(watermill.KafkaConfig{Subscriber: s.subscriber("revenue"), Topics: []string{"orders"}, Logger: s.logger})
	if err != nil {
		return nil, err
	}
	type amount = framework.Keyed[string, int64]
	amounts := framework.MapErr(framework.From(codec.JSON[order]()), func(c framework.Context, o order) (amount, error) {
		correlation := watermill.Metadata(c.Record()).Get(middleware.CorrelationIDMetadataKey)
		return amount{Key: o.Customer, Value: o.Cents}, s.shop.dashboard.show(correlation, o)
	})
	totals := framework.ReduceByKey("revenue", amounts, func(a, b int64) int64 { return a + b })
	rows := framework.MapErr(totals, func(c framework.Context, t amount) (sql.Write, error) {
		return revenues.Upsert(revenueRow{t.Key, c.Partition(), t.Value}), nil
	})
	// The handler had this from the Retry and Recoverer middlewares.
	pipeline, err := framework.NewPipeline("revenue", rows, framework.OnHandlerFailure(framework.FailurePolicy{Retries: 3, Pause: pause}))
	if err != nil {
		return nil, err
	}
	return framework.NewRunner(pipeline, source, s.db.sink, framework.Config{Logger: watermill.NewLogger(s.logger)})
}
