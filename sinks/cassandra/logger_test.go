package cassandra

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheDriversLinesAreWarningsOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &driverLogger{log: slog.New(slog.NewTextHandler(&out, nil))}
		l.Println("before the session is open")
		l.opened.Store(true)
		for range 100 {
			l.Printf("gocql: unable to dial %q", "127.0.0.1")
			time.Sleep(time.Second)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 10 || !strings.Contains(lines[9], "held_back=9") || strings.Contains(out.String(), "before") {
			t.Errorf("%d lines, want 10 that count what they held back:\n%s", len(lines), &out)
		}
	})
}
