//go:build integration

package cassandra

// defaultSimSeeds are for the whole test, which takes minutes.
const defaultSimSeeds = 5000
