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
// # Caveats
//
// There are no transactions and no compaction; a record's offset can be chosen
// freely ([Log.Append]), which makes any gap.
package frameworktest
