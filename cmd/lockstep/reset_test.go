package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func resetArgs(more ...string) []string {
	return append([]string{"reset", "--pipeline", "spending"}, more...)
}

// three partitions with 3, 2 and 1 records, all of them processed.
func processed(t *testing.T) *bed {
	t.Helper()
	b := newBed(t)
	b.produce(0, 1, 2, 3)
	b.produce(1, 10, 20)
	b.produce(2, 100)
	b.process(3, 2, 1)
	return b
}

func TestResetShowsAndChangesNothingWithoutApply(t *testing.T) {
	t.Parallel()
	b := processed(t)
	out := b.want(exitOK, []string{
		"6 offsets are read again: their rows are written again, and none is removed.",
		"Totals of reductions stay, so that records which are read again count twice in them; --drop-state",
		dryRunNote,
	}, resetArgs("--to", "earliest")...)
	if line := strings.Split(out, "\n")[1]; strings.Join(strings.Fields(line), " ") != "spending orders 0 0..3 3 0 -3" {
		t.Errorf("the first line is %q", line)
	}
	b.want(exitOK, []string{`"from":3,"to":0`, `"log_start":0,"log_end":3`, `"result":"dry run"`}, resetArgs("--to", "earliest", "--output", "json")...)
	b.await(3, 2, 1)
}

func TestResetBackCountsTwiceUnlessStateIsDropped(t *testing.T) {
	t.Parallel()
	b := processed(t)
	b.want(exitOK, []string{"orders/0: moved from 3 to 0\n", "orders/2: moved from 1 to 0\n"}, resetArgs("--to", "earliest", "--apply")...)
	b.await(0, 0, 0)
	b.want(exitOK, []string{"orders/0: stays at 0"}, resetArgs("--to", "earliest", "--apply")...)
	b.process(3, 2, 1)
	if got := b.spent(); got != 2*136 {
		t.Errorf("after the records were read twice %d cents are spent, as it was said that they would be twice 136", got)
	}
	b.want(exitOK, []string{"Totals of reductions in these partitions begin at nothing", "orders/1: moved from 2 to 0, totals dropped"},
		resetArgs("--to", "earliest", "--apply", "--drop-state")...)
	b.process(3, 2, 1)
	if got := b.spent(); got != 136 {
		t.Errorf("with totals that began at nothing %d cents are spent, want 136", got)
	}
	b.want(exitOK, []string{"What they hold of the records before that is lost."}, resetArgs("--to", "latest", "--drop-state")...)
}

func TestResetPutsPositionsWhereItIsTold(t *testing.T) {
	t.Parallel()
	b := processed(t)
	for _, c := range []struct {
		args string
		says string
		want []int64
	}{
		{"--to offset:1 --partition 0", "orders/0: moved from 3 to 1", []int64{1, 2, 1}},
		{"--to latest --partition 0", "2 offsets are passed over: their records are never processed. Rows stay as they are.\nTotals of reductions stay as they are.", []int64{3, 2, 1}},
		{"--to 2026-05-01T12:00:01Z --partition 0,1", "orders/1: moved from 2 to 1", []int64{1, 1, 1}},
		{"--to 2026-05-01T14:00:01+02:00", "The time is past the last record: that is the end of the log.", []int64{1, 1, 1}},
		{"--to 2030-01-01T00:00:00Z", "The time is past the last record", []int64{3, 2, 1}},
		{"--to=-2 --topic orders", "orders/2: moved from 1 to 0", []int64{0, 0, 0}},
		{"--to=-1", "orders/2: moved from 0 to 1", []int64{3, 2, 1}},
	} {
		b.want(exitOK, []string{c.says}, resetArgs(append(strings.Fields(c.args), "--apply")...)...)
		b.await(c.want...)
	}
}

func TestResetTellsWhereThePipelineHasNotBegun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.claimAndDie(1)
	b.want(exitOK, []string{"Without a position, and not moved: orders/0, orders/2."}, resetArgs("--to", "earliest", "--fence")...)
	if out := b.want(exitOK, nil, resetArgs("--to", "earliest", "--fence", "--partition", "1")...); strings.Contains(out, "not moved") {
		t.Errorf("it tells of partitions that nobody has asked for:\n%s", out)
	}
}

