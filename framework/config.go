package framework

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Config adjusts a runner. The zero value is good for production.
type Config struct {
	// BatchBytes closes a batch at that many encoded bytes (writes, state, dead
	// letters). Defaults to 1 MiB.
	BatchBytes int
	// BatchDelay closes a batch that long after its first record even if more
	// records are waiting. A batch closes at once when none are. Defaults to
	// 1 s.
	BatchDelay time.Duration
	// BatchRecords closes a batch at that many records. Defaults to 200,000.
	BatchRecords int
	// BelowLogStart says how to go on when retention has removed records that
	// were not processed. Defaults to PositionStop.
	BelowLogStart PositionPolicy
	// BufferBytes bounds what waits in memory for all partitions together:
	// records not processed yet, values not reduced yet, and batches not saved
	// yet. Each partition has an equal part of it, and at most a quarter. Defaults
	// to 32 MiB. Saved totals are bounded by CacheBytes.
	BufferBytes int
	// CacheBytes bounds the saved totals of reductions that are kept in memory for
	// all partitions together, so that they need not be loaded again: their keys
	// and values as they are encoded, and 128 bytes for each. Each partition has an
	// equal part of it, and each of its reductions an equal part of that. Defaults
	// to 64 MiB.
	CacheBytes int
	// ClaimsAtOnce bounds how many partitions are claimed in parallel. Defaults
	// to 16.
	ClaimsAtOnce int
	// DrainTimeout bounds how long a stop waits for saves in flight. Defaults
	// to 30 s.
	DrainTimeout time.Duration
	// FenceTries is how often a lane claims again, without a save between, after
	// another owner took its partition although the source says it is ours.
	// Defaults to 5.
	FenceTries int
	// Hooks observe what happens. Defaults to none.
	Hooks Hooks
	// KeepOthers lets the other partitions go on when one has failed for good.
	// Run still returns its error in the end. Defaults to stopping all.
	KeepOthers bool
	// Logger receives what an operator should know. Defaults to slog.Default().
	Logger *slog.Logger
	// RecoverWithin is how long a lane tries to get going again after errors of
	// the sink that may pass, counted from the first. Defaults to 5 min.
	RecoverWithin time.Duration
	// Start says where partitions begin for which the sink holds no position.
	// Defaults to earliest.
	Start offsetstore.StartRules
}

// PositionPolicy says how to go on from a position that the log does not have
// any more.
type PositionPolicy uint8

// The policies.
const (
	PositionStop     PositionPolicy = iota // stop the lane with the *PositionError
	PositionEarliest                       // go on with the first record there is; count the others as lost
	PositionLatest                         // go on at the log's end; count the others as lost
)

// WithDefaults returns a copy with every unset field at its default.
func (c Config) WithDefaults() Config {
	c.BatchBytes = orDefault(c.BatchBytes, 1<<20)
	c.BatchDelay = orDefault(c.BatchDelay, time.Second)
	c.BatchRecords = orDefault(c.BatchRecords, 200_000)
	c.BufferBytes = orDefault(c.BufferBytes, 32<<20)
	c.CacheBytes = orDefault(c.CacheBytes, 64<<20)
	c.ClaimsAtOnce = orDefault(c.ClaimsAtOnce, 16)
	c.DrainTimeout = orDefault(c.DrainTimeout, 30*time.Second)
	c.FenceTries = orDefault(c.FenceTries, 5)
	c.Logger = orDefault(c.Logger, slog.Default())
	c.RecoverWithin = orDefault(c.RecoverWithin, 5*time.Minute)
	return c
}

func (c Config) validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"BatchBytes", int64(c.BatchBytes)},
		{"BatchDelay", int64(c.BatchDelay)},
		{"BatchRecords", int64(c.BatchRecords)},
		{"BufferBytes", int64(c.BufferBytes)},
		{"CacheBytes", int64(c.CacheBytes)},
		{"ClaimsAtOnce", int64(c.ClaimsAtOnce)},
		{"DrainTimeout", int64(c.DrainTimeout)},
		{"FenceTries", int64(c.FenceTries)},
		{"RecoverWithin", int64(c.RecoverWithin)},
	} {
		if f.value < 0 {
			return fmt.Errorf("Config.%s is negative; leave it 0 for the default", f.name)
		}
	}
	if c.BelowLogStart > PositionLatest {
		return fmt.Errorf("Config.BelowLogStart: unknown policy %d", c.BelowLogStart)
	}
	return c.Start.Validate()
}
