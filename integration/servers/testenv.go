package servers

import "os"

// The environment by which tests learn where the servers are; the command
// withservers sets it.
const (
	// EnvKafka holds the brokers, host:port separated by commas.
	EnvKafka = "LOCKSTEP_TEST_KAFKA"
	// EnvCassandra holds host:port of a node that accepts every login.
	EnvCassandra = "LOCKSTEP_TEST_CASSANDRA"
	// EnvCassandraAuth holds host:port of a node that checks user and password.
	EnvCassandraAuth = "LOCKSTEP_TEST_CASSANDRA_AUTH"
)

// The superuser of a node started by [Options.CassandraAuth].
const (
	AuthUser     = "cassandra"
	AuthPassword = "cassandra"
)

// TB is the part of [testing.TB] that is needed here, so that this package
// brings no test code into a program.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Kafka returns the brokers of the test run, host:port separated by commas,
// and fails the test where there are none. The brokers are shared by all tests
// that run now: use topics and groups with names of your own.
func Kafka(t TB) string { t.Helper(); return fromEnv(t, EnvKafka, "-kafka") }

// Cassandra returns host:port of the test run's Cassandra node, and fails the
// test where there is none. The node is shared by all tests that run now: use
// a keyspace of your own.
func Cassandra(t TB) string { t.Helper(); return fromEnv(t, EnvCassandra, "-cassandra") }

// CassandraAuth returns host:port of the test run's Cassandra node that checks
// user and password, and fails the test where there is none. It is shared as
// the one of [Cassandra] is. Log in as [AuthUser] with [AuthPassword].
func CassandraAuth(t TB) string {
	t.Helper()
	return fromEnv(t, EnvCassandraAuth, "-cassandra-auth")
}

func fromEnv(t TB, name, flag string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run `make test`, or `go run ./integration/servers/cmd/withservers %s -- go test -tags integration PACKAGE`", name, flag)
	}
	return value
}
