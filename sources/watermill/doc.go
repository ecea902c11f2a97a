// Package watermill reads by Watermill for pipelines whose positions live in the
// sink: a service that has its subscribers configured keeps them.
//
//	source, err := watermill.NewKafka(watermill.KafkaConfig{
//		Subscriber: kafka.SubscriberConfig{Brokers: brokers, ConsumerGroup: "billing"},
//		Topics:     []string{"orders"},
//	})
//
// There are two sources. [NewKafka] takes the configuration of a watermill-kafka
// subscriber, and starts each partition where the sink says. [New] takes any
// message.Subscriber whose messages tell topic, partition and offset, by a
// function. Handlers find UUID and metadata in the record, by [UUID] and
// [Metadata]. [NewLogger] makes a slog.Logger of a Watermill logger, for
// framework.Config.
//
// # Speed
//
// Watermill hands over one message a partition, and waits for its Ack. So this
// source reads at a fraction of the rate of sources/kafka, which hands over
// thousands: 0.18 to 0.19 million records of 120 bytes a second, with one
// partition or four, against 1.2 to 1.6 million from the same broker, with which
// it shared two cores (BenchmarkRead, without a pipeline). Where that is too slow, the fast source can take over at
// any time: positions are the same for both, and so are records but for headers
// and a payload that an Unmarshaler makes up. (Stop the one before the other
// starts: they do not share a group.)
//
// # NewKafka
//
// The subscriber runs unchanged, with its Unmarshaler, Tracer and logger. It
// joins the group, and the session of the group decides which partitions are
// ours; but what it reads is a consumer of our own, which is opened where the
// lane says after the position was compared with the log. Messages are
// acknowledged on receipt, since the sink holds the position; nothing is
// committed to the group but saved positions, for lag tools.
//
// Of the sarama configuration a copy is used, in which is set: read committed;
// no automatic commits; begin at oldest instead of newest; no reset of invalid
// offsets; no bound on a fetch that would pass over a large record; no automatic
// creation of topics; errors returned; and network timeouts of 10 s at most. Our
// own client speaks as to Kafka 2.8 at least, since topics have IDs since then.
//
// A Tracer may read ahead, but must hand on every message, in order. An
// Unmarshaler that refuses a record stops its partition by [UnmarshalError].
// Watermill's own refuses nothing; decode in the pipeline, where failures have
// policies.
//
// # New
//
// A subscriber without a seek goes on where it thinks best. It gets its Ack for
// what the sink has saved, and so, if it keeps its word, begins at or before the
// sink's position; what comes again is ignored. If it begins above, records are
// missing, and the partition stops with [framework.ErrBelowLogStart]; see
// framework.Config.BelowLogStart. It has to keep the order of a partition: a
// message that comes late may be behind a position that is saved, and ends the
// source with [framework.ErrOrder]. (Watermill's gochannel keeps it while
// Publish waits for the Ack, see BlockPublishUntilSubscriberAck, and never when
// persistent.)
//
// A partition is known from its first message on and assigned until Run ends,
// whoever else gets its messages: which owner counts is decided by the sink's
// claims alone. Records wait for the save before the Ack, so a subscriber that
// hands over one message at a time has one saved at a time.
//
// # Caveats
//
//   - Rebalances are eager in sarama: with each one all partitions of the process
//     are revoked and claimed anew.
//   - watermill-kafka joins the group once for each topic, as members of their own.
//   - sarama tells no leader epochs, and cannot ask where one ends: a log that was
//     cut and has grown past the position again is not noticed. Nor is a topic
//     that was made again, until CheckInterval has passed, if the new log is
//     already as long as the old one.
//   - While a partition has no leader, sarama ends the session of the member that
//     has it again and again, with all its partitions.
//   - A start, and the end of a session, wait for the fetch under way, up to
//     Consumer.MaxWaitTime of the sarama configuration.
//   - Stopping waits for a join of the group that is under way.
//   - watermill-kafka leaves a goroutine behind with each reconnect until the
//     source ends. They are spaced a second apart.
//   - sarama forgets to close some connections to brokers that fail while several
//     goroutines use them: a goroutine and a socket each.
//   - New cannot resolve "latest" or a time, and takes a gap in the offsets right
//     at a start for missing records.
package watermill
