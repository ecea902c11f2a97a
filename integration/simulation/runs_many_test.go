//go:build integration

package simulation

// defaultRuns are for the whole test, which takes minutes.
const defaultRuns = 300
