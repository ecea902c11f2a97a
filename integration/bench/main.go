package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// options are the flags, and where the servers are.
type options struct {
	only    string
	rounds  int
	records int // of reduce
	rows    int // of load
	waiting int // of memory

	loaderRows, loaderInFlight int // of the bare loader
	copyRows                   int // in one COPY of the bare loader

	enforce   bool
	brokers   []string
	cassandra string
	postgres  string
	quiet     *slog.Logger
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// part is one comparison.
type part struct {
	name string
	run  func(context.Context, options, *report) error
}

var parts = []part{{"reduce", benchReduce}, {"load", benchLoad}, {"postgres", benchPostgres}, {"memory", benchMemory}}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	r := &report{out: out}
	for _, p := range parts {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), p.name) {
			continue
		}
		if err := p.run(ctx, o, r); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	r.print()
	if o.enforce && r.missed > 0 {
		return fmt.Errorf("%d bounds were missed", r.missed)
	}
	return nil
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.only, "only", "", "the parts to run, separated by commas: reduce, load, postgres, memory (default all)")
	fs.IntVar(&o.rounds, "rounds", 3, "how often each side runs; the median counts")
	fs.IntVar(&o.records, "records", 3_000_000, "records to reduce")
	fs.IntVar(&o.rows, "rows", 600_000, "rows to load into a database, enough that joining the group is a small part")
	fs.IntVar(&o.waiting, "waiting", 3_000_000, "records waiting in the memory part")
	fs.IntVar(&o.loaderRows, "loader-rows", 200, "rows in a batch of the bare loader")
	fs.IntVar(&o.loaderInFlight, "loader-in-flight", 32, "batches of the bare loader on their way at once; the default was found by trying")
	fs.IntVar(&o.copyRows, "copy-rows", 5000, "rows in one COPY of the bare loader; the default was found by trying")
	fs.BoolVar(&o.enforce, "enforce", true, "exit with 1 when a bound is missed")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if min(o.rounds, o.records, o.rows, o.waiting, o.loaderRows, o.loaderInFlight, o.copyRows) < 1 {
		return o, errors.New("every number must be positive")
	}
	o.quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o.cassandra, o.postgres = os.Getenv(servers.EnvCassandra), os.Getenv(servers.EnvPostgres)
	var err error
	o.brokers, err = offsetstore.ParseBrokers(servers.EnvKafka, os.Getenv(servers.EnvKafka))
	if err != nil || o.cassandra == "" {
		return o, fmt.Errorf("no servers; run `make bench` (%w)", err)
	}
	return o, nil
}
