// Package kafkastore keeps how far topics were processed in the offsets of a
// consumer group, for programs that read partitions by themselves and store their
// output elsewhere:
//
//	store, err := kafkastore.New(kafkastore.Config{Brokers: brokers, Topics: topics, Group: "nightly"})
//	starts, err := store.Starts(ctx)          // where every partition continues
//	…                                         // read [from, to) of each, and write the output
//	err = store.Save(ctx, ranges...)
//
// [Store.Starts] finds the partitions, reads what the group has committed, and
// resolves a start rule where it has not committed anything. [Store.Save] commits
// the ends of ranges.
//
// # Guarantee
//
// At least once. The output is written first and the offsets later, in another
// system: after a crash between the two the last ranges are processed again. A
// framework pipeline with a sink that holds its own positions has no such gap.
//
// Nobody is fenced. The group must have no members, or Kafka refuses the commits;
// two programs that use the same group overwrite each other's offsets.
//
// # Errors
//
// The kinds are told apart: ErrUnknownTopic, ErrNoLeader and ErrNotAuthorized, each
// with the partition in an [offsetstore.PartitionError] where it concerns one;
// *[MetadataTooLargeError]; *[BrokersError] when no broker answers, with the cause for
// each. Nothing that failed is ever read as "nothing committed".
package kafkastore
