// Package kafka reads Kafka topics for pipelines whose positions live in the
// sink. It is the fast source: records arrive a hand-over at a time, near the
// rate at which the client alone can read them.
//
//	source, err := kafka.New(kafka.Config{
//		Brokers: []string{"localhost:9092"},
//		Topics:  []string{"orders"},
//		Group:   "billing",
//	})
//
// There is one type to know, [Source], and its [Config]. A Source joins a
// consumer group, which spreads the partitions over all processes that run the
// pipeline (cooperatively: what stays is not interrupted). Each assignment of a
// partition is a fresh [framework.Partition]. Nothing of it is fetched until its
// lane has claimed it and calls Start with the position that the sink holds.
//
// # Positions
//
// Start checks the position against the log itself (its first offset, its end,
// the topic's ID, the leader epoch) and only then seeks. The client is set up
// never to move by itself. Where it would, or where the log changes under a
// running partition, that partition stops with a [framework.PositionError] while
// the others go on. Only committed records are read, and gaps in the offsets
// are normal. One line of the log for each start states the position, the log's
// start and end, the group's offset, the topic's ID and what follows.
//
// Saved positions are mirrored to the group's offsets, so that the usual lag
// tools work; so is the position of a start if the group holds another. They are
// written with a delay, may be refused, and never decide where reading starts.
//
// # Errors
//
// Kafka's own faults, lost connections and moved leaders are retried for ever.
// What waiting cannot mend ends Run with [framework.ErrConfig]: a refused login,
// a missing topic, missing rights. Servers that are not up when Run begins are
// waited for, see [Config].StartWait. Of a partition that cannot be read
// although the servers are well (retention, truncation, a topic made again or
// deleted, missing rights, bytes that cannot be decoded) the lanes are told by
// Failed.
//
// # Memory
//
// The client holds at most about two answers of [Config].FetchMaxBytes a broker,
// however well the records are compressed. Of a paused partition nothing is kept: what was read ahead is dropped and
// fetched again. Records are copied out of the client's buffers, so that a lane
// keeps alive what it holds and no more.
//
// # Caveats
//
//   - A partition that is resumed while all others of its broker are idle may
//     wait up to FetchMaxWait for its next record.
//   - A start makes the client drop what it has read ahead, of all partitions,
//     and fetch it again. Starts are gathered, so that many of them do not keep
//     the others from reading.
//   - Between a leader's death and the first record read afterwards a log can be
//     cut and grow again without trace if the position carries no leader epoch.
//   - After a kill nobody gets partitions until the session of the killed process
//     has timed out, unless it is a static member that comes back. The log says so,
//     once, when the first assignment takes longer than living members need.
//   - A static member (InstanceID) does not leave the group when it stops: its
//     partitions are idle until it is back or SessionTimeout has passed.
//   - The group must not have members of another kind, which the group
//     coordinator refuses, and needs no rights beyond Read on the group and Read
//     and Describe on the topics.
//   - A topic that was deleted and made again can be read on by the same process
//     once Start is called with a position of the new topic. This ends all
//     current assignments of the topic; Start returns [framework.ErrNotOwner] and
//     fresh ones follow.
//   - Methods of a partition may be called from within the calls to the lanes,
//     except Start, Resolve and Confirm: they wait for the goroutine that makes
//     those calls.
package kafka
