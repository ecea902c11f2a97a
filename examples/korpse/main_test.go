package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

// TestMain makes the test program do as the real one does when the demo starts itself
// again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--brokers" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// produced is what the demo produces.
var produced = map[string]int64{"/cart": 67, "/pay": 66, "/search": 67}

// sumOf adds up the results in a piece of the output.
func sumOf(t *testing.T, text string) map[string]int64 {
	t.Helper()
	sums := map[string]int64{}
	for _, m := range result.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sums[m[1]] += n
	}
	return sums
}

// A process that dies between print and store has its last batch printed again; one
// that saves both as one does not.
func TestTheDemoCountsTwiceWithoutASinkAndOnceWithOne(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), nil, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	printing, saving, _ := strings.Cut(out.String(), "\nsave counts")
	before, after, killed := strings.Cut(printing, "killed, and started again:")
	if !killed {
		t.Fatalf("no process was killed:\n%s", &out)
	}
	batches := regexp.MustCompile(`(?m)^batch (\d+) `).FindAllStringSubmatch(before, -1)
	last := batches[len(batches)-1][0]
	twice := sumOf(t, before[strings.Index(before, last):])
	want := maps.Clone(produced)
	var extra int64
	for path, n := range twice {
		want[path] += n
		extra += n
	}
	if got := sumOf(t, before+after); extra == 0 || !maps.Equal(got, want) {
		t.Errorf("printed in all: %v, want what was produced and the last batch before the kill again, %v", got, want)
	}
	if got := sumOf(t, saving); !maps.Equal(got, produced) {
		t.Errorf("saved: %v, want %v", got, produced)
	}
	for _, line := range []string{
		fmt.Sprintf("at least once: 200 requests failed, %d were printed, %d of them twice\n", 200+extra, extra),
		"exactly once: 200 requests failed, 200 are saved\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, &out)
		}
	}
}

// bed is a Kafka with two topics of two partitions and what the demo produces in one.
type bed struct {
	t       *testing.T
	cluster *kfake.Cluster
	client  *kgo.Client
	args    []string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "requests", "idle"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := produce(t.Context(), c.ListenAddrs(), "requests"); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &bed{t, c, client, []string{"--brokers", strings.Join(c.ListenAddrs(), ","), "--topics", "requests, idle", "--group", "nightly", "--until-end"}}
}

func (b *bed) run(args ...string) (printed string) {
	b.t.Helper()
	var out bytes.Buffer
	if err := run(b.t.Context(), append(b.args, args...), &out); err != nil {
		b.t.Fatalf("%v\n%s", err, &out)
	}
	return out.String()
}

// committed returns the group's offsets as topic/partition@offset, in order.
func (b *bed) committed() string {
	b.t.Helper()
	found, err := kadm.NewClient(b.client).FetchOffsets(b.t.Context(), "nightly")
	if err != nil && len(found) > 0 {
		b.t.Fatal(err)
	}
	var texts []string
	for _, o := range found.Offsets().Sorted() {
		texts = append(texts, fmt.Sprintf("%s/%d@%d", o.Topic, o.Partition, o.At))
	}
	return strings.Join(texts, " ")
}

// Runs that end in order print each record once, and go on where the last one ended.
func TestInOrderAllIsPrintedOnce(t *testing.T) {
	b := newBed(t)
	first := b.run("--default-offset", "-2", "--batch-records", "300")
	if got := sumOf(t, first); !maps.Equal(got, produced) {
		t.Errorf("printed %v, want %v", got, produced)
	}
	if got, want := b.committed(), "requests/0@500 requests/1@500"; got != want {
		t.Errorf("stored %q, want %q", got, want)
	}
	second := b.run("--default-offset", "-2")
	if got := sumOf(t, second); len(got) != 0 || !strings.Contains(second, "requests/1 starts at 500 (saved)") {
		t.Errorf("again: printed %v, want to go on behind it:\n%s", got, second)
	}
	if _, err := produce(t.Context(), b.cluster.ListenAddrs(), "requests"); err != nil {
		t.Fatal(err)
	}
	if got := sumOf(t, b.run()); !maps.Equal(got, produced) {
		t.Errorf("printed %v, want what is new, %v", got, produced)
	}
}

func TestDefaultsOfPartitionOverTopicOverAll(t *testing.T) {
	out := newBed(t).run("--default-offset", "earliest, requests=-1, requests/1=offset:400")
	for _, want := range []string{"idle/0 starts at 0 (earliest)", "requests/0 starts at 500 (latest)", "requests/1 starts at 400 (offset 400)"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestDefaultsHoldWithASink(t *testing.T) {
	out := newBed(t).run("--default-offset", "latest, requests/1=offset:470", "--db", filepath.Join(t.TempDir(), "counts.db"))
	if got := sum(sumOf(t, out)); got != 6 { // every fifth of the last 30 of a partition
		t.Errorf("saved %d, want 6:\n%s", got, out)
	}
}

func TestSavedTotalsGoOn(t *testing.T) {
	b := newBed(t)
	b.args = append(b.args, "--default-offset", "earliest", "--db", filepath.Join(t.TempDir(), "counts of a day?.db"))
	for round := range int64(2) {
		want := map[string]int64{}
		for path, n := range produced {
			want[path] = n * (round + 1)
		}
		if got := sumOf(t, b.run()); !maps.Equal(got, want) {
			t.Errorf("round %d: saved %v, want %v", round, got, want)
		}
		if _, err := produce(t.Context(), b.cluster.ListenAddrs(), "requests"); err != nil {
			t.Fatal(err)
		}
	}
}

// A batch that a signal cuts short is neither printed nor stored.
func TestAStopStoresNothingThatIsNotPrinted(t *testing.T) {
	b := newBed(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	fetched := 0
	b.cluster.ControlKey(kmsg.Fetch.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if fetched++; fetched == 3 {
			stop()
		}
		return nil, nil, false
	})
	var out bytes.Buffer
	args := append(b.args[:len(b.args)-1], "--default-offset", "earliest", "--batch-seconds", "3600")
	if err := run(ctx, args, &out); err != nil {
		t.Fatal(err)
	}
	if got := sumOf(t, out.String()); len(got) != 0 || b.committed() != "" {
		t.Errorf("printed %v and stored %q", got, b.committed())
	}
}

// Nothing listens there: whoever connected would say so.
func TestWrongSettingsAreRefusedByName(t *testing.T) {
	for args, says := range map[string]string{
		"--brokers h1":                        `--brokers "h1"`,
		"--brokers ,":                         `no brokers`,
		"--brokers h1:1;h2:1":                 `commas`,
		"--topics in/2":                       `--topics "in/2"`,
		"--topics ,":                          `no topics`,
		"--batch-seconds 0":                   "--batch-seconds 0",
		"--batch-seconds x":                   "batch-seconds",
		"--batch-records -1":                  "--batch-records -1",
		"--crash -1":                          "--crash -1",
		"--group=":                            "--group is empty",
		"--client-id=":                        "--client-id is empty",
		"--default-offset smallest":           `--default-offset "smallest"`,
		"--default-offset -3":                 "before 1970",
		"--default-offset requests=offset:-1": "0 or more",
		"now":                                 `"now"`,
	} {
		var out bytes.Buffer
		if err := run(t.Context(), strings.Fields(args), &out); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", args, err, says)
		}
	}
}
