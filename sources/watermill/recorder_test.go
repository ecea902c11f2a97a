package watermill_test

import (
	"context"
	"sync"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// recorder is lanes that keep what they are told. The treaty itself is checked by
// the conformance suite.
type recorder struct {
	t     testing.TB
	start offsetstore.Position
	hold  func() // within each call of Records

	mu      sync.Mutex
	parts   []framework.Partition
	records []framework.Record
	failed  []error
	refused []error // by Start
	starts  sync.WaitGroup
}

func (r *recorder) Assigned(ps []framework.Partition) {
	r.note(func() { r.parts = append(r.parts, ps...) })
	for _, p := range ps {
		r.starts.Go(func() {
			if err := p.Start(context.Background(), r.start); err != nil {
				r.note(func() { r.refused = append(r.refused, err) })
				return
			}
			p.Resume()
		})
	}
}

func (r *recorder) Records(_ framework.Partition, records []framework.Record, _ int64) {
	if r.hold != nil {
		r.hold()
	}
	r.note(func() { r.records = append(r.records, records...) })
}

func (r *recorder) Failed(_ framework.Partition, err error) {
	r.note(func() { r.failed = append(r.failed, err) })
}

func (r *recorder) Revoked(context.Context, []framework.Partition) {}
func (r *recorder) Lost([]framework.Partition)                     {}

func (r *recorder) note(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// wait waits until n records have come, and returns them.
func (r *recorder) wait(n int) (records []framework.Record) {
	r.t.Helper()
	eventually(r.t, "the delivery of the records", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		records = r.records
		return len(records) >= n
	})
	return records
}

// waitRefusal waits until a start was refused or a partition has failed.
func (r *recorder) waitRefusal() (err error) {
	r.t.Helper()
	eventually(r.t, "a refusal", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, errs := range [][]error{r.refused, r.failed} {
			if len(errs) > 0 {
				err = errs[0]
			}
		}
		return err != nil
	})
	return err
}

func (r *recorder) partition() framework.Partition {
	r.t.Helper()
	var p framework.Partition
	eventually(r.t, "an assignment", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.parts) > 0 {
			p = r.parts[len(r.parts)-1]
		}
		return p != nil
	})
	return p
}

// run runs a source until stop is called or the test ends.
func run(t testing.TB, src framework.Source, err error) (lanes *recorder, stop func() error) {
	return runAt(t, 0, src, err)
}

func runAt(t testing.TB, start int64, src framework.Source, err error) (lanes *recorder, stop func() error) {
	t.Helper()
	return newRun(t, start, src, err, nil)
}

func newRun(t testing.TB, start int64, src framework.Source, err error, hold func()) (lanes *recorder, stop func() error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	lanes = &recorder{t: t, start: offsetstore.At(start), hold: hold}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- src.Run(ctx, lanes) }()
	stop = sync.OnceValue(func() error {
		cancel()
		defer lanes.starts.Wait()
		return <-done
	})
	t.Cleanup(func() { _ = stop() }) // tests that care have looked
	return lanes, stop
}

// runErr is the error with which a source ends by itself.
func runErr(t testing.TB, src framework.Source, err error) error {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	lanes := &recorder{t: t}
	defer lanes.starts.Wait()
	return src.Run(ctx, lanes)
}
