package cassandra

import "sync/atomic"

// Stats counts what the sink had to do about failures, since it was opened.
type Stats struct {
	// UnknownOutcomes is how often the answer to a commit did not come, or did not
	// tell, so that the ledger had to. Most of them end well.
	UnknownOutcomes int64
	// RollForwards is how many saves were finished that an owner had committed and
	// left without the mark that they are applied.
	RollForwards int64
	// Fenced is how many saves were refused because another process had claimed the
	// partition, or an operator had moved its position.
	Fenced int64
}

// counters are the Stats while they are counted, each in one place.
type counters struct{ unknownOutcomes, rollForwards, fenced atomic.Int64 }

// Stats returns the counts so far. It may be called at any time, after Close too,
// and concurrently.
func (s *Sink) Stats() Stats { return s.counters.stats() }

func (c *counters) stats() Stats {
	return Stats{
		UnknownOutcomes: c.unknownOutcomes.Load(),
		RollForwards:    c.rollForwards.Load(),
		Fenced:          c.fenced.Load(),
	}
}
