package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// consequences says what moves mean for records, rows and totals.
func (r *reset) consequences(moves []move) []string {
	var back, forth int64
	other, past, later := false, false, false
	for _, m := range moves {
		later = later || m.to.Offset > 0
		switch by := m.to.Offset - m.stored.Position.Offset; {
		case m.otherTopic():
			other = true
		case by < 0:
			back -= by
		default:
			forth += by
		}
		past = past || m.past
	}
	var texts []string
	say := func(when bool, text string) {
		if when {
			texts = append(texts, text)
		}
	}
	say(past, "The time is past the last record: that is the end of the log.")
	say(other, fmt.Sprintf("The topic was deleted and created again, unless --brokers are another cluster's: positions of the old one move into the new one (topic ID %s). Rows of the old one stay.", moves[0].to.TopicID))
	say(back > 0, count(back, "offset")+" are read again: their rows are written again, and none is removed.")
	say(forth > 0, count(forth, "offset")+" are passed over: their records are never processed. Rows stay as they are.")
	say(holdsState(r.sink), r.totals(back > 0 || other))
	say(holdsState(r.sink) && r.dropState && later, "What they hold of the records before that is lost.")
	return texts
}

// totals says what becomes of the totals of reductions.
func (r *reset) totals(again bool) string {
	switch {
	case r.dropState:
		return "Totals of reductions in these partitions begin at nothing, and will hold what is read from there on. Rows that show them stay until they are written again."
	case again:
		return "Totals of reductions stay, so that records which are read again count twice in them; --drop-state makes them begin at nothing."
	default:
		return "Totals of reductions stay as they are."
	}
}

// begins tells of partitions in which the pipeline has not begun, and which are not
// moved for that reason.
func (r *reset) begins(stored []framework.StoredPosition, topic topicLog) []string {
	var places []string
	for _, n := range slices.Sorted(maps.Keys(topic.partitions)) {
		there := slices.ContainsFunc(stored, func(p framework.StoredPosition) bool { return p.Partition == n })
		if !there && len(r.scope.partitions) == 0 {
			places = append(places, offsetstore.TopicPartition{Topic: stored[0].Topic, Partition: n}.String())
		}
	}
	if len(places) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Without a position, and not moved: %s. The pipeline begins there where its first start puts it.", strings.Join(shorten(places), ", "))}
}
