// Package cassandra is the sink that saves a pipeline's outputs, its state and its
// position together in Apache Cassandra, effectively exactly once: every record
// takes effect once, whatever crashes, stalls or is started twice.
//
// There are few types: a [Config] says where the cluster is, a [Table] turns
// values into [Write]s, and a [Sink] saves them. To use them:
//
//  1. Describe each table by the tags of a struct, with [NewTable].
//  2. Let the pipeline's last step return Writes: [Table.Insert], [Table.Upsert],
//     [Table.Delete].
//  3. Make a Config, by hand or with [ParseDSN], and name the tables in it.
//  4. Create what is missing with [Migrate], once, or give operators [Schema].
//  5. [Open] the sink and hand it to the runner.
//
// # How a save works
//
// One row per pipeline, topic and partition is the ledger, and one conditional
// statement on that row is the whole commit. A batch's writes travel with it, in
// the row itself or in chunk rows written just before; then they are applied to
// the tables, each with a timestamp of the ledger's own growing clock. Whoever
// owns the partition next finishes what was committed and not applied. Applying
// twice changes nothing.
//
// # Tables
//
// An exported field is a column, named by its tag or else by the field's name in
// snake case:
//
//	type Reading struct {
//		Sensor string    `cql:"sensor,partition"`  // part of the partition key
//		At     time.Time `cql:"at,clustering"`     // part of the clustering key
//		Value  float64                             // column value double
//		Level  int       `cql:"level,type=smallint"`
//		Note   *string                             // may be left unset
//		Debug  string    `cql:"-"`                 // not a column
//	}
//
// The fields of an embedded struct are columns too. All columns of the primary
// key must have a field; other columns of the table may be left out. Open compares
// every field with the real table and reports each difference.
//
// A Go type has a CQL type, which type= replaces:
//
//	string                         text        or ascii
//	[]byte                         blob        or text
//	bool                           boolean
//	int8, int16, int32             tinyint, smallint, int
//	int, int64                     bigint      any integer type fits any other, and unsigned ones with type=
//	float32, float64               float, double
//	time.Time                      timestamp   (milliseconds) or date (the day in UTC)
//	time.Duration, int64                       time, of day, with type=time
//	[16]byte, gocql.UUID, uuid.UUID  uuid      or timeuuid
//	net.IP, netip.Addr             inet
//	big.Int, inf.Dec               varint, decimal
//	gocql.Duration                 duration
//	[]T                            frozen<list<T>>  or frozen<set<T>>, set<T>
//	map[K]V                        frozen<map<K, V>>  or map<K, V>
//	struct                                     a user type, with type=frozen<name> or type=name;
//	                                           a tuple within a collection
//
// Lists that are not frozen and counters are refused: they cannot be applied
// twice. So are columns that are tuples, which the driver cannot send in batches,
// and vectors. There is no way to write what the server computes, such as now().
//
// # Unset, clear and zero
//
// A plain field is always written, its zero value too. A nil pointer is unset: the
// column is not written, keeps what it has, and costs nothing. An [Optional] can be
// unset (its zero value), a value ([Set]), or clear ([Clear]), which writes null
// and costs a tombstone. Fields of the key must have a value.
//
// # Insert or Upsert
//
// Both write only what is set, whether the row exists or not. Insert is CQL's
// INSERT and marks the row itself: it exists from then on, even when all its other
// columns are null, until it is deleted. Upsert is CQL's UPDATE and leaves no mark:
// the row exists as long as one of its columns beside the key has a value. Use
// Insert for rows, and Upsert to change columns of rows that something else made,
// above all with an expiry, which for an Insert concerns the row too.
//
// # Expiry
//
// [WithTTL] or [Write.ExpireAt] fix the moment at which values expire when the
// write is made, not when it reaches the table; a save that is applied again does
// not prolong it. If the moment has passed by then, nulls are written with the
// write's timestamp, which hides older values just as the expired ones would; the
// bare key of an Insert may show for a second. Tables with a default_time_to_live
// are refused, since it would begin anew each time.
//
// # Limits
//
// [Sink] refuses, before anything is sent, what the server would refuse after the
// commit: missing or empty keys, a partition or clustering key above 65,535 bytes,
// text that is not UTF-8, numbers that do not fit, values too long for an index on
// their column, and a single write above 1 MiB (Config.MaxWriteBytes) or a quarter
// of the server's max_mutation_size.
//
// # Caveats
//
// The rows of one batch become visible one Cassandra partition at a time, within
// milliseconds of the commit; after a crash, when the partition is claimed again.
//
// Writes of one row take effect in their order within one Kafka partition. Where
// several partitions write the same row, the last clock wins. A row stamped by a
// clock far ahead beats everyone, so clocks must be synchronised: Open warns of 2
// seconds and refuses 30.
//
// Nothing else should write the same rows without timestamps below ours. Tables
// must keep deletions for an hour at least (gc_grace_seconds), and should for days.
//
// A node that crashes must keep what it has acknowledged, or another must. With one
// copy of everything and commitlog_sync periodic, the server's default, a crash takes
// back the last seconds: set it to batch or group, or replicate; Open warns. The
// sink notices by the connections that end, and each lane claims again and goes on
// from what is left, so that rows, totals and position agree. A lane that has nothing to save
// does so with its next save only.
//
// A table that is dropped and made again while a committed save waits for it is
// not written to: the claim fails, and says which table. [Sink.Reset], even to where
// the position is, takes the new table for the old one.
//
// Frozen collections are better than others: writing a whole set or map that is
// not frozen costs a tombstone each time, and so does every Delete and Clear.
//
// Where the cluster checks permissions, a program that saves needs SELECT and MODIFY
// on the keyspace, and SELECT on the table system_views.settings, which says what
// can be saved. To list positions SELECT on the keyspace is enough.
//
// Indexes are known as they were when the sink was opened. Materialized views on a
// table, and guardrails on the number of items of a collection, have limits that
// are not known here: a row that one of them refuses keeps its partition from
// going on. Expiries after 2038-01-18 are refused, since servers in their default
// compatibility mode refuse them.
//
// Paxos v1, the server's default, is not linearizable while nodes join, leave or
// move; set paxos_variant to v2. Cassandra 4.1 or newer is required, and 5.0 is
// what the sink is tested with. Settings are read from one node; the nodes should
// not differ in them.
package cassandra
