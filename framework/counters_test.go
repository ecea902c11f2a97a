package framework_test

import (
	"errors"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
)

// Damaged data of a lane is an error, and no counter is ever negative.
func FuzzDecodeCounters(f *testing.F) {
	f.Add([]byte{1, 6, 2, 0, 0, 4, 0, 0})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{2, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, lane []byte) {
		c, err := framework.DecodeCounters(lane)
		if err != nil {
			if !errors.Is(err, framework.ErrCorrupt) || c != (framework.Counters{}) {
				t.Errorf("%x: %+v with the error %v", lane, c, err)
			}
			return
		}
		if min(c.Read, c.Passed, c.Filtered, c.Skipped, c.DeadLettered, c.AlreadySaved, c.Lost) < 0 {
			t.Errorf("%x is %+v", lane, c)
		}
	})
}
