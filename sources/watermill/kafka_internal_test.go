package watermill

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// told is lanes that note what one partition delivers.
type told struct {
	framework.Lanes
	offsets []int64
	logEnd  int64
}

func (l *told) Records(_ framework.Partition, records []framework.Record, logEnd int64) {
	for i := range records {
		l.offsets = append(l.offsets, records[i].Offset)
	}
	l.logEnd = logEnd
}

// started is a partition that was started at 0 and resumed.
func started(lanes framework.Lanes) *partition {
	p := newPartition(&session{r: &run{lanes: lanes}}, offsetstore.TopicPartition{Topic: "t"})
	p.started, p.paused = true, false
	return p
}

func (p *partition) offerAll(offsets ...int64) {
	for _, o := range offsets {
		p.offer(&sarama.ConsumerMessage{Offset: o}, 0)
	}
}

func (p *partition) receiveAll(offsets ...int64) {
	for _, o := range offsets {
		p.receive(message.NewMessage("", nil), o, nil)
	}
}

// What the subscriber was given before another consumer took over comes back
// before what that one reads: each record is delivered once, and in order.
func TestWhatIsReadAgainIsDeliveredOnce(t *testing.T) {
	var lanes told
	p := started(&lanes)
	p.offerAll(0, 1, 2)
	p.receiveAll(0)
	if got := p.rewind(); got.Offset != 1 {
		t.Fatalf("another consumer reads from %d, want 1", got.Offset)
	}
	p.receiveAll(1) // from before; nobody waits for it
	p.offerAll(1, 2)
	p.receiveAll(2, 1, 2) // the first is from before
	p.offerAll(3)
	p.receiveAll(3)
	if want := []int64{0, 1, 2, 3}; !slices.Equal(lanes.offsets, want) {
		t.Errorf("delivered %v, want %v", lanes.offsets, want)
	}
}

// A broker notes the end of the log before it reads.
func TestTheEndOfTheLogIsBehindARecord(t *testing.T) {
	var lanes told
	p := started(&lanes)
	p.offer(&sarama.ConsumerMessage{Offset: 7}, 7)
	p.receiveAll(7)
	if lanes.logEnd != 8 {
		t.Errorf("with record 7 the log ends at %d, want 8", lanes.logEnd)
	}
}

// Nobody is asked about a partition that is gone: whatever the answer, it could
// come first.
func TestADeadPartitionAsksNobody(t *testing.T) {
	p := started(nil)
	p.kill()
	for range 1000 {
		if _, err := p.Resolve(t.Context(), offsetstore.StartRules{}); !errors.Is(err, framework.ErrNotOwner) {
			t.Fatalf("Resolve: got %v", err)
		}
		if err := p.Start(t.Context(), offsetstore.At(0)); !errors.Is(err, framework.ErrNotOwner) {
			t.Fatalf("Start: got %v", err)
		}
		if err := p.Confirm(t.Context()); !errors.Is(err, framework.ErrNotOwner) {
			t.Fatalf("Confirm: got %v", err)
		}
	}
}

// When a broker fails, sarama forgets it, and whoever still has it may open it again.
func TestABrokerThatWasForgottenIsClosed(t *testing.T) {
	tick := goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick")
	tp := offsetstore.TopicPartition{Topic: "t"}
	for name, ask := range map[string]func(*run) error{
		"describe":  func(r *run) error { _, err := r.describe("t"); return err },
		"offset":    func(r *run) error { _, err := r.offset(tp, sarama.OffsetNewest, false); return err },
		"heartbeat": func(r *run) error { return r.askCoordinator(nobody) },
	} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
			if err != nil {
				t.Fatal(err)
			}
			cfg := KafkaConfig{Subscriber: kafka.SubscriberConfig{Brokers: c.ListenAddrs(), ConsumerGroup: "g"}}.WithDefaults()
			r := &run{cfg: cfg, config: own(cfg.Subscriber.OverwriteSaramaConfig)}
			if err := r.dial(); err != nil {
				t.Fatal(err)
			}
			if err := ask(r); err != nil {
				t.Fatal(err)
			}
			if err := r.client.Close(); err != nil {
				t.Fatal(err)
			}
			opened := 0
			r.brokers.Range(func(k, _ any) bool {
				b := k.(*sarama.Broker)
				for b.Open(r.config) != nil { // the client still closes it
					time.Sleep(time.Millisecond)
				}
				if there, err := b.Connected(); !there {
					t.Errorf("the broker cannot be reached: %v", err)
				}
				opened++
				return true
			})
			r.end(func() {})
			c.Close()
			if opened == 0 {
				t.Error("nobody knows of the broker that was asked")
			}
			goleak.VerifyNone(t, before, tick)
		})
	}
}

// nobody is a question of which only the broker counts.
func nobody(*sarama.Broker) (sarama.KError, error) { return sarama.ErrNoError, nil }
