// Package sql is a sink that saves a pipeline's writes, reduction state, dead
// letters and position in one database transaction.
//
// Guarantee: effectively exactly once, state and dead letters included. One row
// for each partition holds the position and the owner's claim token; every save
// updates that row first, under the condition that token, save number and offset
// are the ones it knows, and then writes everything else in the same
// transaction.
//
// A [Table] describes one table of yours by a struct, and makes the [Write]s
// that handlers return:
//
//	type Event struct {
//		Topic     string    `db:"topic,key"`
//		Partition int32     `db:"partition,key"`
//		Offset    int64     `db:"record_offset,key"`
//		Source    string    `db:"source"`
//		Time      time.Time `db:"time"`
//	}
//
//	var events = sql.NewTable[Event]("events")
//
//	sink, err := sql.Open(ctx, sql.Config{
//		DSN:    "sqlite:///var/lib/app/app.db",
//		Tables: []sql.AnyTable{events},
//		Schema: []string{`CREATE TABLE IF NOT EXISTS events (…)`},
//	})
//	err = sink.Migrate(ctx) // creates the sink's own tables and runs Schema
//
// [Table.Insert] adds a row and refuses one whose key exists; [Table.Upsert]
// replaces it; [Table.Delete] removes it. Integers, text, times and so on each go
// into columns that keep them as they are. Tables are compared with the database
// before anything is saved: a missing table or column, or a column that would not
// hold the field's values unchanged, is an error that names both.
//
// # SQLite
//
// SQLite, in pure Go, by a DSN of the form sqlite:///absolute/path.db or
// sqlite://relative/path.db; see [ParseDSN] for its parameters. The database is
// in write-ahead-log mode. What Save has returned survives the death of the
// process in every setting. With synchronous=full, the default, it also survives
// a loss of power; with synchronous=normal a loss of power may take back the last
// saves, but whole and in order, outputs and positions alike, so that the
// pipeline reads those records again.
//
// Any number of lanes and processes may work on one file. SQLite admits one
// writer at a time: lanes of one process queue for one connection, processes
// wait for each other up to busy_timeout. A transaction that writes has the
// database to itself from its first statement (BEGIN IMMEDIATE), which makes it
// serializable. An owner that was killed leaves nothing locked.
//
// Times are stored as UTC text that sorts in order of time
// ("2006-01-02 15:04:05.000000000+00:00"), or as Unix milliseconds where the tag
// says so.
//
// # PostgreSQL
//
// PostgreSQL 15 or later, by a DSN of the form
// postgres://user:password@host:5432/database; see [ParseDSN] for its parameters
// and their defaults. The database has the encoding UTF8. A table's name may have
// a schema before it ("app.events"), else the search_path decides; names are
// compared with regard to case. The statements of Migrate are in
// schema/postgres.sql, for those who run them by hand.
//
// A save is one transaction at READ COMMITTED. It locks one row of the sink's own,
// that of its partition, by its first statement, and then the rows of yours that
// it writes; the locks last until the transaction ends. That is enough: the next
// owner's claim changes the same row, so it waits for a save in flight, and a save
// that comes after it finds another token and writes nothing. Saves of different
// partitions wait for each other only where they write the same rows. A deadlock
// or a serialization failure, and a connection that is lost before the COMMIT, is
// answered by running the same transaction again, a few times. If the answer to a
// COMMIT is lost, the save reads the row of its partition, which waits until the
// server has decided; where even that fails the outcome is unknown, and the claim
// is spent.
//
// A client that is frozen within a save, or gone without a word, holds its locks
// until the server ends its session, by idle_in_transaction_session_timeout after
// ten seconds; the next owner waits for up to lock_timeout, thirty seconds. What
// Save has returned survives a crash of the server, since synchronous_commit is on
// unless the DSN says otherwise.
//
// Columns are BOOLEAN, BIGINT, INTEGER, SMALLINT, DOUBLE PRECISION, TEXT,
// VARCHAR(n), BYTEA and TIMESTAMPTZ; a column of another type is refused when the
// tables are compared. [Sink.Check] refuses what the server would: a NUL in text,
// numbers and texts that the column does not hold, and unique keys of more than
// 2,600 bytes, which no index takes for sure. Times are kept to the microsecond,
// rounded down.
//
// A pooler between the sink and the server must give each session a connection of
// its own: one that only lends connections for a transaction loses prepared
// statements and settings.
//
// # Caveats
//
// The order of writes is kept for each table, not between tables: a batch's
// writes are grouped by table. SQLite's foreign keys are not enforced on the sink's
// connection, which is its own default; PostgreSQL's are. So let a constraint
// between two tables of one pipeline be DEFERRABLE INITIALLY DEFERRED, and do
// without ON DELETE CASCADE there, which could remove rows of the same batch.
//
// All processes of a pipeline should use one PostgreSQL role: an owner that is
// frozen in the middle of a COPY is only ended by a claim of its own role, or of
// a superuser's; any other waits for the lock until somebody ends that session.
//
// SQLite's file must be on a local disk; write-ahead logging does not work over
// network file systems.
//
// While a database of SQLite is open it is three files (app.db, app.db-wal and app.db-shm):
// copy it with SQLite's own backup, not file by file.
package sql
