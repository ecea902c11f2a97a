package kafka_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The tests of this file use the client alone. They hold the facts that this
// package is built around: should one fail after an upgrade of the client, the
// code that it explains can be looked at again.

// alone consumes one partition of a new topic, which holds ten records, from
// offset.
func alone(t *testing.T, offset kgo.Offset, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	topic := unique("facts")
	_, b := fake(t, topic, 1, kfake.NumBrokers(1))
	b.produce(topic, 0, 0, 10)
	opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: offset}}))
	return newBroker(t, b.addrs, opts...).cl
}

func TestTheClientResetsSilentlyByDefault(t *testing.T) {
	t.Parallel()
	cl := alone(t, kgo.NewOffset().At(50))
	fetches := cl.PollFetches(t.Context())
	if err := fetches.Err(); err != nil {
		t.Fatalf("got %v: the client has become honest about a position beyond the log", err)
	}
	if first := fetches.Records()[0].Offset; first != 0 {
		t.Errorf("reading began at %d, not at 0", first)
	}
}

func TestTheClientRepeatsAnOutOfRangeFetchWithoutRest(t *testing.T) {
	t.Parallel()
	cl := alone(t, kgo.NewOffset().At(50), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	for range 100 { // by the end of which a client that rested would not be within the limit
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Fatalf("got %v, want %v", err, kerr.OffsetOutOfRange)
		}
	}
}

func TestTheClientGoesOnAfterALossOfData(t *testing.T) {
	t.Parallel()
	cl := alone(t, kgo.NewOffset().At(50).WithEpoch(0), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	var loss *kgo.ErrDataLoss
	if err := cl.PollFetches(t.Context()).Err(); !errors.As(err, &loss) {
		t.Fatalf("got %v, want a loss of data", err)
	}
	if loss.ConsumedTo != 50 || loss.ResetTo != 10 {
		t.Errorf("moved from %d to %d, not from 50 to 10", loss.ConsumedTo, loss.ResetTo)
	}
}
