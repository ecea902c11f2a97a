package app

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// TestStreamingRefusesWrongSettings wants each refused by the flag's name and its
// value. Nothing listens at the addresses: whoever connected would find a server
// unavailable, not a setting wrong.
func TestStreamingRefusesWrongSettings(t *testing.T) {
	cases := []struct {
		args string
		says string
	}{
		{"-brokers h1", `--brokers "h1"`},
		{"-brokers kafka://h1:9092", `--brokers "kafka://h1:9092"`},
		{"-brokers ,", `--brokers ",": no brokers`},
		{"-topic in/2", `--topic "in/2"`},
		{"-topic a,b", `--topic "a,b"`},
		{"-group=", "--group is empty"},
		{"-sink mysql://h/db", `--sink "mysql://h/db": configuration: unknown scheme "mysql"`},
		{"-sink nothing", `--sink "nothing": configuration: no scheme`},
		{"-sink=", `--sink "": configuration: no scheme`},
		{"-sink cassandra://h", `--sink "cassandra://h": cassandra: data source name: configuration: the keyspace`},
		{"-sink cassandra://h/k?colour=red", `--sink "cassandra://h/k?colour=red"`},
		{"-sink postgres://h", `--sink "postgres://h": sql: configuration: DSN names no database`},
		{"-sink sqlite://x.db?colour=red", `--sink "sqlite://x.db?colour=red"`},
		{"-sink sqlite://", `--sink "sqlite://"`},
		{"-batch -1", "configuration: --batch -1: give"},
		{"-hold -1", "configuration: --hold -1: give"},
		{"-hold many", `invalid value "many" for flag --hold`},
		{"-wait 0s", "--wait 0s"},
		{"-speed 9", "--speed"},
		{"now", "now"},
	}
	for _, c := range cases {
		err := Streaming(t.Context(), strings.Fields(c.args), io.Discard)
		if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want ErrConfig with %q", c.args, err, c.says)
		}
		if exitCode(io.Discard, err) != 2 {
			t.Errorf("%s: exit code %d, want 2", c.args, exitCode(io.Discard, err))
		}
	}
}

func TestPasswordsAreNotInErrors(t *testing.T) {
	_, err := ParseDatabase("--sink", "cassandra://user:secret@h:x/k", time.Minute, slog.New(slog.DiscardHandler))
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), `--sink "cassandra://…@h:x/k"`) {
		t.Errorf("got %v, want the value without its login", err)
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	var out bytes.Buffer
	err := Streaming(t.Context(), []string{"-help"}, &out)
	if !errors.Is(err, flag.ErrHelp) || exitCode(io.Discard, err) != 0 {
		t.Errorf("-help: %v", err)
	}
	for _, name := range []string{"\n  --brokers host:port", "\n  --sink", "\n  --topic"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("help does not mention %s:\n%s", name, out.String())
		}
	}
}

func TestExitCodes(t *testing.T) {
	var out bytes.Buffer
	if exitCode(&out, nil) != 0 || out.Len() > 0 {
		t.Errorf("no error: code %d, output %q", exitCode(&out, nil), &out)
	}
	if code := exitCode(&out, fmt.Errorf("it: %w", framework.ErrUnavailable)); code != 1 || !strings.Contains(out.String(), "it: unavailable") {
		t.Errorf("code %d, output %q", code, &out)
	}
}

// TestHoldKeepsEveryLane saves from three lanes at once and looks how far they
// get.
func TestHoldKeepsEveryLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		hook := holdAfter(ctx, 10)
		var saves atomic.Int64
		for range 3 {
			go func() {
				for range 100 { // far more than it may
					saves.Add(1)
					hook(framework.SavedEvent{Records: 2})
				}
			}()
		}
		synctest.Wait() // until all are held
		if n := saves.Load(); n < 5 || n > 7 {
			t.Errorf("%d saves of 2 records, want 5 and at most one more from each other lane", n)
		}
		cancel()
	})
}

func TestWhatIsToldCanBeParsed(t *testing.T) {
	var out bytes.Buffer
	tell := tellPositions(&out)
	tp := offsetstore.TopicPartition{Topic: "in", Partition: 2}
	tell.Claimed(framework.ClaimedEvent{TopicPartition: tp, Position: offsetstore.At(5)})
	both(tell.Saved, func(framework.SavedEvent) {})(framework.SavedEvent{TopicPartition: tp, From: 5, To: 1 << 40})
	for _, want := range []int64{5, 1 << 40} {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if partition, next, err := ParsePosition(line); partition != 2 || next != want || err != nil {
			t.Errorf("%q: partition %d at %d, %v, want 2 at %d", line, partition, next, err, want)
		}
	}
}

func TestTheWaitForCassandraIsThatOfTheFlagUnlessTheNameHasOne(t *testing.T) {
	for dsn, want := range map[string]time.Duration{
		"cassandra://h/k":               3 * time.Second,
		"cassandra://h/k?start_wait=9s": 9 * time.Second,
	} {
		db, err := ParseDatabase("--sink", dsn, 3*time.Second, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if got := db.(*cassandraDB).cfg.StartWait; got != want {
			t.Errorf("%s waits %v, want %v", dsn, got, want)
		}
	}
}

func TestAReportRepeatsNothing(t *testing.T) {
	said := map[offsetstore.TopicPartition]laneReport{}
	lanes := []framework.LaneStatus{
		{TopicPartition: offsetstore.TopicPartition{Topic: "in"}, Position: offsetstore.At(1)},
		{TopicPartition: offsetstore.TopicPartition{Topic: "in", Partition: 1}, Position: offsetstore.At(1)},
	}
	if got := news(said, lanes); len(got) != 2 {
		t.Errorf("the first report has %d lanes, want both", len(got))
	}
	if got := news(said, lanes); len(got) != 0 {
		t.Errorf("nothing has changed, but the report has %v", got)
	}
	lanes[1].Position = offsetstore.At(2)
	if got := news(said, lanes); len(got) != 1 || got[0].TopicPartition.Partition != 1 {
		t.Errorf("one lane has moved, but the report has %v", got)
	}
}

func TestTheWaitForPostgresIsThatOfTheFlagUnlessTheNameHasOne(t *testing.T) {
	for dsn, want := range map[string]time.Duration{
		"postgres://h/db":                 3 * time.Second,
		"postgresql://h/db?start_wait=9s": 9 * time.Second,
	} {
		db, err := ParseDatabase("--sink", dsn, 3*time.Second, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if got := db.(*postgresDB).cfg.StartWait; got != want {
			t.Errorf("%s waits %v, want %v", dsn, got, want)
		}
	}
}
