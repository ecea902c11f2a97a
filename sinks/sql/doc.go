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
// replaces it; [Table.Delete] removes it. Tables are compared with the database
// before anything is saved: a missing table or column, or a column that would not
// hold the field's values unchanged, is an error that names both.
//
// # Databases
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
// wait for each other up to busy_timeout. An owner that was killed leaves nothing
// locked.
//
// # Caveats
//
// The order of writes is kept for each table, not between tables: a batch's
// writes are grouped by table. Foreign keys are not enforced on the sink's
// connection, which is SQLite's own default.
//
// The file must be on a local disk; write-ahead logging does not work over
// network file systems.
//
// While a database is open it is three files (app.db, app.db-wal and app.db-shm):
// copy it with SQLite's own backup, not file by file.
//
// Times are stored as UTC text that sorts in order of time
// ("2006-01-02 15:04:05.000000000+00:00"), or as Unix milliseconds where the tag
// says so.
package sql
