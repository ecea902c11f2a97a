// Command bench compares Lockstep with what one would write by hand for the
// same job, on real servers, all sides in one run. `make bench` starts the
// servers and runs it. It prints ratios, since the figures themselves depend on
// the machine, and fails when a ratio or the memory misses its bound.
//
//	reduce    count events by client: the pipeline against a bare loop
//	          (franz-go, the same decoder, a map; no guarantee)
//	load      events into Cassandra: the pipeline against a bare loader (the
//	          same rows in unlogged single-partition batches; no offsets)
//	postgres  events into PostgreSQL: the pipeline against a bare loader (the
//	          same rows by COPY, through several connections; no offsets)
//	memory    the example's streaming app with millions of records waiting
//	          and a sink that stands still
//
// The sides of a comparison take turns, and the median of each counts. The bare
// sides have a least rate of their own, for two cores shared with the servers: a
// lame one would flatter the pipeline.
package main
