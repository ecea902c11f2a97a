package positions

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
)

var deadLetters = framework.OnDecodeFailure(framework.FailurePolicy{Action: framework.ActionDeadLetter})

func TestAThousandBadRecordsInARowDoNotDisturbTheGroup(t *testing.T) {
	onBed(t, map[string]int32{"in": 2}, func(b *bed) {
		p := b.start(program{name: "p", topics: []string{"in"}, options: []framework.PipelineOption{deadLetters}})
		b.awaitSaved("p", in0, 0)
		b.awaitSaved("p", in1, 0)
		before := b.cluster.GroupInfo("p")

		var bad []string
		for i := range 1000 {
			bad = append(bad, fmt.Sprintf("not-json-%d", i))
		}
		b.produce(in0, add("a", 1))
		b.produceMany(in0, bad)
		b.produce(in0, "", `{"k":1}`, add("a", 2))
		b.produce(in1, add("b", 1))
		b.awaitAll("p", "in")

		after := b.cluster.GroupInfo("p")
		if after.Epoch != before.Epoch || after.State != "Stable" || before.State != "Stable" {
			t.Errorf("the group went from %s, generation %d, to %s, generation %d", before.State, before.Epoch, after.State, after.Epoch)
		}
		p.stop()
		b.expectAll("p", nil, "in")
	})
}

func TestABadRecordStopsThePipelineAtTheSameRecordAgain(t *testing.T) {
	onBed(t, map[string]int32{"in": 2}, func(b *bed) {
		b.produce(in0, add("a", 1), "not-json", add("a", 2), "neither", add("a", 4))
		b.produce(in1, ones("b", 20)...)
		p := program{name: "p", topics: []string{"in"}}
		var first string
		for range 3 {
			err := b.start(p).failed()
			if first == "" {
				first = err.Error()
			}
			b.requireBlames(err, in0, 1)
			if err.Error() != first {
				t.Errorf("another start failed with\n%v\nand the first with\n%s", err, first)
			}
			b.expect("p", in0, model(in0, until(b.log[in0], 1), 1))
			done := b.position("p", in1)
			b.expect("p", in1, model(in1, until(b.log[in1], done), done))
		}
		// Once somebody has decided, it goes on as if nothing had been.
		p.options = []framework.PipelineOption{deadLetters}
		last := b.start(p)
		b.awaitAll("p", "in")
		last.stop()
		b.expectAll("p", nil, "in")
	})
}

func (b *bed) requireBlames(err error, tp part, offset int64) {
	b.t.Helper()
	var record *framework.RecordError
	if !errors.As(err, &record) {
		b.t.Fatalf("%v is not a *RecordError", err)
	}
	if record.Pipeline != "p" || record.TopicPartition != tp || record.Offset != offset || record.Stage != "decode" {
		b.t.Errorf("the error blames %+v, want %s@%d of pipeline p, decode", record, tp, offset)
	}
}
