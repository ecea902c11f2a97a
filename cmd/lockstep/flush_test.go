package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// flushing is a sink that notes what is flushed.
type flushing struct {
	positionsOnly
	flushed *[]string
}

func (f flushing) Flush(_ context.Context, pipeline string, tp offsetstore.TopicPartition) error {
	if tp.Partition == 2 {
		return framework.ErrUnavailable
	}
	*f.flushed = append(*f.flushed, pipeline+" "+tp.String())
	return nil
}

func pendingAt(partition int32, pending bool) framework.StoredPosition {
	return framework.StoredPosition{
		Pipeline: "p", TopicPartition: offsetstore.TopicPartition{Topic: "orders", Partition: partition},
		Progress: framework.Progress{Position: offsetstore.At(17)}, Pending: pending,
	}
}

func TestFlushFinishesWhatIsInScope(t *testing.T) {
	var flushed []string
	v := &view{sink: flushing{positionsOnly{pendingAt(0, true), pendingAt(1, false), pendingAt(2, true), pendingAt(3, true)}, &flushed}}
	var out, errs strings.Builder
	v.scope.partitions = []int32{0, 1}
	if err := v.flush(t.Context(), &out, &errs); err != nil {
		t.Fatal(err)
	}
	if want := "p: orders/0: finished: everything before offset 17 is visible\np: orders/1: nothing was left to finish\n"; out.String() != want {
		t.Errorf("it says %q, want %q", out.String(), want)
	}
	v.scope.partitions = nil
	err := v.flush(t.Context(), &out, &errs)
	if !errors.Is(err, framework.ErrUnavailable) || !strings.Contains(err.Error(), "orders/2: unavailable; not looked at: orders/3") {
		t.Errorf("an error in the middle is %v", err)
	}
	if got := strings.Join(flushed, ", "); got != "p orders/0, p orders/1, p orders/0, p orders/1" {
		t.Errorf("flushed were %s", got)
	}
}

func TestASinkWithoutThePowerIsTold(t *testing.T) {
	var out, errs strings.Builder
	v := &view{sink: positionsOnly{pendingAt(0, false)}}
	if err := v.flush(t.Context(), &out, &errs); err != nil || !strings.Contains(errs.String(), "nothing is left to finish") {
		t.Errorf("with nothing pending: %v, %q", err, errs.String())
	}
	v.sink = positionsOnly{pendingAt(0, true)}
	for _, test := range []struct {
		do   func() error
		want string
	}{
		{func() error { return v.flush(t.Context(), &out, &errs) }, "this sink cannot finish saves without a claim: it is no framework.Flusher"},
		{func() error { _, err := v.letters(t.Context()); return err }, "this sink cannot list dead letters: it is no framework.DeadLetterLister"},
		{func() error { return (&dropLetters{view: v}).drop(t.Context()) }, "this sink cannot drop dead letters: it is no framework.DeadLetterDropper"},
		{func() error { return (&totals{view: v}).show(t.Context()) }, "this sink cannot list the totals of reductions: it is no framework.StateLister"},
		{func() error { return (&change{sink: v.sink}).work(t.Context(), nil) }, "this sink cannot move positions: it is no framework.Resetter"},
	} {
		if err := test.do(); err == nil || err.Error() != test.want {
			t.Errorf("the error is %v, want %s", err, test.want)
		}
	}
}

func TestFlushOfASinkThatHasNothingToFinish(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.wantSink(exitOK, []string{"no positions are stored"}, "flush")
	b.claimAndDie(0)
	b.wantSink(exitOK, []string{"nothing is left to finish"}, "flush")
	b.wantSink(exitFailed, []string{`--pipeline "x": it has no positions; there are some of "spending"`}, "flush", "--pipeline", "x")
}
