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
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// TestStreamingRefusesWrongSettings wants each refused at once, by name. Nothing
// listens at the addresses: whoever connected would wait for a minute.
func TestStreamingRefusesWrongSettings(t *testing.T) {
	cases := []struct {
		args string
		says string
	}{
		{"-brokers h1", "-brokers"},
		{"-brokers kafka://h1:9092", "kafka://"},
		{"-brokers ,", "no brokers"},
		{"-topic in/2", "-topic"},
		{"-topic a,b", "-topic"},
		{"-group=", "-group"},
		{"-sink mysql://h/db", `unknown scheme "mysql"`},
		{"-sink nothing", "no scheme"},
		{"-sink=", "-sink"},
		{"-sink cassandra://h", "keyspace"},
		{"-sink cassandra://h/k?colour=red", "colour"},
		{"-sink sqlite://x.db?colour=red", "colour"},
		{"-sink sqlite://", "-sink"},
		{"-batch -1", "-batch"},
		{"-hold -1", "-hold"},
		{"-hold many", "-hold"},
		{"-wait 0s", "-wait"},
		{"-speed 9", "-speed"},
		{"now", "now"},
	}
	for _, c := range cases {
		start := time.Now()
		err := Streaming(t.Context(), strings.Fields(c.args), io.Discard)
		if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want ErrConfig with %q", c.args, err, c.says)
		}
		if exitCode(io.Discard, err) != 2 {
			t.Errorf("%s: exit code %d, want 2", c.args, exitCode(io.Discard, err))
		}
		if time.Since(start) > 30*time.Second {
			t.Errorf("%s: took %v: something was connected to", c.args, time.Since(start))
		}
	}
}

func TestPasswordsAreNotInErrors(t *testing.T) {
	_, err := ParseDatabase("--sink", "cassandra://user:secret@h:x/k", time.Minute, slog.New(slog.DiscardHandler))
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
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
	ctx, cancel := context.WithCancel(t.Context())
	hook := holdAfter(ctx, 10)
	ended := make(chan int)
	for range 3 {
		go func() {
			saves := 0
			for ctx.Err() == nil {
				hook(framework.SavedEvent{Records: 2})
				saves++
			}
			ended <- saves
		}()
	}
	time.Sleep(50 * time.Millisecond) // for a hook that does not hold to run away
	cancel()
	total := 0
	for range 3 {
		total += <-ended
	}
	if total < 5 || total > 7 {
		t.Errorf("%d saves of 2 records, want 5 and at most one more from each other lane", total)
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
