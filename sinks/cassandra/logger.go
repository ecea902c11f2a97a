package cassandra

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// driverLogger passes on what the driver logs. While a session is being opened
// it is only of interest for debugging: the error, or our own line about
// waiting, says the same once.
type driverLogger struct {
	log    *slog.Logger
	opened atomic.Bool

	mu   sync.Mutex
	last time.Time // of the last warning
	held int       // warnings since then
}

// driverEvery is how often the driver's lines are warnings at most. While a node
// is away it writes several a second for each connection.
const driverEvery = 10 * time.Second

func (l *driverLogger) write(text string) {
	text = "cassandra driver: " + strings.TrimPrefix(strings.TrimSpace(text), "gocql: ")
	if held, due := l.due(); due {
		l.log.Warn(text, "held_back", held)
		return
	}
	l.log.Debug(text)
}

// due reports whether a line may be a warning, and how many were not since the
// last one.
func (l *driverLogger) due() (held int, due bool) {
	if !l.opened.Load() {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() && time.Since(l.last) < driverEvery {
		l.held++
		return 0, false
	}
	held = l.held
	l.last, l.held = time.Now(), 0
	return held, true
}

// Print, Printf and Println implement gocql.StdLogger.
func (l *driverLogger) Print(v ...any) { l.write(fmt.Sprint(v...)) }

// Printf implements gocql.StdLogger.
func (l *driverLogger) Printf(format string, v ...any) { l.write(fmt.Sprintf(format, v...)) }

// Println implements gocql.StdLogger.
func (l *driverLogger) Println(v ...any) { l.write(fmt.Sprintln(v...)) }
