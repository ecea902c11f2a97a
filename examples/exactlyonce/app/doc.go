// Package app is the example's application: events from Kafka into a table, and
// the number of events of low health per source and minute into another, both
// saved together with the position.
//
// [Pipeline] is the whole job and the place to begin reading. It knows no
// database; a [Database] runs it on one, and [ParseDatabase] chooses which by a
// data source name. [Streaming] is the program around it. The tables are in
// schema.cql and schema.sql, and questions to ask them in queries.cql and
// queries.sql one folder up.
//
// # Caveats
//
// An alert's total is the sum over the rows of its source and minute: each Kafka
// partition keeps a count of its own. Whoever reads a single row reads a part.
//
// The minute is that of the event's own time. There is no end to a minute: an
// event that comes late still counts.
package app
