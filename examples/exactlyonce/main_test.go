package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/examples/exactlyonce/generate"
	"github.com/lockstep-stream/lockstep/framework"
)

// demoCommand makes the test program the demo, for tests of its exit code.
const demoCommand = "demo"

// TestMain makes the test program do as the real one does when the demo starts
// itself again as the pipeline's process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == streamingCommand {
		main()
	}
	if len(os.Args) > 1 && os.Args[1] == demoCommand {
		app.Main(func(ctx context.Context, args []string) error { return run(ctx, args[1:], os.Stdout) })
	}
	// Under the race detector every process otherwise sleeps a second before it
	// exits, and the tests start many.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const testEvents = 600

// lastLine is what the demo ends with when all is well.
var lastLine = fmt.Sprintf("exactly once: %[1]d produced, %[1]d saved, 0 lost, 0 duplicated, alerts match", testEvents)

// crashLine is what the demo says of a crash, with the positions of the three
// partitions below.
var crashLine = regexp.MustCompile(`crash (\d) of 3: SIGKILL with (\d+) of \d+ events saved, inside the log of partition ([012, ]+)\n` +
	strings.Repeat(`  \S+/\d  (\d+) of (\d+)\n`, app.Partitions))

func TestTheDemoSurvivesItsCrashes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-events", strconv.Itoa(testEvents), "-seed", "1"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if lines[len(lines)-1] != lastLine {
		t.Errorf("the last line is %q, want %q", lines[len(lines)-1], lastLine)
	}
	crashes := crashLine.FindAllStringSubmatch(out.String(), -1)
	if len(crashes) != 3 {
		t.Fatalf("%d crashes, want 3:\n%s", len(crashes), &out)
	}
	last := 0
	for _, c := range crashes {
		saved, err := strconv.Atoi(c[2])
		if err != nil || saved <= last || saved >= testEvents {
			t.Errorf("%s: want more than %d and less than %d", c[0], last, testEvents)
		}
		last = saved
		for _, p := range strings.Split(c[3], ", ") {
			i, _ := strconv.Atoi(p)
			next, _ := strconv.Atoi(c[4+2*i])
			if end, _ := strconv.Atoi(c[5+2*i]); next <= 0 || next >= end {
				t.Errorf("%s: partition %s is at %d of %d, want strictly inside", c[0], p, next, end)
			}
		}
	}
	for _, want := range []string{"3 partitions, --seed 1\n", "producing: 600 of 600", "saving: 600 of 600", "positions:\n", app.Topic + "/2  ", "most alerts:\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
}

// TestAFinishedDemo looks at one demo from all sides, since each costs a second.
func TestAFinishedDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "x.db")
	s := settings{crashes: 0, events: testEvents, seed: 1, sink: "sqlite://" + file, topic: app.Topic, wait: time.Minute}
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	d, err := newDemo(t.Context(), s, &out)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	t.Run("the check sees damage", func(t *testing.T) { theCheckSeesDamage(t, d, db, &out) })
	t.Run("the queries run", func(t *testing.T) { theQueriesRun(t, db) })
	t.Run("its topic is refused", func(t *testing.T) { itsTopicIsRefused(t, d) })
}

