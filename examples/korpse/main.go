// Command korpse counts the requests that failed, by path, batch after batch: it
// reads topics from where a consumer group's offsets say, filters, maps and reduces
// by key, prints the result, and then stores the ranges it has read as the group's
// offsets.
//
//	go run ./examples/korpse --brokers 127.0.0.1:9092 --topics requests --batch-seconds 5 --default-offset earliest
//
// # Guarantee
//
// At least once. What is printed and the offsets are two things, done one after the
// other. If the process dies between them, the next one reads the same ranges again
// and prints the same counts a second time. It cannot be the other way round: no
// record is passed by. Whoever adds up what is printed counts too much after a crash,
// and cannot tell how much.
//
// With --db the same filter, map and reduce run as a pipeline of package framework.
// It saves the counts in a SQLite file, together with the positions, in one
// transaction. So each record counts exactly once, however often the process dies:
//
//	go run ./examples/korpse --brokers 127.0.0.1:9092 --topics requests --default-offset earliest --db counts.db
//
// Without --brokers it shows both: with a Kafka in this process and a temporary
// file, it kills each of the two at its worst moment, starts it again, and compares
// with what was produced.
//
//	go run ./examples/korpse
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
	"strings"
	"syscall"
	"time"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.Error("korpse has failed", "error", err)
		os.Exit(1)
	}
}

// settings are what an operator sets.
type settings struct {
	brokers  []string // none: show both
	topics   []string
	every    time.Duration
	group    string
	client   string
	defaults offsetstore.StartRules

	db       string // "": print
	records  int    // of a batch; 0: any number
	untilEnd bool
	crash    int // 0: never
}

// parseFlags checks all there is to check without a connection.
func parseFlags(args []string, out io.Writer) (s settings, err error) {
	f := flag.NewFlagSet("korpse", flag.ContinueOnError)
	f.SetOutput(out)
	brokers := f.String("brokers", "", "Kafka brokers, `host:port,…` (empty: show both, with a Kafka in this process)")
	topics := f.String("topics", "requests", "topics to read, `topic,…`; a record is a line such as \"GET /cart 503\"")
	seconds := f.Int("batch-seconds", 1, "length of a batch")
	f.IntVar(&s.records, "batch-records", 0, "end a batch at that many records at the latest (0: any number)")
	f.StringVar(&s.group, "group", "korpse", "consumer group whose offsets say where to go on")
	f.StringVar(&s.client, "client-id", "korpse", "name of this process, for the brokers; with --db each process of the group needs its own")
	start := f.String("default-offset", "-1", "where to begin if the group has no offset: -2 or earliest, -1 or latest, a time in milliseconds; also `rule,topic=rule,topic/partition=rule`")
	f.StringVar(&s.db, "db", "", "save the counts in this SQLite `file`, exactly once (empty: print them, at least once)")
	f.BoolVar(&s.untilEnd, "until-end", false, "stop when all is read that is there now")
	f.IntVar(&s.crash, "crash", 0, "kill this process when that many results are out, and nobody knows of the last (0: never)")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.defaults, err = offsetstore.ParseStartRules("--default-offset", *start); err != nil {
		return s, err
	}
	if s.topics, err = offsetstore.ParseTopics("--topics", *topics); err != nil {
		return s, err
	}
	if *brokers != "" {
		if s.brokers, err = offsetstore.ParseBrokers("--brokers", *brokers); err != nil {
			return s, err
		}
	}
	s.every = time.Duration(*seconds) * time.Second
	return s, s.check(f.Args())
}

func (s settings) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q: all settings are flags", rest[0])
	case s.every <= 0:
		return fmt.Errorf("--batch-seconds %v: give 1 or more", s.every.Seconds())
	case s.records < 0:
		return fmt.Errorf("--batch-records %d: give 0 or more", s.records)
	case s.crash < 0:
		return fmt.Errorf("--crash %d: give 0 or more", s.crash)
	case strings.TrimSpace(s.group) == "":
		return errors.New("--group is empty: give the consumer group's name")
	case strings.TrimSpace(s.client) == "":
		return errors.New("--client-id is empty: give this process a name")
	}
	return nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parseFlags(args, out)
	switch {
	case err != nil:
		return err
	case s.brokers == nil:
		return demo(ctx, s, out)
	case s.db != "":
		return save(ctx, s, out)
	default:
		return printBatches(ctx, s, out)
	}
}
