package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sources/kafka"
)

// streaming holds the settings of the streaming program.
type streaming struct {
	batch    int
	brokers  string
	group    string
	hold     int64
	instance string
	sink     string
	stdin    bool
	tell     bool
	topic    string
	wait     time.Duration
}

func (s *streaming) flags() *flag.FlagSet {
	f := flag.NewFlagSet("streaming", flag.ContinueOnError)
	f.IntVar(&s.batch, "batch", 0, "save at that many records at the latest (0: the framework's default)")
	f.StringVar(&s.brokers, "brokers", "127.0.0.1:9092", "Kafka brokers, `host:port,…`")
	f.StringVar(&s.group, "group", Name, "Kafka consumer group")
	f.Int64Var(&s.hold, "hold", 0, "stand still after saving that many records (0: never); for who wants to kill the program there")
	f.StringVar(&s.instance, "instance", "", "name of this process within the group, so that a restart keeps its partitions (empty: none)")
	f.StringVar(&s.sink, "sink", "cassandra://127.0.0.1:9042/exactlyonce", "where to save: cassandra://hosts/keyspace, postgres://host/database or sqlite://path")
	f.BoolVar(&s.stdin, "stdin", false, "stop when standard input ends")
	f.BoolVar(&s.tell, "tell", false, "print the position of a partition to standard output when it is claimed and at each save, see ParsePosition")
	f.StringVar(&s.topic, "topic", Topic, "topic of the events")
	f.DurationVar(&s.wait, "wait", time.Minute, "how long to wait for Kafka and Cassandra to be up, and for the topic to exist")
	return f
}

// Streaming is the streaming program: it creates the tables that do not exist
// yet and runs the pipeline until ctx ends. It logs to stderr. Wrong settings
// are refused with an error that matches [framework.ErrConfig] before anything
// is connected to. A stop that comes while it still starts is no error.
func Streaming(ctx context.Context, args []string, stderr io.Writer) error {
	var s streaming
	if err := ParseFlags(s.flags(), args, stderr); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	source, db, err := s.parts(log)
	if err != nil {
		return err
	}
	if s.stdin {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		go stopAtEOF(os.Stdin, stop) // ends with the process: a read of stdin cannot be cut short
	}
	err = stream(ctx, source, db, s.config(ctx, log), log)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

func stream(ctx context.Context, source framework.Source, db Database, cfg framework.Config, log *slog.Logger) error {
	if err := db.Migrate(ctx); err != nil {
		return err
	}
	var reports sync.WaitGroup
	defer reports.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	return db.Run(ctx, source, cfg, func(r *framework.Runner) {
		reports.Go(func() { report(ctx, r, log) })
	})
}

// parts checks all settings and makes what they describe.
func (s *streaming) parts(log *slog.Logger) (framework.Source, Database, error) {
	switch {
	case s.batch < 0:
		return nil, nil, fmt.Errorf("%w: --batch %d: give 0 or more", framework.ErrConfig, s.batch)
	case s.hold < 0:
		return nil, nil, fmt.Errorf("%w: --hold %d: give 0 or more", framework.ErrConfig, s.hold)
	case s.wait <= 0:
		return nil, nil, fmt.Errorf("%w: --wait %v: give more than 0", framework.ErrConfig, s.wait)
	case s.group == "":
		return nil, nil, fmt.Errorf("%w: --group is empty; give the consumer group's name", framework.ErrConfig)
	}
	brokers, err := Brokers(s.brokers)
	if err != nil {
		return nil, nil, err
	}
	topic, err := OneTopic(s.topic)
	if err != nil {
		return nil, nil, err
	}
	db, err := ParseDatabase("--sink", s.sink, s.wait, log)
	if err != nil {
		return nil, nil, err
	}
	source, err := kafka.New(kafka.Config{
		Brokers: brokers, Topics: []string{topic}, Group: s.group, InstanceID: s.instance,
		ClientID: "exactlyonce-streaming", StartWait: s.wait, TopicWait: s.wait, Logger: log,
	})
	if err != nil {
		return nil, nil, err
	}
	return source, db, nil
}

func (s *streaming) config(ctx context.Context, log *slog.Logger) framework.Config {
	cfg := framework.Config{BatchRecords: s.batch, Logger: log}
	if s.tell {
		cfg.Hooks = tellPositions(os.Stdout)
	}
	if s.hold > 0 {
		cfg.Hooks.Saved = both(cfg.Hooks.Saved, holdAfter(ctx, s.hold))
	}
	return cfg
}

// both returns a hook that calls two, of which the first may be nil.
func both[E any](first, second func(E)) func(E) {
	if first == nil {
		return second
	}
	return func(e E) {
		first(e)
		second(e)
	}
}

// holdAfter returns a hook that keeps every lane, once it has saved, until ctx
// ends, as soon as n records are saved by all of them together. At most one
// more batch a lane is saved then.
func holdAfter(ctx context.Context, n int64) func(framework.SavedEvent) {
	var saved atomic.Int64
	return func(e framework.SavedEvent) {
		if saved.Add(int64(e.Records)) >= n {
			<-ctx.Done()
		}
	}
}

func stopAtEOF(r io.Reader, stop func()) {
	_, _ = io.Copy(io.Discard, r) // however it ends, it has ended
	stop()
}

// report logs the positions every ten seconds until ctx ends, each when it has
// changed.
func report(ctx context.Context, r *framework.Runner, log *slog.Logger) {
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	said := map[offsetstore.TopicPartition]laneReport{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, lane := range news(said, r.Lanes()) {
			log.Info("position", "lane", lane.TopicPartition, "phase", lane.Phase, "next_offset", lane.Position.Offset, "read", lane.Counters.Read, "filtered", lane.Counters.Filtered)
		}
	}
}

// laneReport is what a report says of a lane.
type laneReport struct {
	phase    framework.Phase
	offset   int64
	counters framework.Counters
}

// news returns the lanes of which something else is to be said than last time,
// and takes note of it.
func news(said map[offsetstore.TopicPartition]laneReport, lanes []framework.LaneStatus) (changed []framework.LaneStatus) {
	for _, lane := range lanes {
		now := laneReport{lane.Phase, lane.Position.Offset, lane.Counters}
		if last, ok := said[lane.TopicPartition]; !ok || last != now {
			changed = append(changed, lane)
		}
		said[lane.TopicPartition] = now
	}
	return changed
}
