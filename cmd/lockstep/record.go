package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// recordWait is how long a record is waited for that the log should hold.
const recordWait = 10 * time.Second

// errNoRecord: from an offset on the log holds no record that can be read.
var errNoRecord = errors.New("no record")

// next returns the first committed record of a partition at an offset or after it.
func (c *cluster) next(ctx context.Context, tp offsetstore.TopicPartition, from int64, log partitionLog) (*kgo.Record, error) {
	if from >= log.stable {
		return nil, errNoRecord
	}
	client, err := kgo.NewClient(append(c.opts[:len(c.opts):len(c.opts)],
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{tp.Topic: {tp.Partition: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(time.Second),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	fetches := client.PollRecords(ctx, 1)
	if records := fetches.Records(); len(records) > 0 {
		return records[0], nil
	}
	if errors.Is(fetches.Err0(), context.DeadlineExceeded) {
		return nil, errNoRecord // markers of transactions, and what was compacted
	}
	return nil, asking(fmt.Sprintf("for the record at %s@%d", tp, from), fetches.Err())
}

// recordLine is a record in JSON.
type recordLine struct {
	Offset    int64        `json:"offset"`
	Timestamp string       `json:"timestamp"`
	Key       octets       `json:"key"`
	Value     octets       `json:"value"`
	Headers   []headerLine `json:"headers"`
}

type headerLine struct {
	Key   string `json:"key"`
	Value octets `json:"value"`
}

func recordLineOf(r *kgo.Record) *recordLine {
	if r == nil {
		return nil
	}
	l := &recordLine{r.Offset, timeCell(r.Timestamp), r.Key, r.Value, []headerLine{}}
	for _, h := range r.Headers {
		l.Headers = append(l.Headers, headerLine{h.Key, h.Value})
	}
	return l
}

// timeCell is a time as people and programs read it. A producer may send any.
func timeCell(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999Z") }
