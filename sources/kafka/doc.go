// Package kafka reads Kafka topics, as fast as the client can, for pipelines
// whose positions live in the sink.
package kafka
