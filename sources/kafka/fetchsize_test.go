package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// read tells f of a batch of n records of 100 bytes each, stored in so many
// bytes.
func (f *fetchSize) read(stored, n int) {
	f.OnFetchBatchRead(kgo.BrokerMetadata{}, "t", 0, kgo.FetchBatchMetrics{NumRecords: n, CompressedBytes: stored, UncompressedBytes: 100 * n})
}

func TestFetchesShrinkByAsMuchAsRecordsUnpack(t *testing.T) {
	const limit = 8 << 20
	var f fetchSize
	if got := f.of(limit); got != limit/firstShare {
		t.Errorf("before anything is known %d bytes are asked for, want %d", got, limit/firstShare)
	}
	f.read(enoughStored-1, 10000)
	if f.adapt() {
		t.Error("a judgement on too little")
	}
	f.read(1, 0)
	if !f.adapt() {
		t.Fatal("nothing was learned")
	}
	unpacked := float64(10000*(100+recordSize)) / enoughStored * float64(f.of(limit))
	if unpacked > limit || unpacked < limit*0.9 {
		t.Errorf("a fetch of %d stored bytes unpacks to %.0f, want just below %d", f.of(limit), unpacked, limit)
	}
}

func TestAFetchGrowsAgainStepByStep(t *testing.T) {
	const limit = 8 << 20
	var f fetchSize
	f.read(enoughStored, 10000)
	f.adapt()
	last := f.of(limit)
	for range 100 {
		f.read(1<<20, 10) // hardly compressed: large records
		f.adapt()
		now := f.of(limit)
		if now < last || float64(now) > float64(last)*1.2 {
			t.Fatalf("from %d to %d bytes in one step", last, now)
		}
		last = now
	}
	if last < limit/2 {
		t.Errorf("still only %d bytes of %d are asked for", last, limit)
	}
	f.read(enoughStored, 10000)
	f.adapt()
	if now := f.of(limit); now > limit/50 {
		t.Errorf("%d bytes are asked for after a batch that unpacks a hundredfold", now)
	}
}

func TestAFetchAsksForSomethingAlways(t *testing.T) {
	f := fetchSize{growth: 1e9}
	if f.of(1000) < 1 {
		t.Error("a fetch of nothing never ends")
	}
}
