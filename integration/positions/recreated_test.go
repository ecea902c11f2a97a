package positions

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// The new topic may hold less than the position, as much, or more: offsets alone
// would not tell.
func TestATopicMadeAgainIsRefused(t *testing.T) {
	for _, records := range []int{0, 2, 3, 10} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d records/running=%v", records, running), func(t *testing.T) {
				onBed(t, map[string]int32{"in": 1}, func(b *bed) {
					p := program{name: "p", topics: []string{"in"}}
					b.produce(in0, ones("old", 3)...)
					proc := b.start(p)
					b.awaitSaved("p", in0, 3)
					if !running {
						proc.stop()
					}
					done, oldID := b.lane(in0), b.topicID("in")
					b.recreate("in", 1)
					b.produce(in0, ones("new", records)...)
					for range 2 { // a second start changes nothing
						if !running {
							proc = b.start(p)
						}
						b.requireRecreated(proc.failed(), oldID)
						b.requireUntouched(in0, done)
						running = false
					}
					b.requireGoesOnInTheNewTopic(p)
				})
			})
		}
	}
}

// A topic that is gone is an error that names it; when it comes back it is another.
func TestATopicThatWasDeletedIsRefusedAndStaysRefusedWhenItIsBack(t *testing.T) {
	onBed(t, map[string]int32{"in": 1}, func(b *bed) {
		p := program{name: "p", topics: []string{"in"}}
		b.produce(in0, ones("old", 3)...)
		proc := b.start(p)
		b.awaitSaved("p", in0, 3)
		done, oldID := b.lane(in0), b.topicID("in")
		if err := b.cluster.DeleteTopic("in"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := proc.failed(); !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), `"in"`) && !strings.Contains(err.Error(), "in/0") {
				t.Errorf("failed with %v, want %v that names the topic", err, framework.ErrConfig)
			}
			b.requireUntouched(in0, done)
			proc = b.start(p)
		}
		_ = proc.failed()
		b.create("in", 1, nil)
		b.connect()
		b.produce(in0, ones("new", 10)...)
		b.requireRecreated(b.start(p).failed(), oldID)
		b.requireUntouched(in0, done)
		b.requireGoesOnInTheNewTopic(p)
	})
}

// lane is all that is stored, as it is.
func (b *bed) lane(tp part) any {
	b.t.Helper()
	lane, ok := b.store.Lane("p", tp)
	if !ok {
		b.t.Fatalf("nothing is stored for %s", tp)
	}
	lane.Owner = "" // a refused start claims first
	return lane
}

func (b *bed) requireUntouched(tp part, before any) {
	b.t.Helper()
	if now := b.lane(tp); !reflect.DeepEqual(now, before) {
		b.t.Errorf("stored is\n%+v\nand was\n%+v", now, before)
	}
}

func (b *bed) requireRecreated(err error, oldID offsetstore.TopicID) {
	b.t.Helper()
	var position *framework.PositionError
	if !errors.Is(err, framework.ErrTopicRecreated) || !errors.As(err, &position) {
		b.t.Fatalf("failed with %v, want a *PositionError that matches %v", err, framework.ErrTopicRecreated)
	}
	id := b.topicID("in")
	if position.TopicPartition != in0 || position.Position.TopicID != oldID || position.TopicID != id {
		b.t.Errorf("the error is %+v, want %s, topic ID %s then and %s now", position, in0, oldID, id)
	}
	for _, text := range []string{`pipeline "p"`, "in/0", oldID.String(), id.String(), "framework.Resetter"} {
		if !strings.Contains(err.Error(), text) {
			b.t.Errorf("%q does not say %q", err, text)
		}
	}
}

// requireGoesOnInTheNewTopic: once the operator has moved the position, all of the new
// topic is processed, and what came of the old one stays.
func (b *bed) requireGoesOnInTheNewTopic(p program) {
	b.t.Helper()
	b.move("p", in0, offsetstore.Position{LeaderEpoch: offsetstore.NoLeaderEpoch, TopicID: b.topicID("in")})
	b.produce(in0, ones("new", 2)...)
	again := b.start(p)
	b.awaitAll("p", "in")
	again.stop()
	lines := []line{}
	for i, text := range ones("old", 3) {
		lines = append(lines, line{int64(i), text})
	}
	lines = append(lines, b.log[in0]...)
	b.expect("p", in0, model(in0, lines, end(b.log[in0])))
}
