package main

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func TestTotalsAreShownByKey(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.produce(0, 100, 20)
	b.produce(2, 7)
	b.process(2, 0, 1)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", exitOK, "OPERATOR  KEY  TOPIC   PARTITION  PART\nspent     ann  orders  0          120\nspent     ann  orders  2          7\n"},
		{"--combine sum", exitOK, "OPERATOR  KEY  TOTAL\nspent     ann  127\n"},
		{"--combine min", exitOK, "OPERATOR  KEY  TOTAL\nspent     ann  7\n"},
		{"--combine max --key ann --operator spent", exitOK, "OPERATOR  KEY  TOTAL\nspent     ann  120\n"},
		{`--key "ann" --partition 2`, exitOK, "OPERATOR  KEY  TOPIC   PARTITION  PART\nspent     ann  orders  2          7\n"},
		{"--output json --combine sum", exitOK, `{"operator":"spent","window":0,"key":"ann","value":127}` + "\n"},
		{"--output json --partition 2", exitOK, `{"operator":"spent","window":0,"key":"ann","topic":"orders","partition":2,"value":7}` + "\n"},
		{"--key bob", exitOK, "lockstep: no totals are stored there\n"},
		{"--operator other", exitFailed, `lockstep: --operator "other": pipeline "spending" has stored no totals of it; there are some of "spent"` + "\n"},
		{"--operator other --key bob", exitFailed, `lockstep: --operator "other": pipeline "spending" has stored no totals of it; there are some of "spent"` + "\n"},
		{"--operator spent --key bob", exitOK, "lockstep: no totals are stored there\n"},
		{"--values int64", exitFailed, `lockstep: --values int64: operator "spent", key ann: int64: wrong length: 3 bytes, want 8` + "\n"},
	} {
		args := append([]string{"totals", "--pipeline", "spending", "--sink", b.dsn}, strings.Fields(c.args)...)
		code, stdout, stderr := lockstep(t, args...)
		if code != c.code || stdout+stderr != c.want {
			t.Errorf("%s: exit %d, %q, want %q", c.args, code, stdout+stderr, c.want)
		}
	}
}

func TestTotalsOfOneOperator(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.claimAndDie(0)
	b.wantSink(exitFailed, []string{`--operator "x": pipeline "spending" has stored no totals of it; there are none of any`}, "totals", "--pipeline", "spending", "--operator", "x")
	for _, operator := range []string{"spent", "count"} {
		b.sqlExec("INSERT INTO lockstep_state SELECT id, '" + operator + "', 0, CAST('7' AS BLOB), CAST('1' AS BLOB) FROM lockstep_lane")
	}
	out := b.wantSink(exitOK, nil, "totals", "--pipeline", "spending", "--operator", "count")
	if want := "OPERATOR  KEY  TOPIC   PARTITION  PART\ncount     7    orders  0          1\n"; out != want {
		t.Errorf("totals of one operator are %q, want %q", out, want)
	}
	out = b.wantSink(exitOK, nil, "totals", "--pipeline", "spending", "--combine", "sum")
	if want := "OPERATOR  KEY  TOTAL\ncount     7    1\nspent     7    1\n"; out != want {
		t.Errorf("totals of both are %q, want %q", out, want)
	}
}

func TestTotalsCheckTheirOptions(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--pipeline p --combine avg", `--combine "avg": give sum, min or max`},
		{"--pipeline p --values xml", `--values "xml": give json, int64 or float64`},
		{"", "--pipeline is missing"},
	} {
		args := append([]string{"totals", "--sink", "sqlite://x.db"}, strings.Fields(c.args)...)
		if code, _, stderr := lockstep(t, args...); code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d, %q; want %q", args, code, stderr, c.says)
		}
	}
}

func part(key, value string, partition int32) framework.StoredState {
	return framework.StoredState{
		TopicPartition: offsetstore.TopicPartition{Topic: "orders", Partition: partition},
		StateEntry:     framework.StateEntry{StateKey: framework.StateKey{Operator: "o", Key: []byte(key)}, Value: []byte(value)},
	}
}

func TestPartsAreCombinedExactly(t *testing.T) {
	totals, err := combine([]framework.StoredState{
		part("a", "9223372036854775807", 0), part("a", "9223372036854775807", 1),
		part("b", "0.1", 0), part("b", "0.2", 1), part("b", "1e-3", 2), part("c", "-7", 3), part("d", "1e-300", 0), part("e", "0", 0), part("f", "100", 0),
	}, combiners["sum"])
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range totals {
		got = append(got, string(s.Key)+"="+string(s.Value))
	}
	if want := "a=18446744073709551614 b=0.301 c=-7 d=1e-300 e=0 f=100"; strings.Join(got, " ") != want {
		t.Errorf("the totals are %s, want %s", got, want)
	}
	for _, bad := range []string{"", `"7"`, "1/2", "0x10", "1_000", "1e999999999", "{}", "NaN"} {
		if _, err := combine([]framework.StoredState{part("a", bad, 0)}, combiners["sum"]); err == nil {
			t.Errorf("%q was taken for a number", bad)
		}
	}
}

func TestValuesOfOtherCodecs(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"int64", must(codec.Int64().Append(nil, -5)), "-5"},
		{"float64", must(codec.Float64().Append(nil, 2.5)), "2.5"},
		{"json", []byte(`{"a":1}`), `{"a":1}`},
	} {
		if got, err := decoders[c.name](c.data); string(got) != c.want || err != nil {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// stateOnly is a sink with some state and positions, and no other power.
type stateOnly struct {
	positionsOnly
	parts []framework.StoredState
}

func (s stateOnly) State(context.Context, string, string) iter.Seq2[framework.StoredState, error] {
	return func(yield func(framework.StoredState, error) bool) {
		for _, p := range s.parts {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func TestTotalsTellOfWindowsAndOfWhatIsPending(t *testing.T) {
	windowed := part("\xff", "1", 0)
	windowed.Window = 60_000
	sink := stateOnly{positionsOnly{{Pipeline: "p", TopicPartition: windowed.TopicPartition, Pending: true}}, []framework.StoredState{windowed}}
	var out, errs strings.Builder
	v := &view{sink: sink, scope: scope{pipeline: "p"}}
	tt := &totals{view: v, values: "json", out: &out, errs: &errs}
	if err := tt.show(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "OPERATOR  WINDOW  KEY   TOPIC   PARTITION  PART\no         60000   0xff  orders  0          1\n"; out.String() != want {
		t.Errorf("it shows %q, want %q", out.String(), want)
	}
	if !strings.Contains(errs.String(), "the last save of orders/0 may not be visible yet") {
		t.Errorf("it says %q", errs.String())
	}
}