// theCheckSeesDamage changes the real tables behind the demo's back, one thing
// at a time, and puts it right again.
func theCheckSeesDamage(t *testing.T, d *demo, db *sql.DB, out *bytes.Buffer) {
	exec := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	exec(`CREATE TABLE kept AS SELECT * FROM events WHERE id = 7`)
	const oneAlert = ` WHERE (source, ts, topic, partition) = (SELECT source, ts, topic, partition FROM alerts ORDER BY source, ts, topic, partition LIMIT 1)`
	for _, damage := range []struct{ name, harm, mend, summary, detail string }{
		{"a row is dropped",
			`DELETE FROM events WHERE id = 7`, `INSERT INTO events SELECT * FROM kept`,
			"599 saved, 1 lost, 0 duplicated", "difference: event 7, produced at"},
		{"a row is doubled",
			`INSERT INTO events SELECT topic, partition, "offset" + 1000000, id, ts, source, client, health FROM kept`,
			`DELETE FROM events WHERE "offset" >= 1000000`,
			"601 saved, 0 lost, 1 duplicated", "difference: event 7 is saved again at"},
		{"a total is changed",
			`UPDATE alerts SET event_count = event_count + 1` + oneAlert, `UPDATE alerts SET event_count = event_count - 1` + oneAlert,
			"1 alerts wrong", "events had low health"},
		{"a position is changed",
			`UPDATE lockstep_lane SET next_offset = next_offset - 1 WHERE partition = 0`,
			`UPDATE lockstep_lane SET next_offset = next_offset + 1 WHERE partition = 0`,
			"1 positions wrong", "but the log ends at"},
	} {
		exec(damage.harm)
		out.Reset()
		if err := d.verify(t.Context()); !errors.Is(err, errDiffers) {
			t.Errorf("%s: the check says %v", damage.name, err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "NOT exactly once: 600 produced") || !strings.Contains(last, damage.summary) {
			t.Errorf("%s: the last line is %q, want %q in it", damage.name, last, damage.summary)
		}
		if !strings.Contains(out.String(), damage.detail) {
			t.Errorf("%s: the output lacks %q:\n%s", damage.name, damage.detail, out)
		}
		exec(damage.mend)
		if err := d.verify(t.Context()); err != nil {
			t.Errorf("%s: after it was mended: %v", damage.name, err)
		}
	}
}

func theQueriesRun(t *testing.T, db *sql.DB) {
	script, err := os.ReadFile("queries.sql")
	if err != nil {
		t.Fatal(err)
	}
	queries := statements(string(script))
	if len(queries) != 5 {
		t.Fatalf("%d queries, want 5", len(queries))
	}
	for i, query := range queries {
		// The source of the fourth need not have had an alert among so few events.
		if countRows(t, db, query) == 0 && i != 3 {
			t.Errorf("no rows from %s", query)
		}
	}
	var events, last, next int
	if err := db.QueryRow(queries[0]).Scan(&events); err != nil || events != testEvents {
		t.Errorf("%s: %d, %v, want %d", queries[0], events, err, testEvents)
	}
	err = db.QueryRow(`SELECT (SELECT sum(last_offset + 1) FROM (`+queries[1]+`)), (SELECT sum(next_offset) FROM (`+queries[2]+`))`).Scan(&last, &next)
	if err != nil || last != testEvents || next != testEvents {
		t.Errorf("last events at %d, positions at %d, %v, want %d both", last, next, err, testEvents)
	}
}

func itsTopicIsRefused(t *testing.T, d *demo) {
	s := d.settings
	s.sink = "sqlite://" + filepath.Join(t.TempDir(), "other.db")
	_, err := newDemo(t.Context(), s, io.Discard)
	if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), "-topic "+app.Topic+" has 600 records already") {
		t.Errorf("a topic with records: %v", err)
	}
	s = d.settings
	s.brokers = "" // another Kafka, where the topic is empty
	_, err = newDemo(t.Context(), s, io.Discard)
	if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), "-sink holds results") {
		t.Errorf("a sink that knows the topic: %v", err)
	}
}

// statements splits a script at its semicolons and drops comments.
func statements(script string) []string {
	var all []string
	var b strings.Builder
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "--") {
			continue
		}
		b.WriteString(line)
		if text := strings.TrimSpace(b.String()); strings.HasSuffix(text, ";") {
			all = append(all, strings.TrimSuffix(text, ";"))
			b.Reset()
		}
	}
	return all
}

func countRows(t *testing.T, db *sql.DB, query string) int {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		n++
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func TestWrongSettingsAreRefusedByName(t *testing.T) {
	for args, says := range map[string]string{
		"-events 79":                  "-events 79: give at least 80 for 3 crashes",
		"-events many":                `invalid value "many" for flag --events`,
		"-crashes -1":                 "--crashes -1",
		"-brokers h1":                 `--brokers "h1"`,
		"-topic a/b":                  `--topic "a/b"`,
		"-sink mysql://h/db":          `--sink "mysql://h/db"`,
		"-sink cassandra://h:0/k":     `--sink "cassandra://h:0/k"`,
		"-wait -1s":                   "--wait -1s",
		"-colour red":                 "--colour",
		"-brokers 127.0.0.1:9092 now": "now",
	} {
		var out bytes.Buffer
		err := run(t.Context(), strings.Fields(args), &out)
		if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want ErrConfig with %q", args, err, says)
		}
	}
}

