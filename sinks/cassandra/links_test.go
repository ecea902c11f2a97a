package cassandra

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func TestLinksCountEachConnectionThatHasEnded(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	l := new(links)
	dial := func() (client, other net.Conn) {
		client, err := l.DialContext(t.Context(), "tcp", server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		other, err = server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return client, other
	}
	want := func(n int64, after string) {
		t.Helper()
		if l.count() != n {
			t.Errorf("%d have ended %s, want %d", l.count(), after, n)
		}
	}
	one, other := dial()
	if err := one.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Read(make([]byte, 1)); err == nil {
		t.Error("nothing was sent, but read")
	}
	want(0, "when a deadline has passed")
	if err := errors.Join(one.SetReadDeadline(time.Time{}), other.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read returned %v", err)
	}
	want(1, "when the other side has")
	_ = one.Close()
	want(1, "when that one is closed, too")
	two, other := dial()
	_, _ = two.Close(), other.Close()
	want(2, "when another is closed")
	if _, err := l.DialContext(t.Context(), "tcp", "127.0.0.1:0"); err == nil {
		t.Error("nobody listens there")
	}
	want(2, "when one was not made")
}

// onLinks gives the engine connections, and returns how to end one.
func onLinks(t *testing.T, e *engine) (end func()) {
	t.Helper()
	e.links = new(links)
	return func() { e.links.ended.Add(1) }
}

// mustClaimAgain claims and checks what the new claim finds.
func mustClaimAgain(t *testing.T, e *engine, at int64, rows int, s *faultyStore) *claim {
	t.Helper()
	c, err := e.claimLane(t.Context(), unitLane, offsetstore.At(0))
	if err != nil {
		t.Fatal(err)
	}
	if c.Progress().Position.Offset != at || len(s.db.read()) != rows {
		t.Errorf("claimed at %d with %d rows, want %d with %d", c.Progress().Position.Offset, len(s.db.read()), at, rows)
	}
	return c
}

func TestAClaimIsSpentWhenAConnectionHasEnded(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		end := onLinks(t, e)
		mustSaveUnit(t, c, unitBatch(10, 12, 10))
		end()
		before := len(s.sent("execute"))
		wantUnitError(t, c.Save(t.Context(), unitBatch(12, 14, 10)), framework.NotSaved, true, framework.ErrUnavailable)
		if len(s.sent("execute")) != before {
			t.Error("the commit was sent")
		}
		if err := c.Release(t.Context()); err != nil || !s.row().pending() {
			t.Errorf("Release returned %v, pending: %t; it must not mark what may be gone", err, s.row().pending())
		}
		mustSaveUnit(t, mustClaimAgain(t, e, 12, 2, s), unitBatch(12, 14, 10))
	})
}

func TestNothingIsMarkedAsAppliedWhenAConnectionHasEnded(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		end := onLinks(t, e)
		mustSaveUnit(t, c, unitBatch(10, 12, 10))
		end()
		time.Sleep(time.Minute)
		if !s.row().pending() {
			t.Error("the save is marked")
		}
		mustClaimAgain(t, e, 12, 2, s)
	})
}

// The rows of a save that were acknowledged are gone with the node, and so must be
// what the claim knows.
func TestAnApplyEndsWithTheConnection(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		end := onLinks(t, e)
		s.set(hooks{apply: func(func()) error { end(); return gocql.ErrNoConnections }})
		err := c.Save(t.Context(), unitBatch(10, 12, 10))
		wantUnitError(t, err, framework.Saved, true, framework.ErrNotApplied)
		if n := len(s.sent("apply")); n > 2 { // a row each, at once
			t.Errorf("they were sent %d times", n)
		}
		s.set(hooks{})
		mustClaimAgain(t, e, 12, 2, s)
	})
}

