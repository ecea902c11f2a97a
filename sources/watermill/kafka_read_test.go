package watermill_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

// A position is compared with the log beside reading: the servers may take their
// time to answer.
func TestReadingGoesOnWhileAPositionIsChecked(t *testing.T) {
	c, b := fake(t)
	topic := topicOf(b, 10)
	cfg := b.config("g", topic)
	cfg.CheckInterval = 10 * time.Millisecond
	src, err := watermillsource.NewKafka(cfg)
	lanes, stop := run(t, src, err)
	lanes.wait(10)
	asked, answer := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	c.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		once()
		c.SleepControl(func() { <-answer })
		return nil, nil, false
	})
	<-asked
	b.produce(topic, 0, 10, 20)
	lanes.wait(20)
	close(answer)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// Sarama gives a partition up for an answer that need not be true: a new leader
// may not know yet how far it has copied. What is on its way then is read again.
func TestAnOffsetThatIsOutOfRangeForAMomentIsReadOn(t *testing.T) {
	const records = 5 // the first in the lanes' hands, and as many as the Tracer takes
	c, b := fake(t)
	topic := topicOf(b, records)
	cfg := b.config("g", topic)
	cfg.Subscriber.Tracer = readingAhead{}
	src, err := watermillsource.NewKafka(cfg)
	var refused, again atomic.Bool
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		fetch := req.(*kmsg.FetchRequest)
		switch at := fetch.Topics[0].Partitions[0].FetchOffset; {
		case at == records && refused.CompareAndSwap(false, true):
			return outOfRange(fetch), nil, true
		case at == 1 && refused.Load():
			again.Store(true)
		}
		return nil, nil, false
	})
	lanes, _ := newRun(t, 0, src, err, func() { eventually(t, "reading again", again.Load) })
	lanes.wait(records)
	b.produce(topic, 0, records, 2*records)
	for i, r := range lanes.wait(2 * records) {
		if r.Offset != int64(i) {
			t.Fatalf("record %d has offset %d", i, r.Offset)
		}
	}
	if len(lanes.failed) > 0 {
		t.Errorf("the partition failed: %v", lanes.failed)
	}
}

func outOfRange(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewFetchResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, kerr.OffsetOutOfRange.Code
			partition.RecordBatches = []byte{} // sarama wants some
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}
