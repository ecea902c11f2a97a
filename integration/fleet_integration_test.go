//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/examples/exactlyonce/check"
	"github.com/lockstep-stream/lockstep/examples/exactlyonce/generate"
	"github.com/lockstep-stream/lockstep/integration/servers"
)

// Three processes share the partitions of one topic while events keep coming.
// Two are killed again and again; the third joins and leaves in order, so that
// partitions move between them. In the end every row, total and position is
// what was produced.
func TestProcessesThatShareATopicAreKilledWhileTheyWork(t *testing.T) {
	newFleet(t).survive(60_000, 3000, 6)
}

// survive produces that many events, at a rate a second, and kills that many
// processes meanwhile.
func (f *fleet) survive(events, rate, kills int) {
	t := f.t
	var model check.Model
	produced := make(chan error, 1)
	go func() {
		g := generate.NewGenerator(1, 0, time.Now(), 10*time.Millisecond)
		produced <- f.producer.Produce(t.Context(), events, rate, g.Next, model.Add)
	}()

	victims := []*member{f.start("a"), f.start("b")}
	visitor := f.start("")
	for i := range kills {
		f.await("the next part", func(saved int64) bool { return saved > int64(events)*int64(i+1)/int64(kills+4) })
		time.Sleep(rand.N(time.Second))
		v := i % len(victims)
		f.killInsideTheLog(victims[v])
		victims[v] = f.start(victims[v].instance)
		if i%2 == 0 {
			f.stop(visitor)
			visitor = f.start("")
		}
	}
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	f.await("everything", func(saved int64) bool { return saved >= int64(events) })
	for _, m := range append(victims, visitor) {
		f.stop(m)
	}
	report, err := model.Compare(t.Context(), f.topic, f.store)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kills, %d processes; %s\nwhat they said:\n%s", kills, len(f.logs), report, f.said())
	for _, d := range report.Differences {
		t.Error(d)
	}
	if !report.OK() {
		t.Error("the tables are not what was produced")
	}
}

// said counts the messages in the logs of all processes.
func (f *fleet) said() string {
	f.t.Helper()
	counts := map[string]int{}
	for _, name := range f.logs {
		text, err := os.ReadFile(name)
		must(f.t, err)
		for _, m := range message.FindAllSubmatch(text, -1) {
			counts[string(m[1])]++
		}
	}
	var table strings.Builder
	for _, m := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&table, "%6d  %s\n", counts[m], m)
	}
	return table.String()
}

// message finds what a line of a log says.
var message = regexp.MustCompile(`(?m) level=[A-Z]+ msg=("(?:[^"\\]|\\.)*"|\S+)`)

// fleet is a topic, a keyspace, and processes between them.
type fleet struct {
	t        *testing.T
	program  string
	args     []string
	topic    string
	producer *generate.Producer
	store    app.Reader
	logs     []string // files, of every process that was ever started
}

// member is one process of the streaming app.
type member struct {
	instance string
	cmd      *exec.Cmd
	log      *os.File
	exited   chan error
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	fresh := strings.ReplaceAll(uuid.NewString(), "-", "")
	kafka, cassandra := servers.Kafka(t), servers.Cassandra(t)
	f := &fleet{t: t, topic: "fleet." + fresh, program: filepath.Join(t.TempDir(), "streaming")}
	dsn := fmt.Sprintf("cassandra://%s/fleet_%s", cassandra, fresh)
	f.args = []string{"-brokers", kafka, "-topic", f.topic, "-group", fresh, "-sink", dsn, "-batch", "500"}

	build := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", f.program, "../examples/exactlyonce/cmd/streaming")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the streaming app: %v\n%s", err, out)
	}
	var err error
	if f.producer, err = generate.Connect(t.Context(), strings.Split(kafka, ","), f.topic, time.Minute, slog.Default()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.producer.Close)
	if err := f.producer.CreateTopic(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := app.ParseDatabase("--sink", dsn, time.Minute, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.store, err = db.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.store.Close() })
	return f
}

// start starts a process, as a static member of the group if it has a name: then
// it has its partitions back when it is started again.
func (f *fleet) start(instance string) *member {
	f.t.Helper()
	log, err := os.CreateTemp(f.t.TempDir(), "log")
	if err != nil {
		f.t.Fatal(err)
	}
	f.logs = append(f.logs, log.Name())
	m := &member{instance: instance, log: log, exited: make(chan error, 1)}
	m.cmd = exec.Command(f.program, append([]string{"-instance", instance}, f.args...)...)
	m.cmd.Stderr = log
	if err := m.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { m.exited <- m.cmd.Wait() }()
	f.t.Cleanup(func() { _ = m.cmd.Process.Kill() }) // in case the test failed
	return m
}

// killInsideTheLog kills a process while records wait that are not saved yet.
func (f *fleet) killInsideTheLog(m *member) {
	f.t.Helper()
	f.awaitLag()
	if err := m.cmd.Process.Kill(); err != nil {
		f.t.Fatalf("process %q had ended by itself: %v\n%s", m.instance, err, m.tail())
	}
	<-m.exited
	saved := f.saved()
	end, err := f.producer.Records(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if saved <= 0 || saved >= end {
		f.t.Fatalf("the kill came at %d of %d, which is not inside the log", saved, end)
	}
	f.t.Logf("SIGKILL of %q with %d of %d saved", m.instance, saved, end)
}

// awaitLag returns when what is saved is behind what is produced.
func (f *fleet) awaitLag() {
	f.t.Helper()
	for range 10_000 {
		saved := f.saved()
		end, err := f.producer.Records(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		if saved < end {
			return
		}
		time.Sleep(time.Millisecond)
	}
	f.t.Fatal("nothing ever waited to be saved")
}

// stop stops a process in order, and wants it to end well.
func (f *fleet) stop(m *member) {
	f.t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		f.t.Fatalf("process %q had ended by itself: %v\n%s", m.instance, err, m.tail())
	}
	if err := <-m.exited; err != nil {
		f.t.Errorf("process %q after SIGTERM: %v\n%s", m.instance, err, m.tail())
	}
}

func (m *member) tail() string {
	b, err := os.ReadFile(m.log.Name())
	return string(b[max(0, len(b)-4000):]) + fmt.Sprint(errors.Join(err))
}

func (f *fleet) saved() (n int64) {
	f.t.Helper()
	positions, err := f.store.Positions(f.t.Context(), f.topic)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, p := range positions {
		n += p
	}
	return n
}

func (f *fleet) await(what string, done func(saved int64) bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 3*time.Minute)
	defer cancel()
	for saved := f.saved(); !done(saved); saved = f.saved() {
		select {
		case <-ctx.Done():
			f.t.Fatalf("%s was not saved in time; saved are %d", what, saved)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
