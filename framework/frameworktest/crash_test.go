package frameworktest_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/memory"
)

// TestMain runs the tests, or the child process of one.
func TestMain(m *testing.M) {
	if dsn := os.Getenv(childDSN); dsn != "" {
		if err := runChild(dsn, framework.Point(os.Getenv(childPoint))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

type (
	row   = memory.Row
	keyed = framework.Keyed[string, int]
)

var quiet = slog.New(slog.DiscardHandler)

// words copies each word to where it came from, and counts it.
func words() *framework.Pipeline[row] {
	in := framework.From(codec.String())
	rows := framework.MapErr(in, func(ctx framework.Context, w string) (row, error) {
		return row{Table: "words", Key: fmt.Sprintf("%d@%d", ctx.Partition(), ctx.Record().Offset), Value: w}, nil
	})
	ones := framework.Map(in, func(w string) keyed { return keyed{Key: w, Value: 1} })
	counts := framework.ReduceByKey("counts", ones, func(a, b int) int { return a + b })
	totals := framework.MapErr(counts, func(ctx framework.Context, k keyed) (row, error) {
		return row{Table: "counts", Key: fmt.Sprintf("%s %d", k.Key, ctx.Partition()), Value: k.Value}, nil
	})
	p, err := framework.NewPipeline("words", framework.Merge(rows, totals))
	if err != nil {
		panic(err)
	}
	return p
}

const perPartition = 40

func produced() *frameworktest.Log {
	log := frameworktest.NewLog()
	for part := range int32(2) {
		for i := range perPartition {
			log.Produce("in", part, fmt.Sprintf("w%d", i%5))
		}
	}
	return log
}

// check compares everything saved with what was produced.
func check(t *testing.T, store *memory.Store[row]) {
	t.Helper()
	for part := range int32(2) {
		writes := map[string]int{}
		for _, w := range store.Writes("words", offsetstore.TopicPartition{Topic: "in", Partition: part}) {
			if w.Table == "words" {
				writes[w.Key]++
			}
		}
		for i := range perPartition {
			if n := writes[fmt.Sprintf("%d@%d", part, i)]; n != 1 {
				t.Errorf("in/%d@%d was written %d times", part, i, n)
			}
		}
		for w := range 5 {
			key := fmt.Sprintf("w%d %d", w, part)
			if n := memory.Rows(store, "counts")[key]; n != perPartition/5 {
				t.Errorf("the count %s is %v, want %d", key, n, perPartition/5)
			}
		}
	}
}

func TestCrashAtAnyPointLosesAndRepeatsNothing(t *testing.T) {
	for _, point := range framework.Points() {
		for nth := 1; nth <= 5; nth++ {
			if nth > 2 && (point == framework.PointClaim || point == framework.PointDrain) {
				break // once a partition
			}
			t.Run(fmt.Sprint(point, " ", nth), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crashAndGoOn(t, point, nth) })
			})
		}
	}
}

func crashAndGoOn(t *testing.T, point framework.Point, nth int) {
	log, store := produced(), memory.NewStore[row]()
	cfg := framework.Config{BatchRecords: 7, Logger: quiet}
	if err := frameworktest.RunUntilCrash(t.Context(), words(), log, store.Open(memory.Options[row]{Owner: "first"}), cfg, point, nth); err != nil {
		t.Fatal(err)
	}
	released := 0
	positions, err := store.Open(memory.Options[row]{}).Positions(t.Context(), "words")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range positions {
		if p.Owner == "" {
			released++
		}
	}
	if point != framework.PointDrain && released > 0 {
		t.Errorf("%d claims were released by a process that crashed", released)
	}
	r, err := framework.NewRunner(words(), frameworktest.NewSource(log), store.Open(memory.Options[row]{Owner: "second"}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := frameworktest.RunUntilSaved(t.Context(), r, log); err != nil {
		t.Fatal(err)
	}
	check(t, store)
}

// Each point stops the run where its name says.
func TestCrashStopsBeforeAndAfterTheSave(t *testing.T) {
	for point, saved := range map[framework.Point]bool{
		framework.PointClaim:      false,
		framework.PointBeforeSave: false,
		framework.PointAfterSave:  true,
		framework.PointDrain:      true,
	} {
		t.Run(string(point), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, store := frameworktest.NewLog(), memory.NewStore[row]()
				log.Produce("in", 0, "a")
				told := false
				cfg := framework.Config{Logger: quiet, Hooks: framework.Hooks{Saved: func(framework.SavedEvent) { told = true }}}
				if err := frameworktest.RunUntilCrash(t.Context(), words(), log, store.Open(memory.Options[row]{}), cfg, point, 1); err != nil {
					t.Fatal(err)
				}
				pos, ok := store.Position("words", offsetstore.TopicPartition{Topic: "in"})
				if !ok {
					t.Fatal("no position was stored by the claim")
				}
				if got := pos.Offset == 1; got != saved {
					t.Errorf("the position is %d; saved should be %t", pos.Offset, saved)
				}
				if want := point == framework.PointDrain; told != want {
					t.Errorf("the save was reported: %t, want %t", told, want)
				}
			})
		})
	}
}

func TestPointThatIsNotReachedIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store := frameworktest.NewLog(), memory.NewStore[row]()
		log.Produce("in", 0, "a")
		err := frameworktest.RunUntilCrash(t.Context(), words(), log, store.Open(memory.Options[row]{}), framework.Config{Logger: quiet}, framework.PointClaim, 2)
		if err == nil || !strings.Contains(err.Error(), `"claim"`) {
			t.Errorf("error %v, want one that names the point", err)
		}
	})
}

// A crash does not wait for saves that a dead process would not wait for.
func TestCrashEndsASaveThatIsHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store := produced(), memory.NewStore[row]()
		hooks := memory.Hooks[row]{BeforeSave: func(ctx context.Context, _ string, tp offsetstore.TopicPartition, _ *framework.Batch[row]) error {
			if tp.Partition == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		began := time.Now()
		sink := store.Open(memory.Options[row]{Hooks: hooks})
		if err := frameworktest.RunUntilCrash(t.Context(), words(), log, sink, framework.Config{BatchRecords: 7, Logger: quiet}, framework.PointAfterSave, 3); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// A pipeline crashes after its first save, before anyone was told, and is run again.
func ExampleRunUntilCrash() {
	ctx := context.Background()
	log := frameworktest.NewLog()
	log.Produce("in", 0, "to", "be", "or", "not", "to", "be")
	store := memory.NewStore[memory.Row]()
	open := func() *memory.Sink[memory.Row] { return store.Open(memory.Options[memory.Row]{}) }
	cfg := framework.Config{BatchRecords: 2, Logger: slog.New(slog.DiscardHandler)}
	at := offsetstore.TopicPartition{Topic: "in", Partition: 0}

	if err := frameworktest.RunUntilCrash(ctx, words(), log, open(), cfg, framework.PointAfterSave, 1); err != nil {
		fmt.Println(err)
		return
	}
	position, _ := store.Position("words", at)
	fmt.Println("crashed at position", position.Offset, "with", memory.Rows(store, "counts"))

	runner, err := framework.NewRunner(words(), frameworktest.NewSource(log), open(), cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := frameworktest.RunUntilSaved(ctx, runner, log); err != nil {
		fmt.Println(err)
		return
	}
	position, _ = store.Position("words", at)
	fmt.Println("ended at position", position.Offset, "with", memory.Rows(store, "counts"))
	// Output:
	// crashed at position 2 with map[be 0:1 to 0:1]
	// ended at position 6 with map[be 0:2 not 0:1 or 0:1 to 0:2]
}
