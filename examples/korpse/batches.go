package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/offsetstore/kafkastore"
)

// offsets are the next to read, by partition.
type offsets map[offsetstore.TopicPartition]int64

// job prints counts batch after batch.
type job struct {
	settings
	out    io.Writer
	store  offsetstore.Store
	client *kgo.Client
	next   offsets
	ends   offsets // nil: there is no end

	results int // batches that came to something
}

// printBatches is the job as a program that keeps its progress apart from its
// output.
func printBatches(ctx context.Context, s settings, out io.Writer) error {
	store, err := kafkastore.New(kafkastore.Config{
		Brokers: s.brokers, Topics: s.topics, Group: s.group, ClientID: s.client, Defaults: s.defaults,
	})
	if err != nil {
		return err
	}
	defer store.Close()
	starts, err := store.Starts(ctx)
	if err != nil {
		return err
	}
	j := &job{settings: s, out: out, store: store, next: offsets{}}
	for tp, start := range starts {
		j.next[tp] = start.Offset
	}
	for _, tp := range j.next.sorted() {
		fmt.Fprintf(out, "%s starts at %s\n", tp, starts[tp])
	}
	if j.client, err = kgo.NewClient(
		kgo.SeedBrokers(s.brokers...),
		kgo.ClientID(s.client),
		kgo.ConsumePartitions(j.next.places()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // an offset that the log has lost is an error, not a jump
		kgo.KeepControlRecords(),                    // they take up offsets
	); err != nil {
		return err
	}
	defer j.client.Close()
	if s.untilEnd {
		if j.ends, err = ends(ctx, j.client, s.topics); err != nil {
			return err
		}
	}
	return j.run(ctx)
}

// run ends with ctx, or at the ends.
func (j *job) run(ctx context.Context) error {
	for n := 1; ctx.Err() == nil && !j.atEnd(); n++ {
		if err := j.step(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// step does one batch. One that ctx cuts short is neither printed nor stored.
func (j *job) step(ctx context.Context, n int) error {
	before := maps.Clone(j.next)
	counts, err := j.batch(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	show(j.out, fmt.Sprintf("batch %d", n), counts)
	if len(counts) > 0 {
		j.results++
	}
	if j.crash > 0 && j.results == j.crash {
		return die()
	}
	// A stop that comes now need not have the batch printed again.
	return j.store.Save(context.WithoutCancel(ctx), j.next.since(before)...)
}

// batch reads what comes within a batch's time, and reduces it.
func (j *job) batch(ctx context.Context) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, j.every)
	defer cancel()
	counts := map[string]int64{}
	for left := j.records; ctx.Err() == nil && !j.atEnd() && (left > 0 || j.records == 0); {
		fetches := j.client.PollRecords(ctx, left)
		if err := problem(fetches); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) { j.take(r, counts) })
		left -= fetches.NumRecords()
	}
	return counts, nil
}

// take adds a record to the counts.
func (j *job) take(r *kgo.Record, counts map[string]int64) {
	j.next[offsetstore.TopicPartition{Topic: r.Topic, Partition: r.Partition}] = r.Offset + 1
	if line := string(r.Value); !r.Attrs.IsControl() && failed(line) {
		c := byPath(line)
		counts[c.Key] = add(counts[c.Key], c.Value)
	}
}

// problem returns what is wrong, other than that the time is up.
func problem(fetches kgo.Fetches) error {
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			return fmt.Errorf("reading %s/%d: %w", e.Topic, e.Partition, e.Err)
		}
	}
	return nil
}

func (j *job) atEnd() bool { return j.ends != nil && j.next.reached(j.ends) }

// reached reports whether every partition is at its end.
func (o offsets) reached(ends offsets) bool {
	for tp, end := range ends {
		if o[tp] < end {
			return false
		}
	}
	return true
}

func (o offsets) sorted() []offsetstore.TopicPartition {
	return slices.SortedFunc(maps.Keys(o), func(a, b offsetstore.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// since returns the ranges between two states of progress.
func (o offsets) since(before offsets) (ranges []offsetstore.PartitionRange) {
	at := time.Now().UTC().Format(time.RFC3339)
	for tp, next := range o {
		if next > before[tp] {
			ranges = append(ranges, offsetstore.PartitionRange{TopicPartition: tp, Range: offsetstore.Range{From: before[tp], To: next}, Metadata: at})
		}
	}
	return ranges
}

// places is what the client is told.
func (o offsets) places() map[string]map[int32]kgo.Offset {
	places := map[string]map[int32]kgo.Offset{}
	for tp, next := range o {
		if places[tp.Topic] == nil {
			places[tp.Topic] = map[int32]kgo.Offset{}
		}
		places[tp.Topic][tp.Partition] = kgo.NewOffset().At(next)
	}
	return places
}

// ends returns where the logs end now.
func ends(ctx context.Context, client *kgo.Client, topics []string) (offsets, error) {
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topics...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, err
	}
	o := offsets{}
	listed.Each(func(l kadm.ListedOffset) {
		o[offsetstore.TopicPartition{Topic: l.Topic, Partition: l.Partition}] = l.Offset
	})
	return o, nil
}

// die ends this process at once, as SIGKILL does.
func die() error {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		return err
	}
	select {} // it takes the system a moment
}
