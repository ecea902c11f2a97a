//go:build integration

package sql_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

const postgresEvents = `CREATE TABLE IF NOT EXISTS events (
	partition     INTEGER NOT NULL,
	record_offset BIGINT  NOT NULL,
	source        TEXT    NOT NULL,
	health        BIGINT,
	PRIMARY KEY (partition, record_offset)
)`

// openPostgresSink opens a sink for events in a database that is there.
func openPostgresSink(t *testing.T, addr, database string, parameters ...string) *sql.Sink {
	t.Helper()
	return openSink(t, sql.Config{
		DSN:    postgresURL(addr, database, parameters...),
		Tables: []sql.AnyTable{events},
		Schema: []string{postgresEvents},
	})
}

// wantPostgresAgreement is wantAgreement for a database on the run's server.
func wantPostgresAgreement(t *testing.T, s *sql.Sink, conn *pgx.Conn, partition int32) int64 {
	t.Helper()
	at := claimLane(t, s, partition).Progress().Position.Offset
	var count, next int64
	err := conn.QueryRow(t.Context(), `SELECT count(*), coalesce(max(record_offset) + 1, 0) FROM events WHERE partition = $1`, partition).Scan(&count, &next)
	if err != nil {
		t.Fatal(err)
	}
	if count != at || next != at {
		t.Fatalf("partition %d: the position is %d, but there are %d rows up to offset %d", partition, at, count, next)
	}
	return at
}

// outcome is what a Save said of itself.
func outcome(err error) framework.Outcome {
	var se *framework.SaveError
	switch {
	case err == nil:
		return framework.Saved
	case errors.As(err, &se):
		return se.Outcome
	default:
		return framework.Unknown
	}
}

// What becomes of a COMMIT whose answer is lost is read from the row, and it is
// the truth either way.
func TestPostgresLostAnswerToACommitIsSettled(t *testing.T) {
	for name, test := range map[string]struct {
		fate fate
		want framework.Outcome
	}{
		"the COMMIT is lost": {cutBefore, framework.NotSaved},
		"the answer is lost": {cutAfter, framework.Saved},
	} {
		t.Run(name, func(t *testing.T) {
			database := postgresDatabase(t)
			proxy := startProxy(t, servers.Postgres(t))
			s := openPostgresSink(t, proxy.addr(), database)
			c := claimLane(t, s, 0)
			at := int64(0)
			for range 3 { // the claim stays good
				lost := false
				proxy.on(func(statement string) fate {
					if statement == "COMMIT" && !lost {
						lost = true
						return test.fate
					}
					return pass
				})
				err := c.Save(t.Context(), eventBatch(0, at, at+10))
				if got := outcome(err); !lost || got != test.want {
					t.Fatalf("lost: %t; Save returned %v, want %v", lost, err, test.want)
				}
				if err == nil {
					at += 10
				}
				if err := c.Save(t.Context(), eventBatch(0, at, at+5)); err != nil {
					t.Fatalf("the next save returned %v", err)
				}
				at += 5
			}
			if got := wantPostgresAgreement(t, s, openPostgres(t, database), 0); got != at {
				t.Errorf("the position is %d, want %d", got, at)
			}
		})
	}
}

// Nothing was committed before the COMMIT: the same transaction runs again on
// another connection, and nobody hears of it.
func TestPostgresConnectionLostBeforeTheCommit(t *testing.T) {
	database := postgresDatabase(t)
	proxy := startProxy(t, servers.Postgres(t))
	s := openPostgresSink(t, proxy.addr(), database)
	c := claimLane(t, s, 0)
	cuts := 0
	proxy.on(func(statement string) fate {
		if strings.HasPrefix(statement, "BEGIN") && cuts < 3 {
			cuts++
			return []fate{cutBefore, cutAfter}[cuts%2]
		}
		return pass
	})
	if err := c.Save(t.Context(), eventBatch(0, 0, 10)); err != nil || cuts != 3 {
		t.Fatalf("after %d cuts Save returned %v", cuts, err)
	}
	wantPostgresAgreement(t, s, openPostgres(t, database), 0)
}

