package sql_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// The environment of a child process: what it does, and in which database.
const (
	childRole = "LOCKSTEP_SQL_TEST_ROLE"
	childPath = "LOCKSTEP_SQL_TEST_PATH"
)

// child is another process that works on the same database.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startChild(t *testing.T, role, path string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childRole+"="+role, childPath+"="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{cmd: cmd, in: in, lines: bufio.NewScanner(out)}
}

// line returns the next line the child prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	if !c.lines.Scan() {
		t.Fatalf("the child ended early: %v", c.cmd.Wait())
	}
	return c.lines.Text()
}

// kill ends the child with SIGKILL, which runs none of its code.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for c.lines.Scan() { // drain the pipe
	}
	_ = c.cmd.Wait() // reports the signal
}

// runChild is the main function of a child process.
func runChild(role string) int {
	if err := childMain(context.Background(), role, os.Getenv(childPath)); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func childMain(ctx context.Context, role, path string) error {
	s, err := sql.Open(ctx, sql.Config{DSN: "sqlite://" + path, Tables: []sql.AnyTable{events}, Schema: []string{eventsSchema}})
	if err != nil {
		return err
	}
	if err := s.Migrate(ctx); err != nil {
		return err
	}
	var partition int32
	switch role {
	case "save until killed":
		return saveForever(ctx, s)
	case "save when told":
		return saveWhenTold(ctx, s)
	default:
		if _, err := fmt.Sscanf(role, "save a little on partition %d", &partition); err != nil {
			return fmt.Errorf("unknown role %q", role)
		}
		return errors.Join(saveSome(ctx, s, partition, 20), s.Close(ctx))
	}
}

const childLanes = 3

// saveForever saves on several lanes at once and prints a line for each save.
func saveForever(ctx context.Context, s *sql.Sink) error {
	errs := make(chan error)
	for partition := range int32(childLanes) {
		go func() { errs <- saveSome(ctx, s, partition, 1<<30) }()
	}
	return <-errs
}

func saveSome(ctx context.Context, s *sql.Sink, partition int32, saves int) error {
	c, err := s.Claim(ctx, "p", orders(partition), offsetstore.At(0))
	if err != nil {
		return err
	}
	at := c.Progress().Position.Offset
	for i := range saves {
		to := at + 1 + int64(i*37%500)
		if err := c.Save(ctx, eventBatch(partition, at, to)); err != nil {
			return err
		}
		at = to
		fmt.Println("saved", partition, at)
	}
	return nil
}

// saveWhenTold claims, and then saves once for each line of its input.
func saveWhenTold(ctx context.Context, s *sql.Sink) error {
	c, err := s.Claim(ctx, "p", orders(0), offsetstore.At(0))
	if err != nil {
		return err
	}
	fmt.Println("claimed")
	at := c.Progress().Position.Offset
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		err := c.Save(ctx, eventBatch(0, at, at+10))
		var se *framework.SaveError
		switch {
		case err == nil:
			at += 10
			fmt.Println("saved")
		case errors.As(err, &se):
			fmt.Println("fenced:", errors.Is(err, framework.ErrFenced), "outcome:", se.Outcome)
		default:
			return err
		}
	}
	return nil
}

func TestKilledProcessLeavesRowsAndPositionsInAgreement(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openEvents(t, path, "")
	var before [childLanes]int64
	for round := range 8 {
		c := startChild(t, "save until killed", path)
		for range 5 + 3*round { // each round is killed at another place
			c.line(t)
		}
		c.kill(t)
		for partition := range int32(childLanes) {
			at := wantAgreement(t, s, path, partition)
			// Nothing is left locked, and saving goes on.
			if err := claimLane(t, s, partition).Save(t.Context(), eventBatch(partition, at, at+1)); err != nil {
				t.Fatal(err)
			}
			if at < before[partition] {
				t.Fatalf("partition %d went back from %d to %d", partition, before[partition], at)
			}
			before[partition] = at + 1
		}
	}
	if before[0]+before[1]+before[2] <= 3*8 {
		t.Fatalf("the children saved nothing: %v", before)
	}
}

func TestSavedBeforeTheKillIsThereAfterwards(t *testing.T) {
	t.Parallel()
	for _, synchronous := range []string{"full", "normal"} {
		t.Run(synchronous, func(t *testing.T) {
			path := newPath(t)
			c := startChild(t, "save until killed", path+"?synchronous="+synchronous)
			said := map[int32]int64{}
			for range 30 {
				var partition int32
				var at int64
				if _, err := fmt.Sscanf(c.line(t), "saved %d %d", &partition, &at); err != nil {
					t.Fatal(err)
				}
				said[partition] = at
			}
			c.kill(t)
			s := openEvents(t, path, "")
			for partition, at := range said {
				if stored := wantAgreement(t, s, path, partition); stored < at {
					t.Errorf("partition %d: %d was said to be saved, stored is %d", partition, at, stored)
				}
			}
		})
	}
}

func TestFormerOwnerInAnotherProcessIsFenced(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openEvents(t, path, "")
	former := startChild(t, "save when told", path)
	defer former.kill(t)
	tell := func(want string) {
		t.Helper()
		if _, err := io.WriteString(former.in, "save\n"); err != nil {
			t.Fatal(err)
		}
		if got := former.line(t); got != want {
			t.Fatalf("the child says %q, want %q", got, want)
		}
	}
	if got := former.line(t); got != "claimed" {
		t.Fatalf("the child says %q", got)
	}
	tell("saved")
	owner := claimLane(t, s, 0)
	if at := owner.Progress().Position.Offset; at != 10 {
		t.Fatalf("the new owner continues at %d, want 10", at)
	}
	tell("fenced: true outcome: not saved")
	if err := owner.Save(t.Context(), eventBatch(0, 10, 15)); err != nil {
		t.Fatal(err)
	}
	tell("fenced: true outcome: not saved")
	if at := wantAgreement(t, s, path, 0); at != 15 {
		t.Errorf("the position is %d, want 15", at)
	}
}

func TestManyProcessesStartOnOneNewDatabase(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	const processes = 4
	children := make([]*child, processes)
	for i := range children {
		children[i] = startChild(t, fmt.Sprintf("save a little on partition %d", i), path)
	}
	var wg sync.WaitGroup
	errs := make([]error, processes)
	for i, c := range children {
		wg.Go(func() {
			for c.lines.Scan() { // drain the pipe
			}
			errs[i] = c.cmd.Wait()
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	s := openEvents(t, path, "")
	for partition := range int32(processes) {
		if at := wantAgreement(t, s, path, partition); at == 0 {
			t.Errorf("partition %d has nothing", partition)
		}
	}
	positions, err := s.Positions(t.Context(), "p")
	if err != nil || len(positions) != processes || !strings.Contains(positions[0].Owner, "/") {
		t.Errorf("Positions returned %+v, %v", positions, err)
	}
}
