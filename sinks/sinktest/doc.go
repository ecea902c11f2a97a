// Package sinktest checks that a sink keeps the treaty of [framework.Sink]. An
// author describes the sink in a [Harness] and calls [Run] from one test:
//
//	func TestConformance(t *testing.T) {
//		db := newDatabase(t)
//		sinktest.Run(t, sinktest.Harness[mysink.Write]{
//			Guarantee: framework.Guarantee{Level: framework.ExactlyOnce, State: true, DeadLetters: true},
//			Open:      func(ctx context.Context) (framework.Sink[mysink.Write], error) { return mysink.Open(ctx, db) },
//			Write:     func(key, value string) mysink.Write { return rows.Upsert(row{key, value}) },
//			Rows:      db.rows,
//			DeadLetters: db.deadLetters,
//		})
//	}
//
// Every case checks one rule, and says the rule in words when it fails. Cases
// that concern a promise the sink does not make are left out. Those that need a
// field of the harness which is not given, or an optional power that the sink does
// not have, are skipped and say why; the last line of the log (go test -v) names
// them all.
//
// The suite works on one store: every case uses pipelines, topics and row keys
// of its own, with fresh random names, so the store may be shared and need not be
// emptied. No good sink fails for its timing, unless a call takes many seconds to
// end when it should. Cases that interrupt a save do it at every place where the
// sink looks at its context, one after the other; cases that let two owners race
// accept every legal order of events and no other.
//
// # Caveats
//
// The suite cannot kill a process or cut a network. A sink needs tests of its
// own for what its database does then.
package sinktest
