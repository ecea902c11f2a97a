//go:build integration

package kafka_test

import (
	"testing"

	kafkasource "github.com/lockstep-stream/lockstep/sources/kafka"
	"github.com/lockstep-stream/lockstep/sources/sourcetest"
)

func TestRealKafkaConformance(t *testing.T) {
	sourcetest.Run(t, features, func(t *testing.T) sourcetest.Harness {
		t.Parallel()
		b := realKafka(t, unique("conformance"), 1)
		return b.conformance(func(b *broker, group string, topics ...string) kafkasource.Config {
			return b.realConfig(group, topics[0])
		})
	})
}