// An owner that is frozen while it sends the rows of a COPY is ended by no timeout
// of the server's, but by the next owner.
func TestPostgresFrozenInCopyIsEndedByTheNextOwner(t *testing.T) {
	database := postgresDatabase(t)
	proxy := startProxy(t, servers.Postgres(t))
	c := claimLane(t, openPostgresSink(t, proxy.addr(), database), 0)
	asleep, once := make(chan struct{}), sync.Once{}
	proxy.on(func(statement string) fate {
		if statement != copyData {
			return pass
		}
		once.Do(func() { close(asleep) })
		return freeze
	})
	saved := make(chan error, 1)
	go func() { saved <- c.Save(t.Context(), eventBatch(0, 0, 500)) }()
	<-asleep
	next := openPostgresSink(t, servers.Postgres(t), database, "lock_timeout=500ms")
	owner := claimLane(t, next, 0)
	if err := owner.Save(t.Context(), eventBatch(0, 0, 15)); err != nil {
		t.Fatal(err)
	}
	if err := <-saved; !errors.Is(err, framework.ErrFenced) {
		t.Errorf("the save of the frozen owner returned %v, want that it is fenced", err)
	}
	if at := wantPostgresAgreement(t, next, openPostgres(t, database), 0); at != 15 {
		t.Errorf("the position is %d, want 15", at)
	}
}

