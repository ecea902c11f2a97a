package generate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/framework"
)

// program holds the settings of the generator program.
type program struct {
	brokers string
	count   int
	first   int64
	rate    int
	seed    uint64
	topic   string
	wait    time.Duration
}

func (p *program) flags() *flag.FlagSet {
	f := flag.NewFlagSet("generator", flag.ContinueOnError)
	f.StringVar(&p.brokers, "brokers", "127.0.0.1:9092", "Kafka brokers, `host:port,…`")
	f.IntVar(&p.count, "count", 0, "how many events to write (0: until stopped)")
	f.Int64Var(&p.first, "first", 0, "ID of the first event (0: the time in nanoseconds, so that runs do not repeat IDs)")
	f.IntVar(&p.rate, "rate", 1000, "events a second (0: as fast as possible)")
	f.Uint64Var(&p.seed, "seed", 0, "seed of the random numbers (0: any)")
	f.StringVar(&p.topic, "topic", app.Topic, "topic to write to; it is created if it does not exist")
	f.DurationVar(&p.wait, "wait", time.Minute, "how long to wait for Kafka to be up")
	return f
}

// Program is the generator program: it writes events until it has written as
// many as it should, or ctx ends. It logs to stderr. Wrong settings are refused
// with an error that matches [framework.ErrConfig] before anything is connected
// to.
func Program(ctx context.Context, args []string, stderr io.Writer) error {
	var p program
	if err := app.ParseFlags(p.flags(), args, stderr); err != nil {
		return err
	}
	brokers, err := p.check()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	producer, err := Connect(ctx, brokers, p.topic, p.wait, log)
	if err != nil {
		return stopped(ctx, err)
	}
	defer producer.Close()
	if err := producer.CreateTopic(ctx); err != nil {
		return stopped(ctx, err)
	}
	return p.produce(ctx, producer, log)
}

// check refuses what cannot work, and fills in what was left to chance.
func (p *program) check() (brokers []string, err error) {
	for name, value := range map[string]int64{"count": int64(p.count), "first": p.first, "rate": int64(p.rate)} {
		if value < 0 {
			return nil, fmt.Errorf("%w: --%s %d: give 0 or more", framework.ErrConfig, name, value)
		}
	}
	if p.wait <= 0 {
		return nil, fmt.Errorf("%w: --wait %v: give more than 0", framework.ErrConfig, p.wait)
	}
	if p.topic, err = app.OneTopic(p.topic); err != nil {
		return nil, err
	}
	if p.count == 0 {
		p.count = int(^uint(0) >> 1)
	}
	if p.first == 0 {
		p.first = time.Now().UnixNano()
	}
	if p.seed == 0 {
		p.seed = rand.Uint64()
	}
	return app.Brokers(p.brokers)
}

func (p *program) produce(ctx context.Context, producer *Producer, log *slog.Logger) error {
	written, ends := 0, map[int32]int64{}
	lastSaid := time.Now()
	say := func() { log.Info("written", "topic", p.topic, "events", written, "ends", ends) }
	g := NewGenerator(p.seed, p.first, time.Now(), p.step())
	err := producer.Produce(ctx, p.count, p.rate, g.Next,
		func(partition int32, offset int64, _ app.Event) {
			written++
			ends[partition] = offset + 1
			if now := time.Now(); now.Sub(lastSaid) >= 5*time.Second {
				lastSaid = now
				say()
			}
		})
	if err = stopped(ctx, err); err == nil {
		say()
	}
	return err
}

// step lets the events' own time pass as fast as they are written, or, without a
// rate, at a hundred events a second.
func (p *program) step() time.Duration {
	if p.rate == 0 {
		return 10 * time.Millisecond
	}
	return time.Second / time.Duration(p.rate)
}

// stopped returns nil for an error that only says that ctx ended.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}
