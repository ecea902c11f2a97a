package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/sinks/memory"
	kafkasource "github.com/lockstep-stream/lockstep/sources/kafka"
)

// pipelineName is also the consumer group's.
const pipelineName = "simulated"

// sessionTimeout is the shortest that Kafka allows by default.
const sessionTimeout = 6 * time.Second

// process is one run of the program, from its start to its end or death.
type process struct {
	world   *world
	slot    int
	gate    *gate
	weather *weather
	number  int // counted from 1, over all slots
	runner  *framework.Runner
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // of Run, once done is closed
}

// start starts a process in a slot, as a supervisor would.
func (w *world) start(slot int) *process {
	number := len(w.processes) + 1
	p := &process{
		world:   w,
		slot:    slot,
		number:  number,
		gate:    newGate(),
		weather: &weather{rng: rand.New(rand.NewPCG(w.seed, uint64(number)))},
		done:    make(chan struct{}),
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	w.processes = append(w.processes, p)
	p.runner = p.newRunner()
	w.wg.Go(func() {
		defer close(p.done)
		p.err = p.runner.Run(ctx)
	})
	return p
}

func (p *process) newRunner() *framework.Runner {
	w := p.world
	cfg := kafkasource.Config{
		Brokers:          w.cluster.ListenAddrs(),
		Topics:           topics,
		Group:            pipelineName,
		ClientID:         p.clientID(),
		SessionTimeout:   sessionTimeout,
		RebalanceTimeout: 10 * time.Second,
		MetadataMaxAge:   5 * time.Second,
		MirrorInterval:   time.Second,
		FetchMaxWait:     5 * time.Second,
		StartWait:        time.Hour,
		Logger:           w.log.With("process", p.number),
		Dial:             p.gate.dialer(w.dial),
	}
	if w.static {
		cfg.InstanceID = fmt.Sprint("slot-", p.slot)
	}
	source, err := kafkasource.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	var database rowSink = w.db.store.Open(memory.Options[memory.Row]{})
	if w.breakage.database != nil {
		database = w.breakage.database(w, database)
	}
	var sink rowSink = &processSink{rowSink: database, db: w.db, p: p}
	if w.breakage.client != nil {
		sink = w.breakage.client(sink)
	}
	runner, err := framework.NewRunner(p.newPipeline(), source, sink, framework.Config{
		BatchRecords: 8,
		BatchDelay:   200 * time.Millisecond,
		DrainTimeout: 10 * time.Second,
		Logger:       w.log.With("process", p.number),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return runner
}

// event is one good record: "id key amount".
type event struct {
	key    string
	amount int64
	text   string
}

var errPoison = errors.New("poison")

func parse(text string) (event, error) {
	e := event{text: text}
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return e, fmt.Errorf("%w: %q", errPoison, text)
	}
	var err error
	e.key = fields[1]
	e.amount, err = strconv.ParseInt(fields[2], 10, 64)
	return e, err
}

// wanted is what the filter lets through.
func wanted(e event) bool { return e.amount%5 != 0 }

// newPipeline keeps one row for each wanted record and one total for each key and
// partition; what cannot be parsed becomes a dead letter.
func (p *process) newPipeline() *framework.Pipeline[memory.Row] {
	type sum = framework.Keyed[string, int64]
	events := framework.MapErr(framework.From(codec.String()), func(_ framework.Context, text string) (event, error) {
		if err := p.gate.pass(); err != nil {
			return event{}, err
		}
		return parse(text)
	})
	kept := framework.Filter(events, wanted)
	rows := framework.MapErr(kept, func(ctx framework.Context, e event) (memory.Row, error) {
		return memory.Row{Table: "events", Key: rowKey(ctx.Topic(), ctx.Partition(), ctx.Record().Offset), Value: e.text}, nil
	})
	sums := framework.ReduceByKey("sums", framework.Map(kept, func(e event) sum { return sum{Key: e.key, Value: e.amount} }),
		func(a, b int64) int64 { return a + b }, framework.CacheKeys[string, int64](4))
	totals := framework.MapErr(sums, func(ctx framework.Context, s sum) (memory.Row, error) {
		return memory.Row{Table: "sums", Key: sumKey(ctx.Topic(), ctx.Partition(), s.Key), Value: s.Value}, nil
	})
	pipeline, err := framework.NewPipeline(pipelineName, framework.Merge(rows, totals),
		framework.OnHandlerFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter, Retries: 1, Pause: 10 * time.Millisecond}))
	if err != nil {
		p.world.t.Fatal(err)
	}
	return pipeline
}

func rowKey(topic string, partition int32, offset int64) string {
	return fmt.Sprintf("%s/%d@%d", topic, partition, offset)
}

func sumKey(topic string, partition int32, key string) string {
	return fmt.Sprintf("%s/%d %s", topic, partition, key)
}

func (p *process) clientID() string { return fmt.Sprint("process-", p.number) }

// kill ends the process at once. Its goroutines are left to find out.
func (p *process) kill() {
	p.gate.kill()
	p.cancel()
}

// mayEndWith says whether err is a reason for which a supervisor would start the
// program again; any other is a fault of ours.
func mayEndWith(err error) bool {
	for _, fault := range []error{framework.ErrCorrupt, framework.ErrOrder, framework.ErrConfig, framework.ErrPanic, framework.ErrRefused,
		framework.ErrBelowLogStart, framework.ErrAboveLogEnd, framework.ErrTopicRecreated} {
		if errors.Is(err, fault) {
			return false
		}
	}
	return !strings.Contains(err.Error(), errPoison.Error())
}