// TestExitCodes runs the program itself.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		args []string
		code int
	}{
		{[]string{demoCommand, "-events", "100", "-crashes", "1"}, 0},
		{[]string{demoCommand, "-help"}, 0},
		{[]string{demoCommand, "-events", "1"}, 2},
		{[]string{demoCommand, "-brokers", "127.0.0.1:1", "-wait", "100ms"}, 1},
		{[]string{streamingCommand, "-sink", "nothing"}, 2},
	}
	for _, c := range cases {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], c.args...)
			out, _ := cmd.CombinedOutput() // its error is the code
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d:\n%s", code, c.code, out)
			}
		})
	}
}

// TestADatabaseThatIsDownIsNamedAtOnce runs the program itself, since what it
// has to say while it waits goes to stderr.
func TestADatabaseThatIsDownIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], demoCommand, "--events", "100", "--sink", "cassandra://127.0.0.1:1/k", "--wait", "1s")
	out, _ := cmd.CombinedOutput() // its error is the code
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{"waiting for the cluster", "answered within 1s", "start the database with docker compose up"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}

func TestABarThatIsCutShortEndsItsLine(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, terminal: true}
	s.progress("saving", 10).set(5)
	s.end()
	s.end()
	if text := out.String(); !strings.HasSuffix(text, "\n") || strings.Count(text, "\n") != 1 {
		t.Errorf("the terminal holds %q, want one line that ends", text)
	}
}

