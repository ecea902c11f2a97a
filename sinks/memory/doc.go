// Package memory is the reference implementation of [framework.Sink]: every
// rule of the treaty, kept in the plainest way, in memory. It is for tests and
// benchmarks, and to read before writing a sink.
//
// Guarantee: effectively exactly once, state and dead letters included, for as
// long as the process lives.
//
// A [Store] is the database: it outlives the sinks opened on it, so a test
// restarts its pipeline by opening the same store again. A [Sink] is one
// process's handle to it, with a claim on the partitions it works on. A [Row] is
// a ready-made write type with a table and a key; any other type will do, and
// its writes are kept in order.
//
//	store := memory.NewStore[memory.Row]()
//	sink := store.Open(memory.Options[memory.Row]{})
//	// … run a pipeline on sink …
//	rows := memory.Rows(store, "events")
//
// Faults are made with [Hooks]: a hook can delay a call, fail it before it takes
// effect, or lose its answer afterwards.
//
// # Caveats
//
// Nothing survives the process, and nothing is bounded unless the store is made
// with [KeepCounts].
//
// A write is copied by assignment. A W that holds pointers or slices must not be
// changed after it was returned by a handler.
package memory