// Lanes that write the same rows, each in an order of its own, wait for each other
// and end in no deadlock.
func TestPostgresLanesThatWriteTheSameRows(t *testing.T) {
	database := postgresDatabase(t)
	s := openPostgresSink(t, servers.Postgres(t), database)
	var wg sync.WaitGroup
	for lane := range int32(6) {
		c := claimLane(t, s, lane)
		wg.Go(func() {
			for at := range int64(8) {
				if err := c.Save(t.Context(), upserts(at, rand.Perm(1000))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	var deadlocks int
	err := openPostgres(t, database).QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks)
	if err != nil || deadlocks > 0 {
		t.Errorf("%d deadlocks, %v", deadlocks, err)
	}
}

// upserts is a batch for one record, which changes the rows given.
func upserts(at int64, rows []int) *framework.Batch[sql.Write] {
	b := &framework.Batch[sql.Write]{From: framework.Progress{Position: offsetstore.At(at)}, To: framework.Progress{Position: offsetstore.At(at + 1)}}
	for _, row := range rows {
		b.Writes = append(b.Writes, events.Upsert(event{Offset: int64(row), Source: "x", Health: at}))
	}
	return b
}

// An owner that is frozen in a transaction holds its lane's row until the server
// ends it, and what it does after that counts for nothing.
func TestPostgresFrozenOwnerBlocksNobodyForEver(t *testing.T) {
	database := postgresDatabase(t)
	proxy := startProxy(t, servers.Postgres(t))
	frozen := openPostgresSink(t, proxy.addr(), database, "idle_in_transaction_session_timeout=300ms")
	c := claimLane(t, frozen, 0)
	if err := c.Save(t.Context(), eventBatch(0, 0, 10)); err != nil {
		t.Fatal(err)
	}
	asleep, frozenOnce := make(chan struct{}), false
	proxy.on(func(statement string) fate {
		if statement == "COMMIT" && !frozenOnce {
			frozenOnce = true
			close(asleep)
			return freeze
		}
		return pass
	})
	saved := make(chan error, 1)
	go func() { saved <- c.Save(t.Context(), eventBatch(0, 10, 20)) }()
	<-asleep
	next := openPostgresSink(t, servers.Postgres(t), database)
	owner := claimLane(t, next, 0)
	if at := owner.Progress().Position.Offset; at != 10 {
		t.Fatalf("the next owner continues at %d, want 10", at)
	}
	if err := owner.Save(t.Context(), eventBatch(0, 10, 15)); err != nil {
		t.Fatal(err)
	}
	if err := <-saved; outcome(err) == framework.Saved {
		t.Error("the frozen owner believes to have saved")
	}
	if at := wantPostgresAgreement(t, next, openPostgres(t, database), 0); at != 15 {
		t.Errorf("the position is %d, want 15", at)
	}
}

// hold locks a lane's row in a transaction that nobody ends.
func hold(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	execPostgres(t, conn, `SET idle_in_transaction_session_timeout = 0`)
	execPostgres(t, conn, `BEGIN`)
	execPostgres(t, conn, statement)
}

func TestPostgresLockHeldByAnotherProgram(t *testing.T) {
	database := postgresDatabase(t)
	s := openPostgresSink(t, servers.Postgres(t), database, "lock_timeout=200ms")
	c := claimLane(t, s, 0)
	other := openPostgres(t, database)
	hold(t, other, `SELECT * FROM lockstep_lane FOR UPDATE`)

	wantNotSaved(t, c.Save(t.Context(), eventBatch(0, 0, 5)), framework.ErrUnavailable, false)
	if _, err := s.Claim(t.Context(), "p", orders(0), c.Progress().Position); !errors.Is(err, framework.ErrUnavailable) {
		t.Errorf("Claim returned %v, want ErrUnavailable", err)
	}
	if _, err := s.Positions(t.Context(), ""); err != nil { // readers do not wait for writers
		t.Error(err)
	}
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
	execPostgres(t, other, `ROLLBACK`)
	if err := c.Save(t.Context(), eventBatch(0, 0, 5)); err != nil {
		t.Errorf("after the lock is gone: %v", err)
	}
	wantPostgresAgreement(t, s, other, 0)
}

func TestPostgresWaitForALockEndsWithTheContextOrTheSink(t *testing.T) {
	for name, end := range map[string]struct {
		by    func(s *sql.Sink, cancel context.CancelFunc)
		want  error
		spent bool
	}{
		"cancel": {func(_ *sql.Sink, cancel context.CancelFunc) { cancel() }, context.Canceled, false},
		"close":  {func(s *sql.Sink, _ context.CancelFunc) { s.Close(context.Background()) }, framework.ErrClosed, true},
	} {
		t.Run(name, func(t *testing.T) {
			database := postgresDatabase(t)
			s := openPostgresSink(t, servers.Postgres(t), database, "lock_timeout=0", "statement_timeout=0", "writers=1")
			claims := []framework.Claim[sql.Write]{claimLane(t, s, 0), claimLane(t, s, 1)}
			other := openPostgres(t, database)
			hold(t, other, `SELECT * FROM lockstep_lane FOR UPDATE`)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			saved := make(chan error)
			for i, c := range claims {
				go func() { saved <- c.Save(ctx, eventBatch(int32(i), 0, 5)) }()
			}
			end.by(s, cancel)
			for range claims {
				wantNotSaved(t, <-saved, end.want, end.spent)
			}
			execPostgres(t, other, `ROLLBACK`)
			wantPostgresAgreement(t, openPostgresSink(t, servers.Postgres(t), database), other, 0)
		})
	}
}

// waitForLock returns when a session of the database waits for a lock.
func waitForLock(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	const query = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	for waiting := 0; waiting == 0; time.Sleep(10 * time.Millisecond) {
		if err := conn.QueryRow(t.Context(), query).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}

// The server ends one of two transactions that wait for each other. Here it is
// the sink's, and the same transaction succeeds when it runs again.
func TestPostgresDeadlockIsTriedAgain(t *testing.T) {
	database := postgresDatabase(t)
	s := openPostgresSink(t, servers.Postgres(t), database)
	c := claimLane(t, s, 0)
	if err := c.Save(t.Context(), eventBatch(0, 0, 2)); err != nil {
		t.Fatal(err)
	}
	other, watch := openPostgres(t, database), openPostgres(t, database)
	execPostgres(t, other, `SET deadlock_timeout = '1h'`) // so that it is not the one
	hold(t, other, `UPDATE events SET health = 1 WHERE record_offset = 1`)
	b := eventBatch(0, 2, 3)
	b.Writes = append(b.Writes, events.Upsert(event{Offset: 0, Source: "again"}), events.Upsert(event{Offset: 1, Source: "again"}))
	saved := make(chan error, 1)
	go func() { saved <- c.Save(t.Context(), b) }()
	waitForLock(t, watch)
	execPostgres(t, other, `UPDATE events SET health = 2 WHERE record_offset = 0`)
	execPostgres(t, other, `COMMIT`)
	if err := <-saved; err != nil {
		t.Fatal(err)
	}
	if at := wantPostgresAgreement(t, s, watch, 0); at != 3 {
		t.Errorf("the position is %d, want 3", at)
	}
}

// failing makes the next writes to events fail; a sequence is not rolled back.
const failing = `
CREATE SEQUENCE tries;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF nextval('tries') <= %LIMIT% THEN RAISE SQLSTATE '40001' USING MESSAGE = 'could not serialize'; END IF;
	RETURN NEW;
END $$;
CREATE %KIND%`

func TestPostgresSerializationFailureIsTriedAgain(t *testing.T) {
	for name, kind := range map[string]string{
		"of a statement": `TRIGGER f BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION fail()`,
		"of the COMMIT":  `CONSTRAINT TRIGGER f AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()`,
	} {
		for limit, want := range map[string]framework.Outcome{"3": framework.Saved, "1000000": framework.NotSaved} {
			t.Run(name+" "+limit, func(t *testing.T) {
				database := postgresDatabase(t)
				s := openPostgresSink(t, servers.Postgres(t), database)
				c := claimLane(t, s, 0)
				conn := openPostgres(t, database)
				execPostgres(t, conn, strings.NewReplacer("%LIMIT%", limit, "%KIND%", kind).Replace(failing))
				err := c.Save(t.Context(), eventBatch(0, 0, 10))
				if got := outcome(err); got != want {
					t.Fatalf("Save returned %v, want %v", err, want)
				}
				if err != nil {
					wantNotSaved(t, err, framework.ErrUnavailable, false)
				}
				wantPostgresAgreement(t, s, conn, 0)
			})
		}
	}
}

// A server that goes away takes nothing with it that was said to be saved, and
// the sink works on when it is back.
func TestPostgresServerThatIsKilledAndComesBack(t *testing.T) {
	set, err := servers.Start(t.Context(), servers.Options{Postgres: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	addr := set.Postgres.Addr()
	s := openPostgresSink(t, addr, servers.PostgresDatabase)
	c := claimLane(t, s, 0)
	if err := c.Save(t.Context(), eventBatch(0, 0, 10)); err != nil {
		t.Fatal(err)
	}
	if err := set.Postgres.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantNotSaved(t, c.Save(t.Context(), eventBatch(0, 10, 20)), framework.ErrUnavailable, false)
	if err := s.Health(t.Context()); !errors.Is(err, framework.ErrUnavailable) {
		t.Errorf("Health returned %v, want ErrUnavailable", err)
	}
	if err := set.Postgres.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(t.Context(), eventBatch(0, 10, 20)); err != nil {
		t.Fatalf("after the server is back: %v", err)
	}
	conn, err := pgx.Connect(t.Context(), postgresURL(addr, servers.PostgresDatabase))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if at := wantPostgresAgreement(t, s, conn, 0); at != 20 {
		t.Errorf("the position is %d, want 20", at)
	}
}

func TestPostgresOpenSaysWhyNot(t *testing.T) {
	addr := servers.Postgres(t)
	latin := "latin_" + strings.TrimPrefix(postgresDatabase(t), "test_")
	admin := openPostgres(t, servers.PostgresDatabase)
	execPostgres(t, admin, "CREATE DATABASE "+latin+" ENCODING 'LATIN1' TEMPLATE template0")
	t.Cleanup(func() { execPostgres(t, openPostgres(t, servers.PostgresDatabase), "DROP DATABASE "+latin) })
	closed := startProxy(t, addr)
	closed.listener.Close()
	good := postgresURL(addr, servers.PostgresDatabase)
	for name, test := range map[string]struct {
		dsn  string
		want string
		kind error
	}{
		"wrong password":   {strings.Replace(good, servers.PostgresPassword, "secret", 1), "password authentication failed", framework.ErrConfig},
		"missing database": {postgresURL(addr, "nowhere"), `database "nowhere" does not exist`, framework.ErrConfig},
		"unknown setting":  {postgresURL(addr, servers.PostgresDatabase, "lok_timeout=1s"), "lok_timeout", framework.ErrConfig},
		"bad setting":      {postgresURL(addr, servers.PostgresDatabase, "lock_timeout=soon"), "lock_timeout", framework.ErrConfig},
		"no TLS":           {strings.Replace(good, "sslmode=disable", "sslmode=require", 1), "server refused TLS connection", framework.ErrConfig},
		"another encoding": {postgresURL(addr, latin), "the encoding LATIN1", framework.ErrConfig},
		"nobody there":     {postgresURL(closed.addr(), "db", "start_wait=1s"), "no connection to the server within 1s", framework.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sql.Open(t.Context(), sql.Config{DSN: test.dsn})
			if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "postgres database") {
				t.Errorf("Open returned %v, want %v with %q", err, test.kind, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// Open waits for a server that comes up later.
func TestPostgresOpenWaitsForTheServer(t *testing.T) {
	set, err := servers.Start(t.Context(), servers.Options{Postgres: true, FastStart: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := set.Postgres.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	dsn := postgresURL(set.Postgres.Addr(), servers.PostgresDatabase)
	if _, err := sql.Open(t.Context(), sql.Config{DSN: dsn, StartWait: -1}); !errors.Is(err, framework.ErrUnavailable) {
		t.Fatalf("without a wait Open returned %v, want ErrUnavailable", err)
	}
	opened := make(chan error)
	go func() {
		s, err := sql.Open(t.Context(), sql.Config{DSN: dsn})
		if err == nil {
			err = s.Close(context.Background())
		}
		opened <- err
	}()
	if err := set.Postgres.Start(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
