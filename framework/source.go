package framework

import (
	"context"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Source delivers the records of partitions and says which of them are ours.
//
// # The treaty
//
// Run joins whatever assigns partitions, reports to lanes until ctx is
// cancelled, and then leaves. It returns nil after a cancel (not ctx's error), else the error
// that made it impossible to go on. While the servers are not up yet it waits,
// within a limit of its own. When it returns, none of its goroutines runs and it
// makes no call to lanes any more. A source runs once.
//
// Who retries: the source retries its own reads for ever, with back-off, except
// for conditions that waiting cannot mend (refused login, missing topic).
//
// Positions: a source never decides where to read. It moves no position by
// itself, in no case, not even when its client offers to "reset" one.
type Source interface {
	Run(ctx context.Context, lanes Lanes) error
}

// Lanes is what a source reports to; the runner implements it. No method keeps
// the source waiting except Revoked. For one partition the calls never overlap;
// for different ones they may.
type Lanes interface {
	// Assigned says that these partitions are ours now. Each is a fresh
	// Partition, even if the same one was ours before, and delivers nothing
	// until it was started and resumed. An empty call says that there are none for
	// us now, which a process that waits to take over counts as ready by.
	Assigned([]Partition)

	// Records hands over records of p in offset order. The runner owns the
	// slice from then on. There is no limit to how often it is called, but
	// after [Partition.Pause] calls should cease soon: what is in flight is
	// accepted, and memory is bounded by pausing only.
	//
	// logEnd is the next offset of the log as the source knew it then, or -1. It
	// is a hint that more is on its way, which lets batches grow while there is a
	// backlog; nothing else depends on it.
	Records(p Partition, records []Record, logEnd int64)

	// Revoked says that these partitions are about to go to another owner. It
	// returns when their lanes have finished what was in flight and released
	// their claims, or when ctx ends, whichever is first. From its return on
	// the partitions are dead.
	Revoked(ctx context.Context, ps []Partition)

	// Lost says that these partitions are not ours any more, without notice.
	// They are dead at once.
	Lost([]Partition)

	// Failed says that p, as it was last started, cannot be read any more, for a
	// reason that concerns it alone, such as a *PositionError that arose while
	// reading. The lane saves what it has and stops with that error, or starts p
	// anew where a policy says so.
	Failed(p Partition, err error)
}

// Partition is one assignment of one partition, a value of its own that can be
// compared (a pointer). Its methods may be called from any goroutine, Pause,
// Resume and Mirror also from within a call to [Lanes]. On a dead Partition (revoked, lost, source ended) Start,
// Resolve and Confirm return [ErrNotOwner], and the others do nothing.
type Partition interface {
	TopicPartition() offsetstore.TopicPartition

	// Resolve applies rules to every partition that the topic has now, and
	// returns where each would begin, with the topic's and cluster's identity.
	// Servers that are not ready are retried until ctx ends.
	Resolve(ctx context.Context, rules offsetstore.StartRules) (TopicStart, error)

	// Start makes from the next position to read. It first checks from against
	// the log itself: a *PositionError says that from lies before the log's
	// start, beyond its end, or belongs to a topic that was made again or a log
	// that was truncated.
	//
	// After Start has returned nil, no record read before it is delivered any
	// more, and the partition is paused until Resume. It may be called again,
	// after a claim was spent; the partition must be paused first.
	Start(ctx context.Context, from offsetstore.Position) error

	// Pause and Resume stop and continue the delivery of records. They return
	// at once; repeating one does nothing.
	Pause()
	Resume()

	// Confirm returns nil if, at a moment after the call began, the group
	// counted us as the owner of the partition, and [ErrNotOwner] if it did not:
	// then the partition is being revoked or lost, and Lanes is told. While that
	// is not decided yet it waits. Any other error says that it could not be asked.
	Confirm(ctx context.Context) error

	// Mirror publishes a saved position where the source's ordinary tools look
	// for it (the group's offsets in Kafka). It is best effort, rate limited by
	// the source, returns at once, and never decides where to start. The last
	// position given is published before the partition is given up in order.
	Mirror(offsetstore.Position)
}
