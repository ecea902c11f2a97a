package frameworktest_test

import (
	"context"
	databasesql "database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// The child's order is in its environment: the database, and the point at which it
// kills itself, if any.
const (
	childDSN   = "FRAMEWORKTEST_CHILD_DSN"
	childPoint = "FRAMEWORKTEST_CHILD_POINT"
)

// A real process kills itself at each point, one after the other, on one database;
// the last one is left to finish.
func TestKilledProcessLosesAndRepeatsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "words.db")
	for _, point := range framework.Points() {
		if err := child(t, path, point); !killed(err) {
			t.Fatalf("the process that should be killed at %q ended with: %v", point, err)
		}
	}
	if err := child(t, path, ""); err != nil {
		t.Fatal(err)
	}
	checkDatabase(t, path)
}

func child(t *testing.T, path string, point framework.Point) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childDSN+"=sqlite://"+path, childPoint+"="+string(point))
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", errors.Join(err, ctx.Err()), out)
	}
	return err
}

// killed reports whether a process ended by a signal, and not of its own accord.
func killed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && !exit.Exited() && !errors.Is(err, context.DeadlineExceeded)
}

func checkDatabase(t *testing.T, path string) {
	t.Helper()
	db, err := databasesql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for question, want := range map[string]int{
		`SELECT count(*) FROM words`:                                2 * perPartition,
		`SELECT sum(n) FROM counts`:                                 2 * perPartition,
		`SELECT count(DISTINCT n) FROM counts`:                      1,
		`SELECT count(*) FROM lockstep_lane WHERE next_offset = 40`: 2,
	} {
		var got int
		if err := db.QueryRow(question).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", question, got, err, want)
		}
	}
}

type wordRow struct {
	Partition int32  `db:"partition,key"`
	Offset    int64  `db:"at,key"`
	Word      string `db:"word"`
}

type countRow struct {
	Word      string `db:"word,key"`
	Partition int32  `db:"partition,key"`
	N         int64  `db:"n"`
}

// runChild is the program of the child process.
func runChild(dsn string, point framework.Point) error {
	ctx := context.Background()
	words, counts := sql.NewTable[wordRow]("words"), sql.NewTable[countRow]("counts")
	sink, err := sql.Open(ctx, sql.Config{DSN: dsn, Tables: []sql.AnyTable{words, counts}, Schema: []string{
		`CREATE TABLE IF NOT EXISTS words (partition INTEGER, at INTEGER, word TEXT NOT NULL, PRIMARY KEY (partition, at))`,
		`CREATE TABLE IF NOT EXISTS counts (word TEXT, partition INTEGER, n INTEGER NOT NULL, PRIMARY KEY (word, partition))`,
	}})
	if err != nil {
		return err
	}
	defer sink.Close(ctx)
	if err := sink.Migrate(ctx); err != nil {
		return err
	}
	p, err := childPipeline(words, counts)
	if err != nil {
		return err
	}
	log := produced()
	log.Identify("in", offsetstore.TopicID{1}) // the log is the same in every process
	cfg := framework.Config{BatchRecords: 4, Logger: quiet}
	if point != "" {
		cfg.Hooks.Reached = frameworktest.KillAt(point, 2)
	}
	r, err := framework.NewRunner(p, frameworktest.NewSource(log), sink, cfg)
	if err != nil {
		return err
	}
	return frameworktest.RunUntilSaved(ctx, r, log)
}

// childPipeline inserts the words, so that one saved twice is an error.
func childPipeline(words *sql.Table[wordRow], counts *sql.Table[countRow]) (*framework.Pipeline[sql.Write], error) {
	type count = framework.Keyed[string, int64]
	in := framework.From(codec.String())
	rows := framework.MapErr(in, func(ctx framework.Context, w string) (sql.Write, error) {
		return words.Insert(wordRow{ctx.Partition(), ctx.Record().Offset, w}), nil
	})
	ones := framework.Map(in, func(w string) count { return count{Key: w, Value: 1} })
	sums := framework.ReduceByKey("counts", ones, func(a, b int64) int64 { return a + b })
	totals := framework.MapErr(sums, func(ctx framework.Context, c count) (sql.Write, error) {
		return counts.Upsert(countRow{c.Key, ctx.Partition(), c.Value}), nil
	})
	return framework.NewPipeline("words", framework.Merge(rows, totals))
}
