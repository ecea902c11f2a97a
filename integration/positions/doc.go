// Package positions holds tests of whole pipelines (the runner, the Kafka source and
// the memory sink) on an in-process Kafka, about one question: where does reading go
// on? Each test brings about one of the situations in which the sink, the consumer
// group and the log disagree, and compares all that is stored afterwards (positions,
// rows, totals, state, dead letters and counters) with a model of the log.
//
// The clock is virtual, so that sessions may time out and metadata may grow old
// without anybody waiting. What random faults do is package simulation's subject.
package positions