func TestResetNamesWhatExists(t *testing.T) {
	t.Parallel()
	b := processed(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--pipeline other --to earliest", exitFailed, `--pipeline "other": it has no positions; there are some of "spending"`},
		{"--pipeline spending --topic order --to earliest", exitFailed, `--topic "order": there are no positions in it, but in "orders"`},
		{"--pipeline spending --partition 7 --to earliest", exitFailed, "--partition 7: there is no position in it, but in orders/0, orders/1, orders/2"},
		{"--pipeline spending --partition 2 --to offset:2", exitRefused, "offset 2 is not in the log of orders/2, which holds 0..1"},
		{"--pipeline spending --partition 2 --to offset:2 --apply", exitRefused, "offset 2 is not in the log of orders/2, which holds 0..1"},
	} {
		b.want(c.code, []string{c.says}, append([]string{"reset"}, strings.Fields(c.args)...)...)
	}
	b.await(3, 2, 1)
}

func TestResetChecksItsOptionsBeforeItConnects(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--pipeline p", "--to is missing"},
		{"--pipeline p --to 42", "--to 42: is it an offset or a time? Give offset:42"},
		{"--pipeline p --to yesterday", `--to "yesterday": give "earliest"`},
		{"--pipeline p --to offset:-1", "offset:-1"},
		{"--pipeline p --to 1960-01-01T00:00:00Z", "before 1970"},
		{"--pipeline p --to offset:3", "an offset is for one partition; give --partition N"},
		{"--pipeline p --to offset:3 --partition 0,1", "an offset is for one partition; give --partition N"},
		{"--to earliest", "--pipeline is missing"},
		{"--pipeline p --to earliest --partition=-1", "--partition -1: give 0 or more"},
		{"--pipeline p --to earliest --partition 1,1", "--partition 1 is given twice"},
		{"--pipeline p --to earliest --topic a/b", `--topic "a/b"`},
		{"--pipeline p --to earliest", "--brokers is missing"},
		{"--pipeline p --to earliest --brokers h", "port missing"},
		{"--pipeline p --to earliest --brokers h:1 --tls-ca missing.pem", `--tls-ca "missing.pem"`},
		{"--pipeline p --to earliest --brokers h:1 --sasl MD5", `--sasl "MD5": give PLAIN`},
		{"--pipeline p --to earliest --brokers h:1 --sasl PLAIN", "give --user, and the password in LOCKSTEP_KAFKA_PASSWORD"},
		{"--pipeline p --to earliest --brokers h:1 --user u", "--user is given without --sasl"},
		{"--pipeline p --to earliest --user u", "--user is given without --brokers"},
		{"--pipeline p --to earliest --output xml", `--output "xml"`},
	} {
		args := append([]string{"reset", "--sink", "cassandra://127.0.0.1:1/ks"}, strings.Fields(c.args)...)
		if c.says == "--user is given without --brokers" {
			args[0] = "positions"
			args = append(args[:3], "--user", "u")
		}
		code, out, stderr := lockstep(t, args...)
		if code != exitUsage || out != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d, %q, %q; want %d and %q", args, code, out, stderr, exitUsage, c.says)
		}
	}
}

func TestResetRefusesALivingOwner(t *testing.T) {
	t.Parallel()
	b := processed(t)
	stop := b.start()
	b.await(3, 2, 1)
	b.awaitOwners(3)
	b.want(exitOK, []string{"Owned by worker-1, and consumer group \"spending\" has 1 member: --apply will refuse this"}, resetArgs("--to", "earliest")...)
	b.want(exitRefused, []string{"owned by worker-1, and consumer group \"spending\" has 1 member; stop that process, or give --fence"},
		resetArgs("--to", "earliest", "--apply")...)
	b.await(3, 2, 1)
	b.want(exitOK, []string{"it is fenced", "orders/0: moved from 3 to 1"}, resetArgs("--to", "offset:1", "--partition", "0", "--apply", "--fence")...)
	b.produce(0, 4) // so that it has something to save, and notices
	b.await(4, 2, 1)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// 1, 2 and 3 were saved, then 2, 3 and 4.
	if got := b.spent(); got != 6+9+130 {
		t.Errorf("%d cents are spent, want 145: the process goes on from the new position, with the totals as they are", got)
	}
}

func (b *bed) awaitOwners(n int64) {
	b.t.Helper()
	for b.number("SELECT COUNT(*) FROM lockstep_lane WHERE owner <> ''") != n {
		if b.t.Context().Err() != nil {
			b.t.Fatal("the partitions are not claimed")
		}
	}
}

