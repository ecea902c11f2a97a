package sinktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// env is what one case works with. Names are its own.
type env[W any] struct {
	h        Harness[W]
	ctx      context.Context
	r        reporter
	rule     string
	pipeline string // random, so that no other case or run shares it

	mu     sync.Mutex
	opened []framework.Sink[W]
}

// fatalf ends the case: it states the rule, then what was seen instead. It must
// be called from the case's own goroutine.
func (e *env[W]) fatalf(format string, args ...any) {
	e.r.Helper()
	e.errorf(format, args...)
	e.r.FailNow()
}

func (e *env[W]) errorf(format string, args ...any) {
	e.r.Helper()
	e.r.Errorf("\nrule: %s\nseen: %s", e.rule, fmt.Sprintf(format, args...))
}

// open starts another process, so to speak: a new handle to the same store.
func (e *env[W]) open() framework.Sink[W] {
	e.r.Helper()
	s, err := e.h.Open(e.ctx)
	if err != nil {
		e.fatalf("the sink could not be opened: %v", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened = append(e.opened, s)
	return s
}

// closeAll closes every handle, also those a case has closed already: a second
// Close does nothing.
func (e *env[W]) closeAll() {
	for _, s := range e.opened {
		if err := s.Close(context.WithoutCancel(e.ctx)); err != nil {
			e.errorf("Close returned %v", err)
		}
	}
}

// key returns a row key that only this case uses.
func (e *env[W]) key(format string, args ...any) string {
	return e.pipeline + "/" + fmt.Sprintf(format, args...)
}

// claim claims l from offset 0 through a new handle.
func (e *env[W]) claim(l lane) framework.Claim[W] {
	e.r.Helper()
	return e.claimOn(e.open(), l, offsetstore.At(0))
}

func (e *env[W]) claimOn(s framework.Sink[W], l lane, start offsetstore.Position) framework.Claim[W] {
	e.r.Helper()
	c, err := s.Claim(e.ctx, l.pipeline, l.tp, start)
	if err != nil {
		e.fatalf("pipeline %q: Claim of %s returned %v", l.pipeline, l.tp, err)
	}
	return c
}

// save saves b, which the treaty obliges the sink to accept.
func (e *env[W]) save(c framework.Claim[W], b *framework.Batch[W]) {
	e.r.Helper()
	if err := c.Save(e.ctx, b); err != nil {
		e.fatalf("Save from %d to %d returned %v", b.From.Position.Offset, b.To.Position.Offset, err)
	}
}

func (e *env[W]) release(c framework.Claim[W]) {
	e.r.Helper()
	if err := c.Release(e.ctx); err != nil {
		e.fatalf("Release returned %v", err)
	}
}

func (e *env[W]) load(c framework.Claim[W], keys ...framework.StateKey) [][]byte {
	e.r.Helper()
	values, err := c.Load(e.ctx, keys)
	if err != nil {
		e.fatalf("Load returned %v", err)
	}
	if len(values) != len(keys) {
		e.fatalf("Load of %d keys returned %d values", len(keys), len(values))
	}
	return values
}

func (e *env[W]) rows(keys ...string) map[string]string {
	e.r.Helper()
	rows, err := e.h.Rows(e.ctx, keys)
	if err != nil {
		e.fatalf("the rows could not be read: %v", err)
	}
	return rows
}

// wantRows compares the rows of want's keys, "" meaning that there is none.
func (e *env[W]) wantRows(want map[string]string) {
	e.r.Helper()
	got := e.rows(slices.Sorted(maps.Keys(want))...)
	for key, value := range want {
		if got[key] != value {
			e.fatalf("row %q holds %s, want %s", key, shorten(got[key]), shorten(value))
		}
	}
}

// shorten quotes a value for a message.
func shorten(s string) string {
	const most = 60
	switch {
	case s == "":
		return "nothing"
	case len(s) > most:
		return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
	default:
		return fmt.Sprintf("%q", s)
	}
}

// wantSaveError checks the form of a failed save: a *SaveError, spent if the
// outcome is unknown or the sink closed.
func (e *env[W]) wantSaveError(err error) *framework.SaveError {
	e.r.Helper()
	var se *framework.SaveError
	if !errors.As(err, &se) {
		e.fatalf("Save returned %v (%T), want a *framework.SaveError", err, err)
	}
	if se.Outcome == framework.Unknown && !se.ClaimSpent {
		e.fatalf("Save returned %v with the claim good: an unknown outcome spends the claim", err)
	}
	if errors.Is(err, framework.ErrClosed) && !se.ClaimSpent {
		e.fatalf("Save returned %v with the claim good: no claim of a closed sink can be used again", err)
	}
	return se
}

// wantRefused checks a definite refusal: nothing saved, the claim still good.
func (e *env[W]) wantRefused(err, reason error) {
	e.r.Helper()
	se := e.wantSaveError(err)
	if se.Outcome != framework.NotSaved || se.ClaimSpent || !errors.Is(err, reason) {
		e.fatalf("Save returned %v (claim spent: %t), want %q, not saved, with the claim good", err, se.ClaimSpent, reason)
	}
}

// wantFenced checks the refusal of a former owner whose save began after the
// other owner's claim had returned.
func (e *env[W]) wantFenced(err error) {
	e.r.Helper()
	if err == nil {
		e.fatalf("the save of a former owner returned nil")
	}
	se := e.wantSaveError(err)
	if !errors.Is(err, framework.ErrFenced) || se.Outcome != framework.NotSaved || !se.ClaimSpent {
		e.fatalf("the save of a former owner returned %v (claim spent: %t), want ErrFenced, not saved, with the claim spent", err, se.ClaimSpent)
	}
}
