package kafka

import (
	"sync/atomic"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fetchSize keeps what a fetch takes in memory near Config.FetchMaxBytes. Kafka
// counts a fetch in bytes as stored, and a compressed batch can unpack to a
// hundred times as much: so the growth is measured, and that much less is asked
// for.
type fetchSize struct {
	stored, unpacked atomic.Int64 // since the last look; written by the client

	growth float64 // unpacked bytes per stored byte, 0 before the first look
}

const (
	// firstShare is the part of the bound that is asked for before anything is
	// known.
	firstShare = 32
	// enoughStored is how many stored bytes make a measurement.
	enoughStored = 32 << 10
	// recordSize is what the client's record takes beside the bytes it refers to.
	recordSize = int64(unsafe.Sizeof(kgo.Record{}))
)

// OnFetchBatchRead is part of kgo.HookFetchBatchRead.
func (f *fetchSize) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	f.unpacked.Add(int64(m.UncompressedBytes) + recordSize*int64(m.NumRecords))
	f.stored.Add(int64(m.CompressedBytes))
}

// adapt looks at what was fetched since the last time and reports whether the
// sizes to ask for have changed. Growth is believed at once when it rises and
// step by step when it falls, since too small a fetch costs little.
func (f *fetchSize) adapt() bool {
	stored := f.stored.Load()
	if stored < enoughStored {
		return false
	}
	f.stored.Add(-stored)
	unpacked := f.unpacked.Swap(0)
	before := f.growth
	f.growth = max(float64(unpacked)/float64(stored), before*0.9, 1)
	return f.growth != before
}

// of returns how many stored bytes to ask for, to get no more than limit.
func (f *fetchSize) of(limit int32) int32 {
	if f.growth == 0 {
		return max(limit/firstShare, 1)
	}
	return max(int32(float64(limit)/f.growth), 1)
}
