package servers

import (
	"path/filepath"
	"testing"
)

func TestGuardActsOnlyIfItWasNotReleased(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "acted")
	released, err := newGuard("touch", mark)
	if err != nil {
		t.Fatal(err)
	}
	if err := released.release(); err != nil || exists(mark) {
		t.Fatalf("released: %v, acted %t", err, exists(mark))
	}
	orphaned, err := newGuard("touch", mark)
	if err != nil {
		t.Fatal(err)
	}
	if err := orphaned.pipe.Close(); err != nil { // as the system does when we die
		t.Fatal(err)
	}
	if err := orphaned.cmd.Wait(); err != nil || !exists(mark) {
		t.Errorf("orphaned: %v, acted %t", err, exists(mark))
	}
}

func TestGuardMayBeReleasedAgain(t *testing.T) {
	g, err := newGuard("false")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := g.release(); err != nil {
			t.Error(err)
		}
	}
}