func TestResetPassesAnOwnerThatIsGone(t *testing.T) {
	t.Parallel()
	b := processed(t)
	b.claimAndDie(1)
	b.want(exitOK, []string{"Owned by worker-1, which is gone: consumer group \"spending\" has no members.", "orders/1: moved from 2 to 0"}, resetArgs("--to", "earliest", "--apply")...)
	b.claimAndDie(1)
	b.want(exitRefused, []string{`Kafka knows no consumer group "another" that would tell whether it lives; is it another --group?`},
		resetArgs("--to", "latest", "--group", "another", "--apply")...)
	b.await(0, 0, 0)
}

func TestResetMovesIntoATopicThatWasMadeAgain(t *testing.T) {
	t.Parallel()
	b := processed(t)
	admin := kadm.NewClient(b.client())
	if _, err := admin.DeleteTopic(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	b.want(exitFailed, []string{`topic "orders" is not in Kafka, which has no topics`}, resetArgs("--to", "earliest")...)
	if _, err := admin.CreateTopic(t.Context(), 2, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	b.produce(0, 1000)
	b.want(exitRefused, []string{"orders/2 is not in Kafka any more: the topic has 2 partitions"}, resetArgs("--to", "earliest", "--apply")...)
	b.want(exitOK, []string{"topic recreated"}, "positions")
	b.want(exitOK, []string{"The topic was deleted and created again", "other topic", "orders/1: moved from 2 to 0"},
		resetArgs("--to", "earliest", "--partition", "0,1", "--apply", "--drop-state")...)
	b.process(1, 0, 1)
}

// What the plan was made of may have changed by the time it is carried out.
func TestResetComparesBeforeItSets(t *testing.T) {
	t.Parallel()
	b := processed(t)
	sink := b.sink()
	defer sink.Close(context.Background())
	stored, err := sink.Positions(t.Context(), "spending")
	if err != nil {
		t.Fatal(err)
	}
	old := stored[1].Position
	stored[1].Position.Offset = 1 // as it was before somebody saved
	var out bytes.Buffer
	c := &change{apply: true, resetter: sink, out: &out}
	var moves []move
	for _, p := range stored {
		moves = append(moves, move{stored: p, to: offsetstore.Position{Offset: 0, LeaderEpoch: -1, TopicID: old.TopicID}})
	}
	err = c.perform(t.Context(), moves, false)
	var f *failure
	if !errors.As(err, &f) || f.code != exitRefused || !errors.Is(err, framework.ErrRefused) {
		t.Fatalf("perform returned %v", err)
	}
	for _, text := range []string{"orders/1: it was not moved, since its position is not 1 any more", "left as they are: orders/2"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v: it does not say %q", err, text)
		}
	}
	if !strings.Contains(out.String(), "orders/0: moved from 3 to 0") {
		t.Errorf("it does not say what was done: %q", out.String())
	}
	b.await(0, 2, 1)
}

// cancelling is a sink that is interrupted after its first reset.
type cancelling struct {
	framework.Resetter
	cancel context.CancelFunc
}

func (c cancelling) Reset(ctx context.Context, r framework.Reset) error {
	defer c.cancel()
	return c.Resetter.Reset(ctx, r)
}

func TestAnInterruptedResetLeavesEachPartitionWhole(t *testing.T) {
	t.Parallel()
	b := processed(t)
	sink := b.sink()
	defer sink.Close(context.Background())
	stored, err := sink.Positions(t.Context(), "spending")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	c := &change{apply: true, resetter: cancelling{sink, cancel}, out: &out, json: true}
	var moves []move
	for _, p := range stored {
		to := p.Position
		to.Offset, to.LeaderEpoch = 0, -1
		moves = append(moves, move{stored: p, to: to})
	}
	err = c.perform(ctx, moves, true)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "orders/1: left as it is: context canceled; left as they are: orders/2") {
		t.Errorf("perform returned %v", err)
	}
	var l moveLine
	if err := json.Unmarshal(out.Bytes(), &l); err != nil || l.Result != "moved" || l.Partition != 0 || !l.DropState {
		t.Errorf("it says %q (%v)", out.String(), err)
	}
	b.await(0, 2, 1)
}

// lost is a sink whose answer is lost.
type lost struct{}

func (lost) Reset(context.Context, framework.Reset) error { return framework.ErrUnknown }

func TestALostAnswerIsTold(t *testing.T) {
	c := &change{apply: true, resetter: lost{}, out: &bytes.Buffer{}}
	err := c.perform(t.Context(), []move{{to: offsetstore.At(1)}}, false)
	if err == nil || !strings.Contains(err.Error(), "whether it was moved is not known; `lockstep positions` tells") {
		t.Errorf("perform returned %v", err)
	}
}
