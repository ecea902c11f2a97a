//go:build !integration

package simulation

// defaultRuns take seconds.
const defaultRuns = 40
