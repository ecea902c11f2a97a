package cassandra

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// driverLogger passes on what the driver logs. While a session is being opened
// it is only of interest for debugging: the error, or our own line about
// waiting, says the same once.
type driverLogger struct {
	log    *slog.Logger
	opened atomic.Bool
}

func (l *driverLogger) write(text string) {
	text = "cassandra driver: " + strings.TrimPrefix(strings.TrimSpace(text), "gocql: ")
	if l.opened.Load() {
		l.log.Warn(text)
		return
	}
	l.log.Debug(text)
}

// Print, Printf and Println implement gocql.StdLogger.
func (l *driverLogger) Print(v ...any) { l.write(fmt.Sprint(v...)) }

// Printf implements gocql.StdLogger.
func (l *driverLogger) Printf(format string, v ...any) { l.write(fmt.Sprintf(format, v...)) }

// Println implements gocql.StdLogger.
func (l *driverLogger) Println(v ...any) { l.write(fmt.Sprintln(v...)) }
