package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func TestLagComparesWithTheLogs(t *testing.T) {
	t.Parallel()
	b := processed(t)
	b.produce(1, 30, 40)
	out := b.want(exitOK, nil, "lag")
	var rows []string
	for line := range strings.Lines(out) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	for i, want := range []string{"PIPELINE TOPIC PARTITION NEXT GROUP LOG LAG AGE", "spending orders 0 3 3 0..3 0 ", "spending orders 1 2 2 0..4 2 ", "spending orders 2 1 1 0..1 0 "} {
		if i >= len(rows) || !strings.HasPrefix(rows[i], want) {
			t.Fatalf("line %d of %q, want %q", i, rows, want)
		}
	}
	out = b.want(exitOK, nil, "lag", "--partition", "1", "--output", "json")
	l := line{logLine: &logLine{}}
	if err := json.Unmarshal([]byte(out), &l); err != nil || *l.Lag != 2 || *l.GroupOffset != 2 || *l.LogEnd != 4 || l.AgeSeconds == nil {
		t.Errorf("JSON is %s (%v)", out, err)
	}
	if _, stdout, _ := lockstep(t, "positions", "--sink", b.dsn, "--output", "json"); strings.Contains(stdout, "log_end") {
		t.Errorf("without --brokers the log is in %s", stdout)
	}
	b.want(exitOK, []string{"GROUP", "LAG", "0..4", "READ"}, "positions")
	b.want(exitOK, []string{"spending  orders  1          2     -      0..4"}, "lag", "--group", "another")
	b.want(exitFailed, []string{`--pipeline "x": it has no positions; there are some of "spending"`}, "lag", "--pipeline", "x")
}

func TestLagChecksItsOptions(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"lag --sink sqlite://x.db", "--brokers is missing"},
		{"lag --sink sqlite://x.db --brokers h:1 --watch --interval 1ms", "--interval 1ms: give 100ms or more"},
		{"lag --brokers h:1", "--sink is missing"},
	} {
		code, _, stderr := lockstep(t, strings.Fields(c.args)...)
		if code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit %d, %q", c.args, code, stderr)
		}
	}
}

func TestAKafkaThatCannotBeReachedIsAFailure(t *testing.T) {
	t.Parallel()
	b := processed(t)
	for _, wait := range []string{"0", "300ms"} {
		code, _, stderr := lockstep(t, "lag", "--sink", b.dsn, "--brokers", "127.0.0.1:1", "--wait", wait)
		if code != exitFailed || !strings.Contains(stderr, "asking Kafka (--brokers) for topics") || !strings.Contains(stderr, "127.0.0.1:1") {
			t.Errorf("--wait %s: exit %d, %q", wait, code, stderr)
		}
	}
	code, out, stderr := lockstep(t, "positions", "--sink", b.dsn, "--brokers", "127.0.0.1:1", "--wait", "0")
	if code != exitFailed || !strings.Contains(out, "spending  orders  0          3 ") || strings.Contains(out, "LAG") || !strings.Contains(stderr, "127.0.0.1:1") {
		t.Errorf("what the sink knows is not shown: exit %d, %q, %q", code, out, stderr)
	}
}

// stopAfter is a writer that ends the command once it has seen a text n times.
type stopAfter struct {
	bytes.Buffer
	text string
	n    int
	stop context.CancelFunc
}

func (w *stopAfter) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Count(w.String(), w.text) >= w.n {
		w.stop()
	}
	return n, err
}

func TestLagWatchTellsTheRate(t *testing.T) {
	t.Parallel()
	b := processed(t)
	ctx, cancel := context.WithCancel(t.Context())
	out := &stopAfter{text: "PIPELINE", n: 3, stop: cancel}
	rounds := 0
	p := &program{slog.New(slog.DiscardHandler), func() time.Time { rounds++; return second.Add(time.Duration(rounds) * time.Second) }}
	var errs bytes.Buffer
	code := p.run(ctx, []string{"lag", "--sink", b.dsn, "--brokers", b.brokers, "--watch", "--interval", "100ms"}, out, &errs)
	if code != exitOK || errs.Len() > 0 || !strings.Contains(out.String(), "2026-05-01 12:00:01\nPIPELINE") {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
	if !strings.Contains(out.String(), "RATE") || !strings.Contains(out.String(), " 0/s ") {
		t.Errorf("no rate in %q", out.String())
	}
}

func TestConditionsOfAPosition(t *testing.T) {
	id, other := offsetstore.TopicID{1}, offsetstore.TopicID{2}
	logs := map[string]topicLog{"orders": {id, map[int32]partitionLog{0: {10, 20, 20}}}}
	for _, c := range []struct {
		topic     string
		partition int32
		position  offsetstore.Position
		want      string
	}{
		{"orders", 0, offsetstore.Position{Offset: 15, TopicID: id}, ""},
		{"orders", 0, offsetstore.Position{Offset: 15}, ""},
		{"orders", 0, offsetstore.Position{Offset: 9, TopicID: id}, "below log start"},
		{"orders", 0, offsetstore.Position{Offset: 21, TopicID: id}, "above log end"},
		{"orders", 0, offsetstore.Position{Offset: 15, TopicID: other}, "topic recreated"},
		{"orders", 1, offsetstore.Position{Offset: 15, TopicID: id}, "partition is gone"},
		{"others", 0, offsetstore.Position{Offset: 15, TopicID: id}, "topic is gone"},
	} {
		s := standing{StoredPosition: framework.StoredPosition{
			TopicPartition: offsetstore.TopicPartition{Topic: c.topic, Partition: c.partition},
			Progress:       framework.Progress{Position: c.position},
		}}
		s.compare(logs)
		if s.condition != c.want {
			t.Errorf("%s/%d at %d: %q, want %q", c.topic, c.partition, c.position.Offset, s.condition, c.want)
		}
	}
}

func TestAges(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": -time.Hour, "59s": 59 * time.Second, "1m01s": 61 * time.Second, "2h05m": 2*time.Hour + 5*time.Minute, "3d01h": 73 * time.Hour,
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// flaky is a sink that fails the second time it is asked.
type flaky struct {
	positionsOnly
	asked *int
}

func (f flaky) Positions(ctx context.Context, pipeline string) ([]framework.StoredPosition, error) {
	if *f.asked++; *f.asked == 2 {
		return nil, framework.ErrUnavailable
	}
	return f.positionsOnly.Positions(ctx, pipeline)
}

func TestLagWatchGoesOnAfterAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := &stopAfter{text: "orders", n: 2, stop: cancel}
	var errs bytes.Buffer
	asked := 0
	v := &view{program: &program{slog.New(slog.DiscardHandler), time.Now}, kafka: &kafkaFlags{}, sink: flaky{positionsOnly{pendingAt(0, false)}, &asked}}
	if err := (&lagReport{view: v, out: out, errs: &errs}).watch(ctx, time.Millisecond); err != nil || errs.String() != "lockstep: unavailable\n" || asked != 3 {
		t.Errorf("%v, %q, asked %d times", err, errs.String(), asked)
	}
	asked = 1
	if err := (&lagReport{view: v, out: out, errs: &errs}).watch(t.Context(), time.Millisecond); !errors.Is(err, framework.ErrUnavailable) {
		t.Errorf("an error at the beginning is %v", err)
	}
}
