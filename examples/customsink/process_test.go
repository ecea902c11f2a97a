package customsink_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/examples/customsink"
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// rootVariable makes the test binary one of the processes that fight for a
// partition.
const rootVariable = "CUSTOMSINK_TEST_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(rootVariable); root != "" {
		fmt.Fprintln(os.Stderr, fight(root)) // returns only after an error that should not be
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// fight claims the partition and saves, one offset at a time, as if it were the
// only owner, and prints each offset that it was told is saved. Fenced, it claims
// again.
func fight(root string) error {
	ctx := context.Background()
	sink, err := customsink.Open(root)
	if err != nil {
		return err
	}
	for {
		c, err := sink.Claim(ctx, "p", tp, offsetstore.At(0))
		if err != nil {
			return err
		}
		if err := saveOn(ctx, c); !errors.Is(err, framework.ErrFenced) {
			return err
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // or nobody would get far
	}
}

func saveOn(ctx context.Context, c framework.Claim[customsink.Write]) error {
	key := framework.StateKey{Operator: "count"}
	for n := c.Progress().Position.Offset; ; n++ {
		values, err := c.Load(ctx, []framework.StateKey{key})
		if err != nil {
			return err
		}
		count, _ := strconv.Atoi(string(values[0])) // 0 where there is none
		b := batch(n, customsink.Write{Key: fmt.Sprint(n), Value: fmt.Sprint(count)})
		b.State = []framework.StateEntry{{StateKey: key, Value: fmt.Append(nil, count+1)}}
		if err := c.Save(ctx, b); err != nil {
			return err
		}
		fmt.Println("saved", n)
	}
}

// fighter is one process, and the offsets that it says it has saved.
type fighter struct {
	cmd   *exec.Cmd
	log   strings.Builder // valid when it has ended
	done  sync.WaitGroup
	saved []int64 // valid when it has ended
}

func startFighter(t *testing.T, root string) *fighter {
	t.Helper()
	f := &fighter{cmd: exec.Command(os.Args[0])}
	f.cmd.Env = append(os.Environ(), rootVariable+"="+root)
	f.cmd.Stderr = &f.log
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.done.Go(func() {
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return // a line that was cut by the kill says nothing
			}
			if n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(line, "saved ")), 10, 64); err == nil {
				f.saved = append(f.saved, n)
			}
		}
	})
	t.Cleanup(func() { f.kill(t) })
	return f
}

func (f *fighter) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := f.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%v: %v; its words: %s", s, err, &f.log)
	}
}

// kill ends the process as a crash does, also one that is stopped.
func (f *fighter) kill(t *testing.T) {
	t.Helper()
	if f.cmd.ProcessState != nil {
		return
	}
	_ = f.cmd.Process.Kill()
	f.done.Wait()
	_ = f.cmd.Wait() // it was killed
	if f.log.Len() > 0 {
		t.Errorf("a process said: %s", &f.log)
	}
}

// Three processes take a partition from each other; one after the other is
// stopped in the middle of what it does, continued when others have gone on, or
// killed. Every save that was said to be saved took effect once, and the state
// has never been counted from anything but the save before.
func TestProcessesThatAreKilledAndStoppedSaveEachOffsetOnce(t *testing.T) {
	root := t.TempDir()
	table := customsink.NewTable(root)
	awaitMore := func() {
		t.Helper()
		if err := table.Refresh(); err != nil {
			t.Fatal(err)
		}
		want := len(table.Rows) + 5
		for deadline := time.Now().Add(time.Minute); len(table.Rows) < want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("stuck at %d saves", len(table.Rows))
			}
			if err := table.Refresh(); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := []*fighter{startFighter(t, root), startFighter(t, root), startFighter(t, root)}
	fighting := append([]*fighter(nil), all...)
	for round := range 9 {
		i := round % len(fighting)
		awaitMore()
		fighting[i].signal(t, syscall.SIGSTOP)
		awaitMore() // by the others
		fighting[i].signal(t, syscall.SIGCONT)
		if round%2 == 1 {
			fighting[i].kill(t)
			fighting[i] = startFighter(t, root)
			all = append(all, fighting[i])
		}
	}
	for _, f := range all {
		f.kill(t)
	}

	end := claim(t, open(t, root)).Progress().Position.Offset
	if err := table.Refresh(); err != nil {
		t.Fatal(err)
	}
	said := map[int64]int{}
	for _, f := range all {
		for _, n := range f.saved {
			said[n]++
		}
	}
	for n, times := range said {
		if times > 1 || n >= end {
			t.Errorf("offset %d was said to be saved %d times, the position is %d", n, times, end)
		}
	}
	for n := range end {
		if got := table.Rows[fmt.Sprint(n)]; got != fmt.Sprint(n) {
			t.Errorf("the row of offset %d says that %q were saved before it", n, got)
		}
	}
	if len(table.Rows) != int(end) {
		t.Errorf("%d rows, want %d", len(table.Rows), end)
	}
	t.Logf("%d offsets saved, %d of them said so, by %d processes", end, len(said), len(all))
}
