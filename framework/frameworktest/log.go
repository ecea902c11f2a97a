package frameworktest

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Log holds topics in memory. It may be used by several sources and goroutines
// at once.
type Log struct {
	mu      sync.Mutex
	topics  map[string]*topic
	changed chan struct{} // closed and replaced when anything changes
}

type topic struct {
	id         offsetstore.TopicID
	partitions map[int32]*partitionLog
}

type partitionLog struct {
	records []framework.Record
	start   int64
	end     int64 // the next offset
}

// NewLog returns a log without topics.
func NewLog() *Log {
	return &Log{topics: map[string]*topic{}, changed: make(chan struct{})}
}

// Produce appends a record for each value, at the next offsets, and creates
// topic and partition if need be.
func (l *Log) Produce(topic string, partition int32, values ...string) {
	for _, v := range values {
		l.Append(topic, partition, framework.Record{Offset: -1, Timestamp: time.Now(), Value: []byte(v)})
	}
}

// Append appends a record as it is. Offset -1 stands for the next offset; a
// larger one than that makes a gap.
func (l *Log) Append(topic string, partition int32, r framework.Record) {
	l.update(func() {
		p := l.partition(topic, partition)
		if r.Offset < 0 {
			r.Offset = p.end
		}
		p.records = append(p.records, r)
		p.end = r.Offset + 1
	})
}

// Create makes a topic with partitions 0 to n-1, or adds those that it lacks.
func (l *Log) Create(topic string, n int32) {
	l.update(func() {
		for i := range n {
			l.partition(topic, i)
		}
	})
}

// Identify gives a topic the identity id instead of a random one, and creates the
// topic if need be. A log that another process makes is the same log to a pipeline
// only if its topics have the same identities.
func (l *Log) Identify(topic string, id offsetstore.TopicID) {
	l.update(func() {
		l.partition(topic, 0)
		l.topics[topic].id = id
	})
}

// Recreate replaces a topic by an empty one of the same name.
func (l *Log) Recreate(topic string, n int32) {
	l.update(func() { delete(l.topics, topic) })
	l.Create(topic, n)
}

// Retain removes the records below start, as retention does.
func (l *Log) Retain(topic string, partition int32, start int64) {
	l.update(func() {
		p := l.partition(topic, partition)
		p.start = max(p.start, start)
		p.end = max(p.end, start)
		p.records = slices.DeleteFunc(p.records, func(r framework.Record) bool { return r.Offset < start })
	})
}

// Truncate removes the records from end on, as an unclean leader election does.
func (l *Log) Truncate(topic string, partition int32, end int64) {
	l.update(func() {
		p := l.partition(topic, partition)
		p.end = min(p.end, end)
		p.records = slices.DeleteFunc(p.records, func(r framework.Record) bool { return r.Offset >= end })
	})
}

// Partitions returns all partitions, ordered by topic and partition.
func (l *Log) Partitions() []offsetstore.TopicPartition {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []offsetstore.TopicPartition
	for name, t := range l.topics {
		for i := range t.partitions {
			all = append(all, offsetstore.TopicPartition{Topic: name, Partition: i})
		}
	}
	slices.SortFunc(all, compare)
	return all
}

// End returns the next offset of a partition.
func (l *Log) End(tp offsetstore.TopicPartition) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.partition(tp.Topic, tp.Partition).end
}

func (l *Log) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// partition returns a partition, made if need be. The caller holds the lock.
func (l *Log) partition(name string, i int32) *partitionLog {
	t := l.topics[name]
	if t == nil {
		t = &topic{partitions: map[int32]*partitionLog{}}
		_, _ = rand.Read(t.id[:]) // never fails
		l.topics[name] = t
	}
	if t.partitions[i] == nil {
		t.partitions[i] = &partitionLog{}
	}
	return t.partitions[i]
}

// from returns up to limit records at or after offset.
func (l *Log) from(tp offsetstore.TopicPartition, offset int64, limit int) []framework.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.partition(tp.Topic, tp.Partition)
	i, _ := slices.BinarySearchFunc(p.records, offset, func(r framework.Record, o int64) int { return int(r.Offset - o) })
	return slices.Clone(p.records[i:min(len(p.records), i+limit)])
}

// watch returns a channel that is closed at the next change.
func (l *Log) watch() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}