// TestASignalStopsThePipelineInOrder stops the process in the middle of its work
// and wants rows and positions to agree.
func TestASignalStopsThePipelineInOrder(t *testing.T) {
	t.Parallel()
	d := produced(t)
	c, err := d.startChild(nil, testEvents/2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.kill()
	saving := d.screen.progress("saving", testEvents)
	if err := d.awaitSaved(t.Context(), c, saving, func(positions map[int32]int64) bool { return sum(positions) > 0 }); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if <-c.ended; c.err != nil {
		t.Errorf("after SIGTERM: %v\n%s", c.err, c.log)
	}
	positions, err := d.reader.Positions(t.Context(), d.topic)
	if err != nil {
		t.Fatal(err)
	}
	saved := sum(positions)
	rows := int64(0)
	if err := d.reader.Events(t.Context(), d.topic, func(app.EventRow) { rows++ }); err != nil {
		t.Fatal(err)
	}
	if rows != saved || saved == 0 || saved == testEvents {
		t.Errorf("%d rows, and positions say %d; want equal, more than 0 and less than %d", rows, saved, testEvents)
	}
}

// TestAPipelineThatFailsFailsTheDemo lets the process find a record that is no
// event.
func TestAPipelineThatFailsFailsTheDemo(t *testing.T) {
	t.Parallel()
	d := spoilt(t)
	err := d.finish(t.Context(), d.screen.progress("saving", testEvents))
	if err == nil || !strings.Contains(err.Error(), "decode") {
		t.Errorf("the demo says %v, want the pipeline's own words", err)
	}
}

// TestStoppingAPipelineThatHasFailedTellsItsWords: that its input cannot be closed
// any more is no news.
func TestStoppingAPipelineThatHasFailedTellsItsWords(t *testing.T) {
	t.Parallel()
	d := spoilt(t)
	c, err := d.startChild(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.kill()
	<-c.ended
	if err := c.stop(t.Context()); err == nil || !strings.Contains(err.Error(), "decode") {
		t.Errorf("stopping it says %v, want the pipeline's own words", err)
	}
}

// TestAPipelineThatStopsTooEarlyIsAFault unless we are stopped ourselves, by the
// same Ctrl-C.
func TestAPipelineThatStopsTooEarlyIsAFault(t *testing.T) {
	t.Parallel()
	var d demo
	d.screen = newScreen(io.Discard)
	c := &child{log: &tail{}, told: newTold(nil), ended: make(chan struct{}), cmd: exec.Command(os.Args[0], demoCommand, "-help")}
	if err := c.cmd.Run(); err != nil {
		t.Fatal(err)
	}
	close(c.ended)
	never := func(map[int32]int64) bool { return false }
	err := d.awaitSaved(t.Context(), c, d.screen.progress("saving", 1), never)
	if err == nil || !strings.Contains(err.Error(), "stopped before its work was done") {
		t.Errorf("the demo says %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.awaitSaved(ctx, c, d.screen.progress("saving", 1), never); !errors.Is(err, context.Canceled) {
		t.Errorf("after Ctrl-C the demo says %v", err)
	}
}

func TestWhatThePipelineTellsComesInPieces(t *testing.T) {
	told := newTold(map[int32]int64{0: 5})
	for _, piece := range []string{"1 ", "7\n0 6\n", "", "2 1", "00\n0 6", "0"} {
		if _, err := told.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := told.now(), map[int32]int64{0: 6, 1: 7, 2: 100}; !maps.Equal(got, want) {
		t.Errorf("positions %v, want %v", got, want)
	}
	<-told.moved
	if _, err := told.Write([]byte("\n0 60\n")); err != nil {
		t.Fatal(err)
	}
	<-told.moved
	if _, err := told.Write([]byte("1 7\n")); err != nil || len(told.moved) > 0 {
		t.Errorf("a position that is known: %v, and %d is told", err, len(told.moved))
	}
	if _, err := told.Write([]byte("hello\n")); err == nil || !strings.Contains(err.Error(), "hello") {
		t.Errorf("a line that is no position: %v", err)
	}
}

func TestACrashIsInsideTheLogOfSomePartition(t *testing.T) {
	ends := map[int32]int64{0: 10, 1: 20}
	for _, c := range []struct {
		positions map[int32]int64
		want      []int32
	}{
		{nil, nil},
		{map[int32]int64{0: 10, 1: 20}, nil},
		{map[int32]int64{0: 10, 1: 0}, nil},
		{map[int32]int64{0: 10, 1: 1}, []int32{1}},
		{map[int32]int64{0: 9, 1: 19}, []int32{0, 1}},
	} {
		if got := inside(c.positions, ends); !slices.Equal(got, c.want) {
			t.Errorf("%v of %v: inside of %v, want %v", c.positions, ends, got, c.want)
		}
	}
}

// TestTheTwoProgramsApart starts the streaming program before there is a topic,
// as one does with two terminals, and then the generator.
func TestTheTwoProgramsApart(t *testing.T) {
	t.Parallel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	brokers, sink := broker.ListenAddrs()[0], "sqlite://"+filepath.Join(t.TempDir(), "x.db")
	log := &tail{}
	streaming := exec.Command(os.Args[0], streamingCommand, "-brokers", brokers, "-sink", sink)
	streaming.Stderr = log
	if err := streaming.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = streaming.Process.Kill() }() // unless it has ended
	for !strings.Contains(log.String(), "topic does not exist") && t.Context().Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	if err := generate.Program(t.Context(), []string{"-brokers", brokers, "-count", "500", "-rate", "0"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	db, err := app.ParseDatabase("--sink", sink, time.Minute, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := db.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for {
		positions, err := reader.Positions(t.Context(), app.Topic)
		if err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		if sum(positions) == 500 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := streaming.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := streaming.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, log)
	}
}

// produced returns a demo whose events are in the topic and not yet read.
func produced(t *testing.T) *demo {
	t.Helper()
	d := connected(t)
	if err := d.produce(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// spoilt returns a demo like produced, with a record in front of a partition's
// events that is none.
func spoilt(t *testing.T) *demo {
	t.Helper()
	d := connected(t)
	writeRaw(t, d.brokers, d.topic, "no event")
	if err := d.produce(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func connected(t *testing.T) *demo {
	t.Helper()
	s := settings{events: testEvents, seed: 1, sink: "sqlite://" + filepath.Join(t.TempDir(), "x.db"), topic: app.Topic, wait: time.Minute}
	d, err := newDemo(t.Context(), s, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d
}

func writeRaw(t *testing.T, broker, topic, value string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord(value)).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
