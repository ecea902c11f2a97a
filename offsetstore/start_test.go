package offsetstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

func TestPartitionRuleBeatsTopicRuleBeatsDefault(t *testing.T) {
	in0 := offsetstore.TopicPartition{Topic: "in", Partition: 0}
	rules := offsetstore.StartRules{
		Default:    offsetstore.Latest(),
		Topics:     map[string]offsetstore.StartRule{"in": offsetstore.Since(time.Unix(5, 0))},
		Partitions: map[offsetstore.TopicPartition]offsetstore.StartRule{in0: offsetstore.Exact(7)},
	}
	for tp, want := range map[offsetstore.TopicPartition]offsetstore.StartKind{
		in0:                         offsetstore.StartExact,
		{Topic: "in", Partition: 1}: offsetstore.StartTimestamp,
		{Topic: "other"}:            offsetstore.StartLatest,
	} {
		if got := rules.For(tp).Kind(); got != want {
			t.Errorf("%s: rule %v, want kind %v", tp, rules.For(tp), want)
		}
	}
	if got := (offsetstore.StartRules{}).For(in0); got != offsetstore.Earliest() {
		t.Errorf("no rules: %v, want earliest", got)
	}
}

func TestRulesNoLogCouldSatisfyAreRefused(t *testing.T) {
	in0 := offsetstore.TopicPartition{Topic: "in"}
	for _, c := range []struct {
		rules offsetstore.StartRules
		names string
	}{
		{offsetstore.StartRules{Default: offsetstore.Exact(-1)}, "the default"},
		{offsetstore.StartRules{Topics: map[string]offsetstore.StartRule{"in": offsetstore.Since(time.Time{})}}, "topic in"},
		{offsetstore.StartRules{Partitions: map[offsetstore.TopicPartition]offsetstore.StartRule{in0: offsetstore.Exact(-2)}}, "in/0"},
	} {
		if err := c.rules.Validate(); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%+v: error %v, want one naming %s", c.rules, err, c.names)
		}
	}
	if err := (offsetstore.StartRules{Default: offsetstore.Exact(0)}).Validate(); err != nil {
		t.Errorf("offset 0 is a legal start: %v", err)
	}
}
