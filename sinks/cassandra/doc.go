// Package cassandra is the sink that saves a pipeline's outputs and its position
// in Apache Cassandra, effectively exactly once.
package cassandra
