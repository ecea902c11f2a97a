// Command exactlyonce shows what the project is for. It writes events to Kafka,
// runs a pipeline that saves them and counts alerts, kills the pipeline's process
// at random moments, starts it again, and compares the tables with what was
// produced:
//
//	go run ./examples/exactlyonce
//
// Kafka is one in this process and the database a SQLite file in a temporary
// directory, unless flags name real ones:
//
//	go run ./examples/exactlyonce --brokers 127.0.0.1:9092 --sink cassandra://127.0.0.1:9042/exactlyonce
//
// The check has to know every event of the topic, so the topic must be empty or
// missing, and the database must not know it yet. A second run against the same
// servers therefore needs another --topic; rows of other topics are left alone.
//
// The exit code is 0 if the tables hold exactly what was produced.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/framework"
)

func main() {
	// The pipeline's process is this program again.
	if len(os.Args) > 1 && os.Args[1] == streamingCommand {
		app.Main(func(ctx context.Context, args []string) error { return app.Streaming(ctx, args[1:], os.Stderr) })
	}
	app.Main(func(ctx context.Context, args []string) error { return run(ctx, args, os.Stdout) })
}

// settings are those of the demo.
type settings struct {
	brokers string
	crashes int
	events  int
	seed    uint64
	sink    string
	topic   string
	wait    time.Duration
}

func (s *settings) flags() *flag.FlagSet {
	f := flag.NewFlagSet("exactlyonce", flag.ContinueOnError)
	f.StringVar(&s.brokers, "brokers", "", "Kafka brokers, `host:port,…` (empty: a Kafka in this process)")
	f.IntVar(&s.crashes, "crashes", 3, "how often to kill the pipeline's process (0: never)")
	f.IntVar(&s.events, "events", 100_000, "how many events to produce")
	f.Uint64Var(&s.seed, "seed", 0, "seed of the events and of the moments of the crashes (0: any)")
	f.StringVar(&s.sink, "sink", "", "where to save: cassandra://hosts/keyspace, postgres://host/database or sqlite://path (empty: a temporary SQLite file)")
	f.StringVar(&s.topic, "topic", app.Topic, "topic of the events; it must be empty or missing")
	f.DurationVar(&s.wait, "wait", time.Minute, "how long to wait for Kafka, and for Cassandra, to be up")
	return f
}

// eventsPerCrash is how many events it takes to crash strictly inside the log
// each time.
const eventsPerCrash = 20

func (s *settings) check() (err error) {
	switch least := eventsPerCrash * (s.crashes + 1); {
	case s.crashes < 0:
		return fmt.Errorf("%w: --crashes %d: give 0 or more", framework.ErrConfig, s.crashes)
	case s.events < least:
		return fmt.Errorf("%w: --events %d: give at least %d for %d crashes", framework.ErrConfig, s.events, least, s.crashes)
	case s.wait <= 0:
		return fmt.Errorf("%w: --wait %v: give more than 0", framework.ErrConfig, s.wait)
	}
	if s.seed == 0 {
		s.seed = rand.Uint64()
	}
	if s.brokers != "" {
		if _, err := app.Brokers(s.brokers); err != nil {
			return err
		}
	}
	s.topic, err = app.OneTopic(s.topic)
	return err
}

// run is the demo. What it has to say goes to out.
func run(ctx context.Context, args []string, out io.Writer) error {
	var s settings
	if err := app.ParseFlags(s.flags(), args, out); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if s.sink == "" {
		dir, err := os.MkdirTemp("", "exactlyonce-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		s.sink = "sqlite://" + (&url.URL{Path: filepath.ToSlash(filepath.Join(dir, "exactlyonce.db"))}).EscapedPath()
	}
	d, err := newDemo(ctx, s, out)
	if err != nil {
		return err
	}
	defer d.close()
	return d.run(ctx)
}
