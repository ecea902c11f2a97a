package servers

import (
	"os"
	"os/exec"
	"strings"
)

// The environment by which tests learn where the servers are; the command
// withservers sets it.
const (
	// EnvKafka holds the brokers, host:port separated by commas.
	EnvKafka = "LOCKSTEP_TEST_KAFKA"
	// EnvCassandra holds host:port of a node that accepts every login.
	EnvCassandra = "LOCKSTEP_TEST_CASSANDRA"
	// EnvCassandraAuth holds host:port of a node that checks user and password.
	EnvCassandraAuth = "LOCKSTEP_TEST_CASSANDRA_AUTH"
	// EnvPostgres holds host:port of a PostgreSQL server.
	EnvPostgres = "LOCKSTEP_TEST_POSTGRES"

	envKafkaGroups  = "LOCKSTEP_TEST_KAFKA_GROUPS" // a word a line
	envKafkaTLS     = "LOCKSTEP_TEST_KAFKA_TLS"
	envKafkaSASL    = "LOCKSTEP_TEST_KAFKA_SASL"
	envKafkaSASLTLS = "LOCKSTEP_TEST_KAFKA_SASL_TLS"
	envCassandraTLS = "LOCKSTEP_TEST_CASSANDRA_TLS"
	envAuthority    = "LOCKSTEP_TEST_AUTHORITY"
)

// The superuser of a node started by [Options.CassandraAuth].
const (
	AuthUser     = "cassandra"
	AuthPassword = "cassandra"
)

// The user of [KafkaSASL] and [KafkaSASLTLS], known to PLAIN, SCRAM-SHA-256 and
// SCRAM-SHA-512.
const (
	KafkaUser     = "lockstep"
	KafkaPassword = "lockstep-secret"
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

// KafkaConsumerGroups returns Kafka's own tool kafka-consumer-groups, from the
// distribution that the test run's brokers come from, ready to run with args. The
// brokers' address is the same for it as for the test. It fails the test where there
// is no Kafka.
func KafkaConsumerGroups(t TB, args ...string) *exec.Cmd {
	t.Helper()
	words := strings.Split(fromEnv(t, envKafkaGroups, "-kafka"), "\n")
	return exec.Command(words[0], append(words[1:], args...)...)
}

// groupsTool is the environment by which [KafkaConsumerGroups] finds the tool.
func groupsTool(words ...string) string { return envKafkaGroups + "=" + strings.Join(words, "\n") }

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

// Postgres returns host:port of the test run's PostgreSQL server, and fails the
// test where there is none. It is shared by all tests that run now: log in as
// [PostgresUser] with [PostgresPassword] to [PostgresDatabase], and make a
// database of your own.
func Postgres(t TB) string { t.Helper(); return fromEnv(t, EnvPostgres, "-postgres") }

// KafkaTLS returns the address of the test run's Kafka at which it speaks TLS,
// KafkaSASL the one at which it wants a login ([KafkaUser], [KafkaPassword]), and
// KafkaSASLTLS the one for both. All are the broker of [Kafka]. They fail the test
// where [Options.TLS] was not given.
func KafkaTLS(t TB) string { t.Helper(); return fromEnv(t, envKafkaTLS, "-kafka -tls -packages") }

// KafkaSASL is described at [KafkaTLS].
func KafkaSASL(t TB) string { t.Helper(); return fromEnv(t, envKafkaSASL, "-kafka -tls -packages") }

// KafkaSASLTLS is described at [KafkaTLS].
func KafkaSASLTLS(t TB) string {
	t.Helper()
	return fromEnv(t, envKafkaSASLTLS, "-kafka -tls -packages")
}

// CassandraTLS returns the address at which the node of [CassandraAuth] speaks
// TLS, and nothing else. It fails the test where [Options.TLS] was not given.
func CassandraTLS(t TB) string {
	t.Helper()
	return fromEnv(t, envCassandraTLS, "-cassandra-auth -tls -packages")
}

// Authority returns the file, PEM, with the certificate of the authority that
// has signed the servers' certificates. These are for 127.0.0.1 and localhost.
func Authority(t TB) string { t.Helper(); return fromEnv(t, envAuthority, "-tls -packages") }

func fromEnv(t TB, name, flag string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run `make test`, or `go run ./integration/servers/cmd/withservers %s -- go test -tags integration PACKAGE`", name, flag)
	}
	return value
}
