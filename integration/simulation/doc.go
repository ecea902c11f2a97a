// Package simulation runs whole pipelines in virtual time and attacks them. Several
// processes, each with the real runner and the real Kafka source, share the
// partitions of an in-process Kafka cluster. They are killed, paused beyond their
// session, cut off and restarted; brokers go away, leaders and coordinators move; the log has gaps;
// saves fail, get lost, or take effect long after they were given up. In the end
// everything heals, and what is stored must be what was produced: each record once,
// each total right, each position where the log ends.
//
// What goes wrong, and when, comes from a seed, so that a history that failed is
// attacked the same way again:
//
//	go test ./integration/simulation -run TestWholeRuns -simulation.seed 42 -v
//
// How goroutines and packets interleave between two faults is not the seed's to
// decide. The protocol of the Cassandra sink has a simulation of its own, where it
// is (sinks/cassandra).
//
// Sinks and pipelines that are broken on purpose show that each kind of fault would
// be seen.
package simulation
