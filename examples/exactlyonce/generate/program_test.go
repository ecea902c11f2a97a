package generate

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

func TestTheGeneratorWritesAsManyAsItIsTold(t *testing.T) {
	p, brokers := setup(t)
	args := []string{"-brokers", brokers[0], "-topic", "events", "-count", "500", "-rate", "0"}
	for range 2 {
		if err := Program(t.Context(), args, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := p.Records(t.Context()); err != nil || n != 1000 {
		t.Errorf("the topic holds %d records, %v, want 500 twice", n, err)
	}
}

func TestTheGeneratorStopsWhenItIsTold(t *testing.T) {
	p, brokers := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Program(ctx, []string{"-brokers", brokers[0], "-topic", "events"}, io.Discard) }()
	for n := int64(0); n == 0 && t.Context().Err() == nil; time.Sleep(5 * time.Millisecond) {
		n, _ = p.Records(t.Context())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("after a stop: %v", err)
	}
}

// TestTheGeneratorRefusesWrongSettings wants each refused at once, by name.
// Nothing listens at the addresses: whoever connected would wait for a minute.
func TestTheGeneratorRefusesWrongSettings(t *testing.T) {
	for args, says := range map[string]string{
		"-brokers h1":       "-brokers",
		"-brokers h1;h2":    "-brokers",
		"-topic in/2":       "-topic",
		"-topic a,b":        "-topic",
		"-count -1":         "-count",
		"-rate -1":          "-rate",
		"-rate fast":        "-rate",
		"-first -1":         "-first",
		"-wait 0s":          "-wait",
		"-sink sqlite://x":  "-sink",
		"-rate 5 everybody": "everybody",
	} {
		err := Program(t.Context(), strings.Fields(args), io.Discard)
		if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want ErrConfig with %q", args, err, says)
		}
	}
}
