package kafka

import (
	"errors"
	"log/slog"

	"github.com/lockstep-stream/lockstep/framework"
)

// The report of a start: one line a partition that says what the sink holds, what
// the log holds, what the group has committed, and what follows from it.

// compareStart looks at a start once both its position and the group's offset are
// known: it is logged, and a group that holds something else is set right. Without
// records there would be no save to do that, and a partition that is done would look
// as if it were not. The caller holds mu.
func (p *partition) compareStart() {
	if !p.announce || p.inGroup == unknownOffset {
		return
	}
	p.announce = false
	p.logStart()
	if p.inGroup != p.from && !p.mirrored {
		p.unsent = true
		p.run.mirrorSoon()
	}
}

// logStart writes where the partition was started. The caller holds mu.
func (p *partition) logStart() {
	msg := "starting at the sink's position"
	if p.inGroup != p.from && p.inGroup != noOffset {
		msg += "; the group's committed offset differs and is not used"
	}
	next := "reads on"
	if p.from >= p.log.end {
		next = "waits at the end of the log for new records"
	}
	p.report(p.from, p.log.start, p.log.end, p.log.id.String()).Info(msg, "next", next)
}

// reportRefusal writes that the partition cannot be started where the sink says.
func (p *partition) reportRefusal(err error) {
	var pe *framework.PositionError
	if !errors.As(err, &pe) {
		return // the lane says so
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report(pe.Position.Offset, pe.LogStart, pe.LogEnd, pe.TopicID.String()).Warn("cannot start at the sink's position",
		"reason", pe.Err, "saved_topic_id", pe.Position.TopicID.String(), "next", "stops, unless the pipeline has a policy for it")
}

// report returns a logger that tells the facts of a start. The caller holds mu.
func (p *partition) report(position, logStart, logEnd int64, topicID string) *slog.Logger {
	return p.run.log.With("topic", p.tp.Topic, "partition", p.tp.Partition, "position", position,
		"log_start", logStart, "log_end", logEnd, "group_offset", groupOffset(p.inGroup), "topic_id", topicID)
}

// groupOffset is the group's committed offset in words where it is no offset.
func groupOffset(offset int64) any {
	switch offset {
	case noOffset:
		return "none"
	case unknownOffset:
		return "unknown"
	}
	return offset
}
