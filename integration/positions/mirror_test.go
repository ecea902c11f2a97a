package positions

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// What the group has committed before a restart at position 4 of 6.
var groupOffsets = []struct {
	name string
	edit func(b *bed)
}{
	{"ahead", func(b *bed) { b.setGroupOffset("p", in0, 6) }},
	{"behind", func(b *bed) { b.setGroupOffset("p", in0, 1) }},
	{"beyond the log", func(b *bed) { b.setGroupOffset("p", in0, 99) }},
	{"missing", func(b *bed) { b.forgetGroupOffset("p", in0) }},
}

var startRules = []struct {
	name string
	rule offsetstore.StartRule
}{
	{"earliest", offsetstore.Earliest()},
	{"latest", offsetstore.Latest()},
}

// restarts bring a pipeline that stands at 4 to start again, after edit.
var restarts = []struct {
	name    string
	restart func(b *bed, first *process, p program, edit func())
}{
	{"fresh process", func(b *bed, first *process, p program, edit func()) {
		first.stop()
		edit()
		b.start(p)
	}},
	{"same process", func(b *bed, first *process, p program, edit func()) {
		first.stop()
		edit()
		p.opened = first.sink
		b.start(p)
	}},
	{"partition lost and assigned again", func(b *bed, first *process, _ program, edit func()) {
		away := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Group: "p", Err: kerr.CoordinatorLoadInProgress, Count: -1})
		b.evict("p")
		b.await("the process knows of its loss", func() bool { return len(first.runner.Lanes()) == 0 })
		edit()
		away.Remove()
	}},
	{"killed", func(b *bed, first *process, p program, edit func()) {
		first.kill()
		b.awaitNoMembers("p")
		edit()
		b.start(p)
	}},
}

func TestTheSinksPositionWinsOverTheGroups(t *testing.T) {
	for _, g := range groupOffsets {
		for _, s := range startRules {
			for _, r := range restarts {
				t.Run(g.name+"/"+s.name+"/"+r.name, func(t *testing.T) {
					onBed(t, map[string]int32{"in": 1}, func(b *bed) {
						p := pairs(s.rule)
						first := b.start(p)
						b.awaitSaved("p", in0, 0)
						b.produce(in0, ones("k", 4)...)
						b.awaitSaved("p", in0, 4)
						r.restart(b, first, p, func() {
							g.edit(b)
							b.produce(in0, ones("k", 2)...)
						})
						b.requireGoesOn()
					})
				})
			}
		}
	}
}

// A crash after a save and before its mirror leaves the group behind by itself.
func TestACrashBeforeTheMirrorRepeatsNothing(t *testing.T) {
	edits := append(groupOffsets[:len(groupOffsets):len(groupOffsets)], struct {
		name string
		edit func(b *bed)
	}{"as it was left", func(*bed) {}})
	for _, g := range edits {
		for _, s := range startRules {
			t.Run(g.name+"/"+s.name, func(t *testing.T) {
				onBed(t, map[string]int32{"in": 1}, func(b *bed) {
					p := pairs(s.rule)
					var first *process
					killer := p
					killer.config.Hooks.Reached = func(e framework.PointEvent) {
						if e.Point == framework.PointAfterSave && b.position("p", in0) == 4 {
							first.kill()
						}
					}
					first = b.start(killer)
					b.awaitSaved("p", in0, 0)
					b.produce(in0, ones("k", 2)...)
					b.awaitSaved("p", in0, 2)
					b.await("the first mirror", func() bool { return b.groupOffset("p", in0) == 2 })
					b.produceMany(in0, ones("k", 2))
					b.await("the crash", first.ended)
					b.awaitNoMembers("p")
					if got := b.groupOffset("p", in0); got != 2 || b.position("p", in0) != 4 {
						t.Fatalf("the crash left the group at %d and the sink at %d, want 2 and 4", got, b.position("p", in0))
					}
					g.edit(b)
					b.produce(in0, ones("k", 2)...)
					b.start(p)
					b.requireGoesOn()
				})
			})
		}
	}
}

// Without new records there is no save that would set the group right.
func TestTheGroupFollowsAStartThatFindsNothingNew(t *testing.T) {
	for _, g := range groupOffsets {
		t.Run(g.name, func(t *testing.T) {
			onBed(t, map[string]int32{"in": 1}, func(b *bed) {
				p := pairs(offsetstore.Latest())
				first := b.start(p)
				b.awaitSaved("p", in0, 0)
				b.produce(in0, ones("k", 6)...)
				b.awaitSaved("p", in0, 6)
				first.stop()
				g.edit(b)
				b.start(p)
				b.requireGoesOn()
			})
		})
	}
}

// pairs is a program whose batches hold two records.
func pairs(rule offsetstore.StartRule) program {
	return program{name: "p", topics: []string{"in"}, config: framework.Config{
		BatchRecords: 2,
		BatchDelay:   10 * time.Millisecond,
		Start:        offsetstore.StartRules{Default: rule},
	}}
}

// requireGoesOn says that six records have been processed, none was read twice, and
// the group follows.
func (b *bed) requireGoesOn() {
	b.t.Helper()
	b.awaitSaved("p", in0, 6)
	b.await("the group follows", func() bool { return b.groupOffset("p", in0) == 6 })
	b.running[len(b.running)-1].stop()
	b.expectAll("p", nil, "in")
}
