package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// screen is where the demo talks to people: lines, and between them progress
// bars if it is a terminal.
type screen struct {
	out      io.Writer
	terminal bool
	bar      *progressbar.ProgressBar // the one shown now, or nil
}

func newScreen(out io.Writer) *screen {
	f, ok := out.(*os.File)
	return &screen{out: out, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// say prints a line, above the bar if there is one.
func (s *screen) say(format string, args ...any) {
	if s.bar != nil {
		_ = s.bar.Clear() // cosmetic
	}
	fmt.Fprintf(s.out, format+"\n", args...)
}

// positions prints a line for each partition that has an end.
func (s *screen) positions(topic string, positions, ends map[int32]int64) {
	for _, p := range slices.Sorted(maps.Keys(ends)) {
		s.say("  %s/%d  %d of %d", topic, p, positions[p], ends[p])
	}
}

// progress shows how far something has come. set may be called very often.
type progress interface {
	set(n int)
	done()
}

// progress starts to show something that ends at total.
func (s *screen) progress(what string, total int) progress {
	if !s.terminal {
		return &progressLines{screen: s, what: what, total: total}
	}
	s.bar = progressbar.NewOptions(total,
		progressbar.OptionSetWriter(s.out),
		progressbar.OptionSetDescription(fmt.Sprintf("%-9s", what)),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(40),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionThrottle(100*time.Millisecond))
	return &progressBar{s}
}

type progressBar struct{ screen *screen }

func (b *progressBar) set(n int) { _ = b.screen.bar.Set(n) } // cosmetic

func (b *progressBar) done() {
	_ = b.screen.bar.Finish()
	b.screen.end()
}

// end leaves the line of a bar that is still shown, as it is.
func (s *screen) end() {
	if s.bar != nil {
		s.bar = nil
		fmt.Fprintln(s.out)
	}
}

// progressLines prints a line at each quarter.
type progressLines struct {
	screen *screen
	what   string
	total  int
	said   int // quarters
}

func (l *progressLines) set(n int) {
	if quarter := n * 4 / l.total; quarter > l.said {
		l.said = quarter
		l.screen.say("%s: %d of %d", l.what, n, l.total)
	}
}

func (l *progressLines) done() {}

// tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
