package app

import (
	"flag"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sources/kafka"
)

// Settings are what an operator sets.
type Settings struct {
	Brokers []string
	File    string // of the SQLite database
	Listen  string // where to answer HTTP, host:port
}

// ParseFlags reads the command line, and ends the program if it is not understood.
func ParseFlags() (Settings, error) {
	var s Settings
	brokers := flag.String("brokers", "127.0.0.1:9092", "Kafka brokers, `host:port,…`")
	flag.StringVar(&s.File, "db", "service.db", "SQLite `file` to save in")
	flag.StringVar(&s.Listen, "listen", "127.0.0.1:8080", "answer HTTP on `host:port`")
	flag.Parse()
	var err error
	s.Brokers, err = offsetstore.ParseBrokers("--brokers", *brokers)
	return s, err
}

// Source returns a new source of the topic orders; each pipeline needs its own.
func (s Settings) Source(group string) (framework.Source, error) {
	return kafka.New(kafka.Config{Brokers: s.Brokers, Topics: []string{"orders"}, Group: group})
}
