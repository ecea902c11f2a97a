package kafka_test

import (
	"testing"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

func TestEachPartitionStartsAtItsPosition(t *testing.T) {
	topic := unique("start")
	_, b := fake(t, topic, 3)
	for p := range int32(3) {
		b.produce(topic, p, 0, 100)
	}
	lanes := newRecorder(t)
	lanes.start = func(tp offsetstore.TopicPartition) offsetstore.Position {
		return offsetstore.At(int64(10 * tp.Partition))
	}
	r := run(t, b.config(unique("group"), topic), lanes)
	for p := range int32(3) {
		l := lanes.lane(topic, p)
		lanes.waitNext(l, 100)
		lanes.requireOffsets(l, sequence(int64(10*p), 100))
	}
	r.end()
}
