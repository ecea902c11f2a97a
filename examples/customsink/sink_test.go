package customsink_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/examples/customsink"
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/framework/frameworktest"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

var tp = offsetstore.TopicPartition{Topic: "in", Partition: 3}

func open(t *testing.T, root string) *customsink.Sink {
	t.Helper()
	s, err := customsink.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func claim(t *testing.T, s *customsink.Sink) framework.Claim[customsink.Write] {
	t.Helper()
	c, err := s.Claim(t.Context(), "p", tp, offsetstore.At(0))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func batch(from int64, writes ...customsink.Write) *framework.Batch[customsink.Write] {
	return &framework.Batch[customsink.Write]{
		From:   framework.Progress{Position: offsetstore.At(from)},
		To:     framework.Progress{Position: offsetstore.At(from + 1)},
		Writes: writes,
	}
}

func TestOpenNamesADirectoryThatIsMissing(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := customsink.Open(missing); !errors.Is(err, framework.ErrConfig) {
		t.Errorf("Open returned %v, want ErrConfig", err)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the directory was made")
	}
}

func TestADamagedLogIsNeverContinued(t *testing.T) {
	for damage, do := range map[string]func(file string) error{
		"removed": os.Remove,
		"cut":     func(file string) error { return os.Truncate(file, 10) },
		"empty":   func(file string) error { return os.Truncate(file, 0) },
		"renamed": func(file string) error { return os.Rename(file, file+".bak") },
	} {
		root := t.TempDir()
		s := open(t, root)
		c := claim(t, s)
		for n := range int64(3) {
			if err := c.Save(t.Context(), batch(n)); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(root, "p-p", "t-in", "3", "000000000002")
		if err := do(file); err != nil {
			t.Fatal(err)
		}
		_, err := s.Claim(t.Context(), "p", tp, offsetstore.At(0))
		if !errors.Is(err, framework.ErrCorrupt) {
			t.Errorf("%s: Claim returned %v, want ErrCorrupt", damage, err)
		}
	}
}

func TestADamagedTopicIsNotTakenForANewOne(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	propose := func() error {
		_, err := s.Topic(t.Context(), "p", tp.Topic, framework.TopicStart{ClusterID: "c"})
		return err
	}
	if err := propose(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(root, "p-p", "t-in", "topic"), 0); err != nil {
		t.Fatal(err)
	}
	if err := propose(); !errors.Is(err, framework.ErrCorrupt) {
		t.Errorf("Topic returned %v, want ErrCorrupt", err)
	}
}

// What a killed process leaves half written has no number, so it means nothing.
func TestALeftOverFileMeansNothing(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	if err := claim(t, s).Save(t.Context(), batch(0)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "p-p", "t-in", "3", ".new-123"), []byte(`{"To":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if at := claim(t, s).Progress().Position.Offset; at != 1 {
		t.Errorf("the position is %d, want 1", at)
	}
}

// A failure before the link leaves the claim good; here the directory cannot be
// written to for a while.
func TestASaveThatCouldNotBeginIsNotSaved(t *testing.T) {
	root := t.TempDir()
	c := claim(t, open(t, root))
	dir := filepath.Join(root, "p-p", "t-in", "3")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	err := c.Save(t.Context(), batch(0))
	var se *framework.SaveError
	if !errors.As(err, &se) || se.Outcome != framework.NotSaved || se.ClaimSpent {
		t.Errorf("Save returned %v, want not saved, with the claim good", err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(t.Context(), batch(0)); err != nil {
		t.Errorf("with the directory back Save returned %v", err)
	}
}

func TestTimesBeyondJSONAreKept(t *testing.T) {
	s := open(t, t.TempDir())
	far := time.UnixMilli(1 << 60)
	b := batch(0)
	b.DeadLetters = []framework.DeadLetter{{Timestamp: far}}
	if err := claim(t, s).Save(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	got, err := s.DeadLetters(t.Context(), "p", tp)
	if err != nil || len(got) != 1 || !got[0].Timestamp.Equal(far) || !got[0].FailedAt.Equal(time.Time{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A pipeline counts words into files.
func Example() {
	root, err := os.MkdirTemp("", "customsink")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	sink, err := customsink.Open(root)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sink.Close(context.Background())

	type count = framework.Keyed[string, int64]
	words := framework.Map(framework.From(codec.String()), func(w string) count { return count{Key: w, Value: 1} })
	counts := framework.ReduceByKey("words", words, func(a, b int64) int64 { return a + b })
	rows := framework.MapErr(counts, func(c framework.Context, n count) (customsink.Write, error) {
		return customsink.Write{Key: fmt.Sprintf("%s in partition %d", n.Key, c.Partition()), Value: fmt.Sprint(n.Value)}, nil
	})
	pipeline, err := framework.NewPipeline("words", rows)
	if err != nil {
		fmt.Println(err)
		return
	}
	log := frameworktest.NewLog()
	log.Produce("text", 0, "to", "be", "or", "not", "to", "be")
	runner, err := framework.NewRunner(pipeline, frameworktest.NewSource(log), sink, framework.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := frameworktest.RunUntilSaved(context.Background(), runner, log); err != nil {
		fmt.Println(err)
		return
	}
	table := customsink.NewTable(root)
	fmt.Println(table.Refresh(), table.Rows)
	// Output:
	// <nil> map[be in partition 0:2 not in partition 0:1 or in partition 0:1 to in partition 0:2]
}
