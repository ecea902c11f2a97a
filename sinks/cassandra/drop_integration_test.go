//go:build integration

package cassandra

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// A save is applied again by the next owner, unless it is marked: a letter in it that
// was dropped must not come back by that.
func TestADroppedDeadLetterStaysAwayWhenItsSaveIsAppliedAgain(t *testing.T) {
	b := newBed(t)
	tu := defaultTuning()
	tu.idleMark = time.Hour // it dies before that
	dead, _ := b.sink(*b.cfg, tu)
	c := b.claim(dead)
	letter := framework.DeadLetter{Offset: 0, Stage: "decode", Error: "bad", FailedAt: second(1), Value: []byte("v")}
	batch := &framework.Batch[Write]{To: framework.Progress{Position: offsetstore.At(1)}, DeadLetters: []framework.DeadLetter{letter}}
	batch.From.Position = offsetstore.At(0)
	mustSave(t, c, batch)

	s, _ := b.open()
	if got := b.letters(s); len(got) != 1 {
		t.Fatalf("there are %d letters, want 1", len(got))
	}
	if err := s.DropDeadLetters(t.Context(), "p", in0, b.letters(s)); err != nil {
		t.Fatal(err)
	}
	next := b.claim(s)
	if n := s.Stats().RollForwards; n != 1 {
		t.Fatalf("%d saves were applied again, want 1", n)
	}
	if got := b.letters(s); len(got) != 0 {
		t.Errorf("the letter is back: %+v", got)
	}
	letter.FailedAt = second(2) // it fails again, after a reset
	again := &framework.Batch[Write]{From: next.Progress(), To: next.Progress(), DeadLetters: []framework.DeadLetter{letter}}
	mustSave(t, next, again)
	if got := b.letters(s); len(got) != 1 || !got[0].FailedAt.Equal(second(2)) {
		t.Errorf("the letters are %+v, want the later one", got)
	}
}

func second(n int64) time.Time { return time.Unix(n, 0) }

// letters returns the dead letters of in/0.
func (b *bed) letters(s *Sink) []framework.DeadLetter {
	b.t.Helper()
	letters, err := s.DeadLetters(context.Background(), "p", in0)
	if err != nil {
		b.t.Fatal(err)
	}
	return letters
}
