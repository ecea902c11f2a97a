// Package offsetstore holds the vocabulary of progress: which partition
// ([TopicPartition]), how far ([Position]), and where to begin when nothing is
// known yet ([StartRule], [StartRules]). It also parses what every program takes
// from its operator: brokers, topics and start rules ([ParseBrokers],
// [ParseTopics], [ParseStartRules]).
//
// [Store] is for programs that keep their progress apart from their output;
// package kafkastore is one on Kafka's committed offsets. Neither needs the
// framework: kafkastore's example is a job of its own.
//
// Everything else in the module imports this package; it imports only the
// standard library.
//
// # Caveats
//
// An offset here is always the next offset to read, never the last one saved.
// Offsets have gaps (compaction, transaction markers), so nothing may count
// records by subtracting them.
package offsetstore
