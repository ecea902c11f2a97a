// Package customsink is a sink written from nothing, to be read beside
// sinks/README.md: it keeps everything in plain files, and passes the whole of
// sinks/sinktest.
//
// Guarantee: effectively exactly once, state and dead letters included, for any
// number of processes on one local file system.
//
// Each partition of a pipeline has a directory, its log, with files 000000000000,
// 000000000001 and so on. One file is one save, or one claim. A file appears
// whole or not at all, and there is only one of each number: whoever is first
// has it. That is the commit, and the fence as well.
//
//	root/p-spending/t-orders/7/000000000042
//
// A handler returns a [Write]; a [Table] reads what was saved.
//
// # Caveats
//
// It is an example, kept small. A log is never shortened, and read as a whole at
// each claim. State is held in memory. Each save costs a file and two fsyncs. A
// process that is killed may leave a file named .new-… behind, which means nothing.
//
// The file system must be local, have hard links, and keep the case of names, as
// those of Linux do. A network file system may answer that a name exists which the lost
// try of the same call has made.
//
// Rows of one key have an order within a partition only. If two partitions write
// one key, a [Table] holds the value of either.
package customsink
