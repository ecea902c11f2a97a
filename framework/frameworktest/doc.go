// Package frameworktest runs pipelines without Kafka: a [Log] holds the records
// of some topics in memory, and a [Source] delivers them like a consumer group
// would, including what one wishes it would not: rebalances, lost partitions,
// records delivered twice or out of order, and logs that lost their beginning.
//
// A test of a pipeline produces to a Log, runs a framework.Runner with a Source
// of that Log and the sink of package memory, and looks at what was saved:
//
//	log := frameworktest.NewLog()
//	log.Produce("in", 0, "a", "b")
//	runner, err := framework.NewRunner(pipeline, frameworktest.NewSource(log), sink, framework.Config{})
//	err = frameworktest.RunUntilSaved(ctx, runner, log)
//
// # Crashes
//
// A runner comes by named points (framework.Points): a claim was made, a batch is
// about to be saved, it was saved, a lane is about to release its claim.
// [RunUntilCrash] runs a pipeline until one of them and stops it there the way a
// killed process stops, within the test's own process: run it again on the same
// log and store, and compare. [KillAt] kills the real process there, for tests that
// start the program as a child:
//
//	cfg.Hooks.Reached = frameworktest.KillAt(framework.PointAfterSave, 3)
//
// # Caveats
//
// There are no transactions and no compaction; a record's offset can be chosen
// freely ([Log.Append]), which makes any gap.
package frameworktest
