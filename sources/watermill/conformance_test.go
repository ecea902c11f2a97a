package watermill_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sources/sourcetest"
	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

// features of the Kafka source. Rebalances are eager in sarama, and sarama cannot
// ask where a leader epoch ends.
var features = sourcetest.Features{Log: true, Retention: true, TopicIDs: true, Groups: true, WholeRecords: true}

func TestKafkaConformance(t *testing.T) {
	sourcetest.Run(t, features, func(t *testing.T) sourcetest.Harness {
		t.Parallel()
		_, b := fake(t, kfake.NumBrokers(2))
		return b.conformance()
	})
}

// A subscriber that cannot seek promises none of the features.
func TestSubscriberConformance(t *testing.T) {
	sourcetest.Run(t, sourcetest.Features{}, func(t *testing.T) sourcetest.Harness {
		t.Parallel()
		b := newPubsub()
		return sourcetest.Harness{
			Open: func(topic, group string) (framework.Source, error) {
				return watermillsource.New(watermillsource.Config{Subscriber: b.subscriber(group), Topics: []string{topic}, Extract: extract, Logger: testLog(t)})
			},
			Create: b.create,
			Append: b.append,
		}
	})
}
