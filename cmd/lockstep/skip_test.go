package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

func skipArgs(more string) []string {
	return append([]string{"skip", "--pipeline", "spending"}, strings.Fields(more)...)
}

func TestSkipPassesOverTheRecordThatStopsAPipeline(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.produce(0, 1, -5, 3)
	b.produce(1)
	b.produce(2, 7)
	stop := b.start()
	b.awaitSaved(0, 1) // it stops behind the record before, and drains the others
	var failure *framework.RecordError
	if err := stop(); !errors.As(err, &failure) || failure.Offset != 1 {
		t.Fatalf("the pipeline ended with %v", err)
	}
	for _, c := range []struct{ args, says string }{
		{"--partition 0 --offset 0", "orders/0@0 is passed already: the position is 1"},
		{"--partition 0 --offset 2", "orders/0@2 is not the next record of the pipeline, that is the one at 1"},
		{"--partition 1 --offset 0", "orders/1: there is no record from the position 0 on; the log holds 0..0"},
	} {
		b.want(exitRefused, []string{c.says}, skipArgs(c.args+" --apply")...)
	}
	b.want(exitOK, []string{
		"record  orders/0@1\ntime    2026-05-01T12:00:01Z\nkey     ann\nvalue   {\"customer\":\"ann\",\"cents\":-5}\n",
		"It is passed over: it is never processed", dryRunNote,
	}, skipArgs("--partition 0 --offset 1")...)
	out := b.want(exitOK, nil, skipArgs("--partition 0 --offset 1 --output json")...)
	var l moveLine
	if err := json.Unmarshal([]byte(out), &struct {
		*moveLine
		Record any `json:"record"`
	}{moveLine: &l}); err != nil || l.To != 2 || l.Result != "dry run" || !strings.Contains(out, `"key":{"text":"ann"}`) {
		t.Errorf("JSON is %s (%v)", out, err)
	}
	b.want(exitOK, []string{"orders/0: moved from 1 to 2\n"}, skipArgs("--partition 0 --offset 1 --apply")...)
	b.want(exitRefused, []string{"orders/0@1 is passed already: the position is 2"}, skipArgs("--partition 0 --offset 1 --apply")...)
	b.process(3, 0, 1)
	if got := b.spent(); got != 11 {
		t.Errorf("%d cents are spent, want 11: all but the one that was passed over", got)
	}
}

// awaitSaved waits until one partition is at an offset.
func (b *bed) awaitSaved(partition int, offset int64) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if got := b.positions(); len(got) > partition && got[partition] == offset {
			return
		}
	}
	b.t.Fatalf("positions are %v, want %d in partition %d", b.positions(), offset, partition)
}

func TestSkipChecksItsOptions(t *testing.T) {
	for _, args := range []string{"--offset 1", "--partition 0", "--partition 0,1 --offset 1", "--partition 0 --offset -1"} {
		code, _, stderr := lockstep(t, skipArgs(args+" --sink sqlite://x.db --brokers h:1")...)
		if code != exitUsage || !strings.Contains(stderr, "give one --partition and the --offset") {
			t.Errorf("%s: exit %d, %q", args, code, stderr)
		}
	}
}

func TestSkipOfAPositionThatCannotBeReadSaysWhy(t *testing.T) {
	t.Parallel()
	b := processed(t)
	b.sqlExec("UPDATE lockstep_lane SET next_offset = 9 WHERE partition = 0")
	b.want(exitRefused, []string{"the position 9 cannot be read from (above log end); see `lockstep reset --help`"}, skipArgs("--partition 0 --offset 9")...)
}
