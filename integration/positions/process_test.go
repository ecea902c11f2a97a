package positions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/sinks/memory"
	kafkasource "github.com/lockstep-stream/lockstep/sources/kafka"
)

// program is what a process runs. Its name is the pipeline's and the group's.
type program struct {
	name    string
	topics  []string
	options []framework.PipelineOption
	config  framework.Config
	sink    memory.Options[row]
	opened  *memory.Sink[row] // by somebody before; nil: open a new one
}

// process is one run of a program, from its start to its end or death.
type process struct {
	b      *bed
	name   string
	sink   *memory.Sink[row]
	runner *framework.Runner
	wire   wire
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of Run, once done is closed
	known  bool  // that it ended: it was killed, or its error has been looked at
}

// start runs a program in the background.
func (b *bed) start(p program) *process {
	b.t.Helper()
	proc := &process{b: b, name: p.name, sink: p.opened, done: make(chan struct{})}
	proc.wire.conns = map[net.Conn]struct{}{}
	if proc.sink == nil {
		proc.sink = b.store.Open(p.sink)
	}
	proc.runner = proc.newRunner(p)
	var ctx context.Context
	ctx, proc.cancel = context.WithCancel(context.Background())
	b.running = append(b.running, proc)
	go func() {
		defer close(proc.done)
		proc.err = proc.runner.Run(ctx)
	}()
	return proc
}

func (proc *process) newRunner(p program) *framework.Runner {
	b := proc.b
	b.t.Helper()
	source, err := kafkasource.New(kafkasource.Config{
		Brokers:          b.cluster.ListenAddrs(),
		Topics:           p.topics,
		Group:            p.name,
		SessionTimeout:   6 * time.Second,
		RebalanceTimeout: 10 * time.Second,
		MetadataMaxAge:   metadataAge,
		Logger:           b.logger(len(b.running) + 1),
		Dial:             proc.wire.dialer(b.net.DialContext),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	p.config.Logger = b.logger(len(b.running) + 1)
	runner, err := framework.NewRunner(copyAndSum(b.t, p.name, p.options...), source, proc.sink, p.config)
	if err != nil {
		b.t.Fatal(err)
	}
	return runner
}

// stop ends the process in order.
func (proc *process) stop() {
	proc.b.t.Helper()
	proc.cancel()
	<-proc.done
	if proc.err != nil {
		proc.b.t.Fatalf("the stop of pipeline %q: %v", proc.name, proc.err)
	}
}

// failed waits until the process has ended by itself, and returns why.
func (proc *process) failed() error {
	proc.b.t.Helper()
	proc.b.await(fmt.Sprintf("pipeline %q fails", proc.name), proc.ended)
	proc.known = true
	if proc.err == nil {
		proc.b.t.Fatalf("pipeline %q ended without an error", proc.name)
	}
	return proc.err
}

// kill ends the process as far as anybody can see: nothing that it does arrives any
// more, at the database or at Kafka. Its goroutines find out.
func (proc *process) kill() {
	proc.known = true
	proc.wire.cut()
	proc.sink.Close(context.Background())
	proc.cancel()
}

func (proc *process) ended() bool {
	select {
	case <-proc.done:
		return true
	default:
		return false
	}
}

func (b *bed) killAll() {
	for _, p := range b.running {
		p.kill()
		<-p.done
	}
}

// requireAlive fails the test when a process has ended with an error that nobody
// waits for.
func (b *bed) requireAlive() {
	b.t.Helper()
	for _, p := range b.running {
		if p.ended() && p.err != nil && !p.known {
			b.t.Fatalf("pipeline %q ended: %v", p.name, p.err)
		}
	}
}

// wire is a process's network, until it is cut.
type wire struct {
	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]struct{}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func (w *wire) dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.isCut {
			_ = c.Close()
			return nil, errors.New("network is unreachable")
		}
		w.conns[c] = struct{}{}
		return c, nil
	}
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

// pair is a good record, as add writes it.
type pair struct {
	K string `json:"k"`
	N int    `json:"n"`
}

// copyAndSum writes one row for each record, and a total for each key and partition.
func copyAndSum(t *testing.T, name string, opts ...framework.PipelineOption) *framework.Pipeline[row] {
	t.Helper()
	type keyed = framework.Keyed[string, int]
	in := framework.From(codec.JSON[pair]())
	copies := framework.MapErr(in, func(ctx framework.Context, p pair) (row, error) {
		at := fmt.Sprintf("%s/%d@%d", ctx.Topic(), ctx.Partition(), ctx.Record().Offset)
		return row{Table: "copy", Key: at, Value: add(p.K, p.N)}, nil
	})
	sums := framework.ReduceByKey("sum", framework.Map(in, func(p pair) keyed { return keyed{Key: p.K, Value: p.N} }),
		func(a, b int) int { return a + b })
	totals := framework.MapErr(sums, func(_ framework.Context, k keyed) (row, error) {
		return row{Table: "sum", Key: k.Key, Value: k.Value}, nil
	})
	p, err := framework.NewPipeline(name, framework.Merge(copies, totals), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
