package memory

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Keep says what a store keeps of the writes it is given.
type Keep uint8

// What a store can keep.
const (
	// KeepAll keeps every write, in order.
	KeepAll Keep = iota
	// KeepCounts keeps only how many there were and, of [Row] writes, the
	// latest of each row.
	KeepCounts
)

// Store is the database behind the sinks opened on it. All its methods may be
// called at any time, from any goroutine.
type Store[W any] struct {
	keep Keep

	mu     sync.Mutex // guards all below, and everything reachable from it
	lanes  map[laneKey]*lane[W]
	topics map[topicKey]framework.TopicStart
	rows   map[string]map[string]any // table, key
	tokens uint64                    // the last claim token given out
	opened int                       // how many sinks were opened, for their names
}

type topicKey struct{ pipeline, topic string }

type laneKey struct {
	pipeline string
	tp       offsetstore.TopicPartition
}

// lane is all that is stored for one (pipeline, topic, partition).
type lane[W any] struct {
	claim    uint64 // the token of the owner; 0 after a release
	owner    string
	progress framework.Progress
	saves    int
	count    int
	savedAt  time.Time
	writes   []W
	state    map[stateKey][]byte
	dead     []framework.DeadLetter
}

// stateKey is a framework.StateKey that can be compared.
type stateKey struct {
	operator string
	window   int64
	key      string
}

// NewStore returns an empty store that keeps every write.
func NewStore[W any]() *Store[W] { return NewStoreKeeping[W](KeepAll) }

// NewStoreKeeping returns an empty store that keeps what keep says.
func NewStoreKeeping[W any](keep Keep) *Store[W] {
	return &Store[W]{
		keep:   keep,
		lanes:  map[laneKey]*lane[W]{},
		topics: map[topicKey]framework.TopicStart{},
		rows:   map[string]map[string]any{},
	}
}

// Lane is what a store holds for one partition of a pipeline, as of one moment.
// Its slices belong to the caller.
type Lane[W any] struct {
	framework.Progress
	Owner       string // who claimed it last, "" after a release
	Saves       int    // how many saves took effect
	Count       int    // how many writes they held
	SavedAt     time.Time
	Writes      []W // in order; none with KeepCounts
	State       []framework.StateEntry
	DeadLetters []framework.DeadLetter
}

// Lane returns everything stored for tp, and whether it was ever claimed. State
// is ordered by operator, window and key.
func (s *Store[W]) Lane(pipeline string, tp offsetstore.TopicPartition) (Lane[W], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.lanes[laneKey{pipeline, tp}]
	if !ok {
		return Lane[W]{}, false
	}
	return Lane[W]{
		Progress:    cloneProgress(l.progress),
		Owner:       l.owner,
		Saves:       l.saves,
		Count:       l.count,
		SavedAt:     l.savedAt,
		Writes:      slices.Clone(l.writes),
		State:       l.entries(),
		DeadLetters: cloneDeadLetters(l.dead),
	}, true
}

// Position returns where tp continues, and whether anything is stored for it.
func (s *Store[W]) Position(pipeline string, tp offsetstore.TopicPartition) (offsetstore.Position, bool) {
	l, ok := s.Lane(pipeline, tp)
	return l.Position, ok
}

// Writes returns the writes saved for tp, in order.
func (s *Store[W]) Writes(pipeline string, tp offsetstore.TopicPartition) []W {
	l, _ := s.Lane(pipeline, tp)
	return l.Writes
}

// AllWrites returns the writes saved for every partition of pipeline, ordered
// by topic and partition, and within one as they were saved.
func (s *Store[W]) AllWrites(pipeline string) []W {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []W
	for _, k := range s.sortedLanes(pipeline) {
		all = append(all, s.lanes[k].writes...)
	}
	return all
}

// Count returns how many writes were saved for every partition of pipeline.
func (s *Store[W]) Count(pipeline string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for k, l := range s.lanes {
		if k.pipeline == pipeline {
			n += l.count
		}
	}
	return n
}

// State returns the reduction state of tp, ordered by operator, window and key.
func (s *Store[W]) State(pipeline string, tp offsetstore.TopicPartition) []framework.StateEntry {
	l, _ := s.Lane(pipeline, tp)
	return l.State
}

// DeadLetters returns the dead letters of tp in offset order, the latest of each
// offset.
func (s *Store[W]) DeadLetters(pipeline string, tp offsetstore.TopicPartition) []framework.DeadLetter {
	l, _ := s.Lane(pipeline, tp)
	return l.DeadLetters
}

// sortedLanes returns the lanes of pipeline, or all when it is "", in order.
func (s *Store[W]) sortedLanes(pipeline string) []laneKey {
	keys := slices.Collect(maps.Keys(s.lanes))
	keys = slices.DeleteFunc(keys, func(k laneKey) bool { return pipeline != "" && k.pipeline != pipeline })
	slices.SortFunc(keys, func(a, b laneKey) int {
		return cmp.Or(
			cmp.Compare(a.pipeline, b.pipeline),
			cmp.Compare(a.tp.Topic, b.tp.Topic),
			cmp.Compare(a.tp.Partition, b.tp.Partition),
		)
	})
	return keys
}

func (l *lane[W]) entries() []framework.StateEntry {
	entries := make([]framework.StateEntry, 0, len(l.state))
	for k, v := range l.state {
		entries = append(entries, framework.StateEntry{
			StateKey: framework.StateKey{Operator: k.operator, Window: k.window, Key: []byte(k.key)},
			Value:    bytes.Clone(v),
		})
	}
	slices.SortFunc(entries, func(a, b framework.StateEntry) int {
		return cmp.Or(
			cmp.Compare(a.Operator, b.Operator),
			cmp.Compare(a.Window, b.Window),
			bytes.Compare(a.Key, b.Key),
		)
	})
	return entries
}
