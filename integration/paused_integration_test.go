//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/proxy"
	"github.com/lockstep-stream/lockstep/sinks/cassandra"
	"github.com/lockstep-stream/lockstep/sources/kafka"
)

// A process stands still with a save on its way. The group gives its partitions to
// another, which works on. When the first wakes up, and its save arrives at last,
// that is refused, and no total is wrong.
func TestAPausedProcessWakesUpFenced(t *testing.T) {
	b := sharedBed(t, 2)
	w := newWatched(t)
	paused := b.spawn(w)
	b.produce(0, "a", 1, 1)
	b.produce(1, "b", 1, 1)
	b.await(0, "a", 2, 2)
	b.await(1, "b", 2, 2)

	w.arm(proxy.Stall)
	b.produce(0, "a", 1, 1)
	eventually(t, "the commit that is held back", func() bool { return len(w.sinceArmed()) > 0 })
	must(t, paused.cmd.Process.Signal(syscall.SIGSTOP))
	second := b.start(instance{})
	b.await(0, "a", 4, 4) // by the second: what the first has sent is still on its way
	b.produce(1, "b", 1, 1)
	b.await(1, "b", 4, 4)

	w.proxy.Resume()
	must(t, paused.cmd.Process.Signal(syscall.SIGCONT))
	eventually(t, "a refused save", func() bool { return paused.log.count("a save was not applied") > 0 })
	// Whether its next reading of the ledger or the group's word comes first is chance.
	eventually(t, "the end of the lane", func() bool {
		return paused.log.count("fenced") > 0 || paused.log.count("partition lost") > 0
	})
	eventually(t, "both in the group", func() bool { return b.members() == 2 })
	b.produce(0, "a", 1, 1)
	b.produce(1, "b", 1, 1)
	b.await(0, "a", 6, 6)
	b.await(1, "b", 6, 6)
	must(t, paused.cmd.Process.Signal(syscall.SIGTERM))
	if err := paused.cmd.Wait(); err != nil {
		t.Errorf("the process that was paused ended with %v", err)
	}
	second.end()
	b.want(0, "a", 6, 6)
	b.want(1, "b", 6, 6)
}

// members returns how many the bed's group has, none where there is no group or
// nobody knows it yet.
func (b *bed) members() int {
	b.t.Helper()
	groups, err := kadm.NewClient(b.client).DescribeGroups(b.t.Context(), b.topic)
	if err != nil {
		b.t.Logf("describing the group: %v", err)
		return 0
	}
	return len(groups[b.topic].Members)
}

// process is an instance of a bed's pipeline in a process of its own.
type process struct {
	cmd *exec.Cmd
	log *lines
}

// task is what such a process is told.
type task struct {
	Brokers  []string
	Topic    string
	Hosts    []string
	Keyspace string
}

// taskVariable holds a task, for this same test program.
const taskVariable = "LOCKSTEP_INTEGRATION_TASK"

// spawn starts a process that reaches Cassandra through w.
func (b *bed) spawn(w *watched) *process {
	b.t.Helper()
	text, err := json.Marshal(task{b.kafka, b.topic, []string{w.proxy.Addr()}, b.config.Keyspace})
	must(b.t, err)
	program, err := os.Executable()
	must(b.t, err)
	p := &process{cmd: exec.Command(program), log: new(lines)}
	p.cmd.Env = append(os.Environ(), taskVariable+"="+string(text))
	p.cmd.Stderr = p.log
	must(b.t, p.cmd.Start())
	b.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // where it runs, or stands still, yet
		_ = p.cmd.Wait()
		if b.t.Failed() {
			b.t.Logf("log of the process:\n%s", p.log.text())
		}
	})
	return p
}

// TestMain is also the beginning of a process that spawn has started.
func TestMain(m *testing.M) {
	text := os.Getenv(taskVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := work(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func work(text string) error {
	var todo task
	if err := json.Unmarshal([]byte(text), &todo); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	source, err := kafka.New(kafka.Config{
		Brokers: todo.Brokers, Topics: []string{todo.Topic}, Group: todo.Topic, SessionTimeout: 6 * time.Second, Logger: log,
	})
	if err != nil {
		return err
	}
	pipeline, err := sumPipeline()
	if err != nil {
		return err
	}
	return runOnce(ctx, pipeline, source, cassandra.Config{
		Hosts: todo.Hosts, Keyspace: todo.Keyspace, Tables: []cassandra.AnyTable{totals}, Logger: log,
	}, framework.Config{BatchRecords: 2, Logger: log}, func(*cassandra.Sink) {})
}
