// Package framework runs typed stream pipelines whose outputs and positions are
// saved together, so that every record takes effect once.
//
// Five steps make a program:
//
//  1. Describe what is done with a record: [From] decodes it, [Map], [Filter],
//     [FlatMap] and [ReduceByKey] work on it, [Merge] joins branches. The last
//     step returns the sink's write type.
//  2. Name it: [NewPipeline] checks the description. The name finds the saved
//     positions.
//  3. Choose a [Source], such as package sources/kafka, and a [Sink], such as
//     sinks/cassandra or sinks/sql.
//  4. Put them together: [NewRunner] refuses a sink that guarantees too little.
//  5. [Runner.Run], until its context is cancelled.
//
// Handlers return writes; they do not write. Anything else they do happens at
// least once.
//
// Failures are handled by a [FailurePolicy] for each kind of stage: stop (the
// default), skip, or save as a dead letter, after retries. What reaches the user
// is a [*RecordError], [*LaneError] or [*PositionError]; errors.Is finds the
// condition.
//
// # Caveats
//
// A handler may see a record more than once: its first effects were never
// saved then. It must not keep state of its own between records.
//
// Order is kept within a Kafka partition, not between partitions. A key that
// occurs on several partitions has a total on each; see [ReduceByKey].
//
// Positions live in the sink. The offsets that ordinary Kafka tools show are a
// mirror of them, and never decide where to start.
package framework
