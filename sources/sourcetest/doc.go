// Package sourcetest checks that a source keeps the treaty of
// [framework.Source]. An author says what the source can do, how to open it and
// how to change the log it reads, and calls [Run] from one test:
//
//	func TestConformance(t *testing.T) {
//		features := sourcetest.Features{Log: true, WholeRecords: true}
//		sourcetest.Run(t, features, func(t *testing.T) sourcetest.Harness {
//			log := newLog(t)
//			return sourcetest.Harness{
//				Open:   func(topic, group string) (framework.Source, error) { return mysource.New(log, topic, group) },
//				Create: log.create,
//				Append: log.append,
//			}
//		})
//	}
//
// Every case checks one rule, and says the rule in words when it fails. Some
// rules hold in every case: calls for one partition never overlap, nothing is
// delivered for a dead partition, or before it was started and resumed, offsets
// rise, each assignment is a fresh value, and Run returns nil after a cancel.
//
// Cases that concern what the source cannot do, by its [Features], are not run.
// Those that need a field of the [Harness] which is not given are named in the
// test's log (go test -v).
//
// Each case has a harness, a topic and a group of its own, with random names, so
// harnesses may share one server. No case depends on timing; [Harness].Timeout
// only ends one that hangs.
//
// # Caveats
//
// The suite cannot kill a process, cut a network or move a leader. A source
// needs tests of its own for that, and for its configuration.
package sourcetest
