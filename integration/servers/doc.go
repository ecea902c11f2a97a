// Package servers starts and stops real Kafka, Cassandra and PostgreSQL for tests
// and benchmarks.
//
// [Start] brings servers up and returns a [Set]; [Set.Close] takes them down
// and removes everything they wrote. Each [Service] of a set can be stopped,
// killed and started again on its old port with its data kept, so that a test
// can watch what a program does meanwhile.
//
// Where a Docker engine answers, the servers are containers of the module's
// docker-compose.yml, under a project name of their own. Elsewhere they are
// Java processes started from the packages on Maven Central; these are fetched
// once into the user's cache directory. PostgreSQL is the system's own program,
// run as the user postgres or nobody where we are root. Java, Maven and PostgreSQL
// are installed when they are missing, the machine is a Debian or Ubuntu, and we
// are root.
//
// Every port is chosen at run time and bound to loopback only. A service that
// does not come up in time is an error that carries the end of its log.
//
// # Nothing stays behind
//
// Servers end with the process that started them, however it ends. If it is
// killed outright, the kernel kills the processes on Linux, and a small
// waiting shell removes their files, or the containers. On other systems
// processes survive that one case and must be ended by hand. The package builds
// on Unix only.
//
// # Memory and disk
//
// Kafka has a heap of up to 1 GiB, each Cassandra node 1 GiB, one that checks
// logins 512 MiB. Data is in the system's temporary directory: set TMPDIR where
// that is small or in memory.
//
// # In tests
//
// Tests that need a server stand behind the build tag "integration" and ask
// [Kafka], [Cassandra], [CassandraAuth] or [Postgres] for its address. Those read the
// environment that the command withservers sets, and fail the test, never skip
// it, where the variable is missing.
//
// With [Options.TLS] servers from packages also have ports that speak TLS and
// check logins, see [KafkaTLS], [CassandraTLS] and [Authority]. Containers have
// none, so tests that need them carry the build tag "tls" as well, and make test
// leaves it out where it uses containers.
package servers