func TestACommitIsNotSentAgainWhenTheConnectionHasEnded(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		end := onLinks(t, e)
		s.set(hooks{execute: func(func()) error { end(); return gocql.ErrNoConnections }})
		before := len(s.sent("execute"))
		wantUnitError(t, c.Save(t.Context(), unitBatch(10, 12, 10)), framework.Unknown, true, framework.ErrUnknown)
		if n := len(s.sent("execute")) - before; n != 1 {
			t.Errorf("it was sent %d times", n)
		}
		s.set(hooks{})
		mustSaveUnit(t, mustClaimAgain(t, e, 10, 0, s), unitBatch(10, 12, 10))
	})
}

func TestAnUnknownOutcomeEndsWhenTheLedgerMayNotBeRead(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, _ *engine, c *claim) {
		s.set(hooks{
			execute: func(func()) error { return gocql.ErrTimeoutNoResponse },
			read:    func(func()) error { return refusal{gocql.ErrCodeInvalid} },
		})
		began := time.Now()
		err := c.Save(t.Context(), unitBatch(10, 12, 10))
		wantUnitError(t, err, framework.Unknown, true, framework.ErrUnknown)
		if !errors.Is(err, framework.ErrConfig) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// changedTable refuses a stored save for its table's identity, as the catalog does.
type changedTable struct{ tables }

func (c changedTable) resolve(ctx context.Context, t *target, id tableID) (*boundTarget, error) {
	if id != anyTable {
		return nil, &SchemaError{Table: t.name, Faults: []string{"it was dropped and created again"}}
	}
	return c.tables.resolve(ctx, t, anyTable)
}

func TestAResetTakesATableThatWasMadeAgain(t *testing.T) {
	inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
		s.set(hooks{apply: func(func()) error { return refusal{gocql.ErrCodeUnauthorized} }})
		wantUnitError(t, c.Save(t.Context(), unitBatch(10, 12, 10)), framework.Saved, true, framework.ErrNotApplied)
		s.set(hooks{})
		e.tables = changedTable{e.tables}
		if _, err := e.claimLane(t.Context(), unitLane, offsetstore.At(0)); !errors.Is(err, framework.ErrConfig) {
			t.Fatalf("the claim returned %v", err)
		}
		if err := e.flushLane(t.Context(), unitLane); !errors.Is(err, framework.ErrConfig) {
			t.Errorf("the flush returned %v", err)
		}
		if err := e.resetLane(t.Context(), unitLane, unitReset(12, 12, false)); err != nil {
			t.Fatal(err)
		}
		mustClaimAgain(t, e, 12, 2, s)
	})
}

func TestADamagedRowSaysWhatToDo(t *testing.T) {
	for _, row := range []ledgerRow{{format: ledgerFormat}, {format: ledgerFormat, epoch: 1, seq: 1, position: offsetstore.At(-1)}} {
		err := row.check(unitLane)
		if !errors.Is(err, framework.ErrCorrupt) || !strings.Contains(err.Error(), "from one backup") {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

func TestAWaitIsNotSilent(t *testing.T) {
	for statement, h := range map[string]hooks{
		"apply":            {apply: func(func()) error { return gocql.ErrTimeoutNoResponse }},
		"commit":           {execute: func(func()) error { return gocql.ErrTimeoutNoResponse }},
		`"read, or stage"`: {chunk: func(func()) error { return gocql.ErrTimeoutNoResponse }},
	} {
		inUnit(t, func(t *testing.T, s *faultyStore, e *engine, c *claim) {
			var log bytes.Buffer
			e.log = slog.New(slog.NewTextHandler(&log, nil))
			s.set(h)
			if err := c.Save(t.Context(), unitBatch(10, 60, 10<<10)); err == nil {
				t.Error("it was saved")
			}
			// Two minutes, or ten for the apply, at a line each half of one.
			if n := strings.Count(log.String(), "repeated\" statement="+statement); n < 3 || n > 20 {
				t.Errorf("%s: %d lines: %s", statement, n, log.String())
			}
		})
	}
}
