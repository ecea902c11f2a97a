package framework

import (
	"cmp"
	"slices"
	"sync"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Phase is what a lane is doing.
type Phase uint8

// The phases.
const (
	PhaseClaiming   Phase = iota // not reading yet
	PhaseRunning                 // reading and saving
	PhaseRecovering              // an error is being waited out
	PhaseEnded                   // given up in order
	PhaseFailed                  // ended by Err
)

// String returns the phase in a word.
func (p Phase) String() string {
	return [...]string{"claiming", "running", "recovering", "ended", "failed"}[p]
}

// LaneStatus is the state of one partition in this process.
type LaneStatus struct {
	TopicPartition offsetstore.TopicPartition
	Phase          Phase
	Position       offsetstore.Position // saved last; zero before the first claim
	Counters       Counters             // as saved
	Err            error                // while recovering or failed: why
}

// statusCell is a LaneStatus that a lane writes and others read.
type statusCell struct {
	mu sync.Mutex
	s  LaneStatus
}

func (c *statusCell) get() LaneStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s
}

func (c *statusCell) set(change func(*LaneStatus)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.s)
}

func (c *statusCell) phase(p Phase, err error) {
	c.set(func(s *LaneStatus) { s.Phase, s.Err = p, err })
}

func byPartition(a, b LaneStatus) int {
	return cmp.Or(cmp.Compare(a.TopicPartition.Topic, b.TopicPartition.Topic),
		cmp.Compare(a.TopicPartition.Partition, b.TopicPartition.Partition))
}

func sortLanes(s []LaneStatus) []LaneStatus {
	slices.SortFunc(s, byPartition)
	return s
}
