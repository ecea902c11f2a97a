package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// transcriptFile is what the README shows of the command, word for word; a test of
// package integration compares the two.
const transcriptFile = "testdata/operate.txt"

var update = flag.Bool("update", false, "write the transcript anew, instead of comparing it")

// TestTranscript runs the commands of the transcript against examples/minimal, and
// compares what they say. What stands in comments is done in between.
func TestTranscript(t *testing.T) {
	shown, err := os.ReadFile(transcriptFile)
	if err != nil {
		t.Fatal(err)
	}
	golden, err := filepath.Abs(transcriptFile)
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	var played strings.Builder
	for line := range strings.Lines(string(shown)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "# "):
			s.paragraph(&played, line, s.act(line))
		case strings.HasPrefix(line, "$ "):
			s.paragraph(&played, line, s.command(strings.Fields(line)[1:]))
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(played.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if played.String() != string(shown) {
		t.Errorf("the transcript is not what is said any more; with -update it is written anew, and goes into the README:\n%s", played.String())
	}
}

// stage is where the transcript is played: a Kafka, a directory for the database,
// and the program.
type stage struct {
	t       *testing.T
	cluster *kfake.Cluster
	program string // the file
	running *exec.Cmd
	output  bytes.Buffer
	after   bool // something was written that the next command stands apart from
}

func newStage(t *testing.T) *stage {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "minimal")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/minimal").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	t.Chdir(dir)
	s := &stage{t: t, cluster: cluster, program: program}
	t.Cleanup(s.kill)
	return s
}

// paragraph writes a line and what came of it, apart from what stands before.
func (s *stage) paragraph(to *strings.Builder, line, output string) {
	if s.after {
		fmt.Fprintln(to)
	}
	fmt.Fprintf(to, "%s\n%s", line, output)
	s.after = output != "" || strings.Contains(line, "export")
}

// command runs a line of the transcript.
func (s *stage) command(words []string) string {
	s.t.Helper()
	switch words[0] {
	case "export":
		for _, w := range words[1:] {
			name, value, _ := strings.Cut(w, "=")
			s.t.Setenv(name, strings.ReplaceAll(value, "127.0.0.1:9092", s.cluster.ListenAddrs()[0]))
		}
		return ""
	case "lockstep":
		var out bytes.Buffer
		// Ages are those of a save that is just made.
		p := &program{slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return time.Unix(0, 0) }}
		p.run(s.t.Context(), words[1:], &out, &out)
		return s.anonymous(out.String())
	default:
		s.t.Fatalf("%q is no command that the transcript knows", words)
		return ""
	}
}

// anonymous takes out of an output what is different each time.
func (s *stage) anonymous(text string) string {
	if s.running == nil {
		return text
	}
	host, err := os.Hostname()
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.ReplaceAll(text, fmt.Sprintf("%s/%d", host, s.running.Process.Pid), "app-1/4711")
}

// act does what a comment says, and returns what the program says then.
func (s *stage) act(comment string) string {
	s.t.Helper()
	switch comment {
	case "# The program runs.":
		s.produce(0, `{"customer": "ann", "cents": 120}`, `{"customer": "bob", "cents": 50}`)
		s.produce(1, `{"customer": "bob", "cents": 80}`)
		s.produce(2, `{"customer": "ann", "cents": 30}`)
		s.start()
		s.await(2, 1, 1)
	case "# A message arrives that is no order. The program stops:":
		s.produce(1, `{"customer": "bob", "cents": "many"}`, `{"customer": "bob", "cents": 20}`)
		return s.failure()
	case "# The program is started again, and reads on behind it.":
		s.start()
		s.await(2, 3, 1)
	case "# The program is stopped.":
		s.stop()
	default:
		s.t.Fatalf("nobody knows what to do for %q", comment)
	}
	return ""
}

func (s *stage) produce(partition int32, values ...string) {
	s.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	for i, v := range values {
		r := &kgo.Record{Topic: "orders", Partition: partition, Value: []byte(v), Timestamp: second.Add(time.Duration(i) * time.Second)}
		if err := cl.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stage) start() {
	s.t.Helper()
	s.output.Reset()
	s.running = exec.Command(s.program, "--brokers", s.cluster.ListenAddrs()[0])
	s.running.Stderr = &s.output
	if err := s.running.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) kill() {
	if s.running != nil && s.running.ProcessState == nil {
		_ = s.running.Process.Kill()
		_ = s.running.Wait()
	}
}

func (s *stage) stop() {
	s.t.Helper()
	if err := s.running.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	if err := s.running.Wait(); err != nil {
		s.t.Fatalf("%v\n%s", err, s.output.String())
	}
}

// dated is how package log begins a line.
var dated = regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `)

// failure waits for the program's end, and returns the last line that it has written.
func (s *stage) failure() string {
	s.t.Helper()
	if err := s.running.Wait(); err == nil {
		s.t.Fatal("the program has not failed")
	}
	lines := strings.Split(strings.TrimSpace(s.output.String()), "\n")
	return dated.ReplaceAllString(lines[len(lines)-1], "") + "\n"
}

// await asks the command itself, until every partition is where it should be.
func (s *stage) await(want ...int64) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if fmt.Sprint(s.committed()) == fmt.Sprint(want) {
			return
		}
	}
	s.t.Fatalf("the partitions are at %v, not at %v\n%s", s.committed(), want, s.output.String())
}

// committed returns the positions that the group has, too.
func (s *stage) committed() []int64 {
	var out bytes.Buffer
	if run(context.Background(), []string{"lag", "--output", "json"}, &out, &bytes.Buffer{}) != exitOK {
		return nil // not yet
	}
	var offsets []int64
	for d := json.NewDecoder(&out); d.More(); {
		l := line{logLine: &logLine{}}
		if err := d.Decode(&l); err != nil {
			s.t.Fatal(err)
		}
		if l.GroupOffset != nil && *l.GroupOffset == l.NextOffset && l.SavedAt != nil {
			offsets = append(offsets, l.NextOffset)
		}
	}
	return offsets
}
