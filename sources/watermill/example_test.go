package watermill_test

import (
	"context"

	wm "github.com/ThreeDotsLabs/watermill"
	kafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sinks/sql"
	"github.com/lockstep-stream/lockstep/sources/watermill"
)

// snippet:start

// runBeside runs a pipeline beside the handlers of a Watermill service, with the
// subscriber's configuration and the logger that the service has.
func runBeside(ctx context.Context, pipeline *framework.Pipeline[sql.Write], sink *sql.Sink, settings kafka.SubscriberConfig, logger wm.LoggerAdapter) error {
	source, err := watermill.NewKafka(watermill.KafkaConfig{Subscriber: settings, Topics: []string{"orders"}, Logger: logger})
	if err != nil {
		return err
	}
	runner, err := framework.NewRunner(pipeline, source, sink, framework.Config{Logger: watermill.NewLogger(logger)})
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

// snippet:end

var _ = runBeside // the README shows it
