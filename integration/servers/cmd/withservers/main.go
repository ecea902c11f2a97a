// Command withservers runs a command with real Kafka, Cassandra and PostgreSQL
// servers and takes them down again, however the command ends.
//
//	go run ./integration/servers/cmd/withservers [flags] -- COMMAND [ARGUMENTS]
//
// The command finds the servers in its environment: LOCKSTEP_TEST_KAFKA,
// LOCKSTEP_TEST_CASSANDRA, LOCKSTEP_TEST_CASSANDRA_AUTH and LOCKSTEP_TEST_POSTGRES, each host:port, as
// far as they were asked for. With -tls there are also LOCKSTEP_TEST_KAFKA_TLS,
// LOCKSTEP_TEST_KAFKA_SASL, LOCKSTEP_TEST_KAFKA_SASL_TLS and
// LOCKSTEP_TEST_CASSANDRA_TLS, and the file LOCKSTEP_TEST_AUTHORITY. SIGINT, SIGTERM and SIGHUP are passed on to the
// command and to all that it started; what still runs half a minute later is
// killed, and so is what the command leaves running when it ends. Withservers
// exits with the command's code; with 128 plus the signal's number if a signal
// ended it; with 125 if the servers did not come up or could not be cleaned up,
// and with 127 if the command cannot be run.
//
// Without a command the servers stay up until one of those signals comes, and
// their environment is written to standard output, for a shell to source.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lockstep-stream/lockstep/integration/servers"
)

// Exit codes of our own are those of env(1) and nohup(1).
const (
	exitFailed    = 125
	exitNotRun    = 127
	exitSignalled = 128
)

func main() {
	options, command := parse()
	os.Exit(run(options, command))
}

// parse reads the flags. No service chosen means Kafka and Cassandra.
func parse() (servers.Options, []string) {
	var o servers.Options
	flag.BoolVar(&o.Kafka, "kafka", false, "start Kafka")
	flag.BoolVar(&o.Cassandra, "cassandra", false, "start Cassandra")
	flag.BoolVar(&o.CassandraAuth, "cassandra-auth", false, "start a second Cassandra that checks user and password")
	flag.BoolVar(&o.Postgres, "postgres", false, "start PostgreSQL")
	flag.IntVar(&o.CassandraNodes, "cassandra-nodes", 1, "nodes of the first Cassandra's cluster (containers have one)")
	flag.BoolVar(&o.TLS, "tls", false, "add ports for TLS, and for logins, to Kafka and to the second Cassandra (containers have none)")
	flag.BoolVar(&o.FastStart, "fast-start", false, "start sooner, with slower servers: for tests, not for measurements")
	flag.BoolVar(&o.Packages, "packages", false, "never use Docker, even where an engine answers")
	flag.DurationVar(&o.StartTimeout, "start-timeout", 0, "how long one server may take to come up (default 3m)")
	flag.Parse()
	if !o.Kafka && !o.Cassandra && !o.CassandraAuth && !o.Postgres {
		o.Kafka, o.Cassandra = true, true
	}
	return o, flag.Args()
}

func run(o servers.Options, command []string) int {
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	go watchGoRun(signals)

	set, err := start(o, signals)
	if err != nil {
		logLines(o.Logger, err)
		return exitFailed
	}
	code := use(o.Logger, signals, set, command)
	if err := set.Close(); err != nil {
		logLines(o.Logger, err)
		return max(code, exitFailed)
	}
	return code
}

// start brings the servers up, and gives up on the first signal.
func start(o servers.Options, signals <-chan os.Signal) (*servers.Set, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	up, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-signals:
			cancel(fmt.Errorf("got signal %q", s))
		case <-up:
		}
	}()
	set, err := servers.Start(ctx, o)
	close(up)
	<-watched // a signal that it took at the last moment counts
	if err == nil && ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), set.Close())
	}
	return set, err
}

// use runs the command, or waits for a signal if there is none.
func use(log *slog.Logger, signals <-chan os.Signal, set *servers.Set, command []string) int {
	if len(command) > 0 {
		return runCommand(log, signals, set.Env(), command)
	}
	for _, variable := range set.Env() {
		fmt.Printf("export %s\n", variable)
	}
	log.Info("servers stay up until SIGINT or SIGTERM")
	<-signals
	return 0
}

// logLines keeps the log that an error carries readable: a line of it is a line
// of ours.
func logLines(log *slog.Logger, err error) {
	for line := range strings.Lines(err.Error()) {
		log.Error(strings.TrimRight(line, "\n"))
	}
}
