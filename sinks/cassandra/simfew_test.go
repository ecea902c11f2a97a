//go:build !integration

package cassandra

// defaultSimSeeds take seconds.
const defaultSimSeeds = 250
