package sourcetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// cluster is a log in memory with consumer groups, and the plainest source that
// keeps the treaty. Its bugs are switched on one by one.
type cluster struct {
	bug   string
	given chan struct{} // ends what hangs

	mu      sync.Mutex
	topics  map[string]*topic
	groups  map[string]*group
	changed chan struct{} // closed and replaced when a log changes
}

type topic struct {
	id   offsetstore.TopicID
	logs []*log
}

type log struct {
	records    []framework.Record
	start, end int64
}

func newCluster(bug string) *cluster {
	return &cluster{bug: bug, given: make(chan struct{}), topics: map[string]*topic{}, groups: map[string]*group{}, changed: make(chan struct{})}
}

func (c *cluster) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *cluster) harness() Harness {
	return Harness{
		Open: func(topic, group string) (framework.Source, error) {
			return &member{c: c, topic: topic, g: c.group(group), parts: map[int32]*part{}, ended: make(chan struct{})}, nil
		},
		Create: func(_ context.Context, name string, n int32) error { c.create(name, n); return nil },
		Append: func(_ context.Context, tp offsetstore.TopicPartition, records ...framework.Record) error {
			c.change(func() {
				l := c.topics[tp.Topic].logs[tp.Partition]
				for _, r := range records {
					r.Offset, r.LeaderEpoch = l.end, 0
					l.records = append(l.records, r)
					l.end++
				}
			})
			return nil
		},
		Gap: func(_ context.Context, tp offsetstore.TopicPartition) error {
			c.change(func() { c.topics[tp.Topic].logs[tp.Partition].end += 3 })
			return nil
		},
		Retain: func(_ context.Context, tp offsetstore.TopicPartition, start int64) error {
			c.change(func() {
				l := c.topics[tp.Topic].logs[tp.Partition]
				l.start = start
				l.records = slices.DeleteFunc(slices.Clone(l.records), func(r framework.Record) bool { return r.Offset < start })
			})
			return nil
		},
		Recreate: func(_ context.Context, name string, n int32) error { c.create(name, n); return nil },
		Evict:    func(_ context.Context, name string) error { c.group(name).evict(); return nil },
	}
}

func (c *cluster) create(name string, n int32) {
	c.change(func() {
		t := &topic{id: offsetstore.TopicID{1}}
		if old := c.topics[name]; old != nil {
			t.id[0] = old.id[0] + 1
		}
		for range n {
			t.logs = append(t.logs, &log{})
		}
		c.topics[name] = t
	})
}

func (c *cluster) group(name string) *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups[name] == nil {
		c.groups[name] = &group{c: c, committed: map[offsetstore.TopicPartition]int64{}}
	}
	return c.groups[name]
}

// group spreads the partitions; mu is held for a whole rebalance.
type group struct {
	c       *cluster
	mu      sync.Mutex
	members []*member

	commits   sync.Mutex
	committed map[offsetstore.TopicPartition]int64
}

func (g *group) join(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = append(g.members, m)
	g.rebalance(m.partitions())
}

func (g *group) leave(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
	switch g.c.bug {
	case "leaves without revoking":
		m.kill(m.all())
	case "leaves partitions alive":
		m.lanes.Revoked(context.Background(), asPartitions(m.all()))
	default:
		m.revoke(m.all())
	}
	g.rebalance(m.partitions())
}

func (g *group) evict() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.c.bug == "does not notice an eviction" {
		return
	}
	for _, m := range g.members {
		ps := m.all()
		m.kill(ps)
		m.lanes.Lost(asPartitions(ps))
	}
	if len(g.members) > 0 {
		g.rebalance(g.members[0].partitions())
	}
}

// rebalance gives partition i to member i modulo their number.
func (g *group) rebalance(partitions int32) {
	if len(g.members) == 0 {
		return
	}
	var late sync.WaitGroup
	for i, m := range g.members {
		gone := m.all()
		if g.c.bug != "revokes everything" {
			gone = slices.DeleteFunc(gone, func(p *part) bool { return int(p.tp.Partition)%len(g.members) == i })
		}
		if g.c.bug == "assigns before Revoked has returned" {
			late.Go(func() { m.revoke(gone) })
			continue
		}
		m.revoke(gone)
	}
	for n := range partitions {
		g.members[int(n)%len(g.members)].assign(n)
	}
	late.Wait()
}

// member is a source.
type member struct {
	c     *cluster
	topic string
	g     *group
	lanes framework.Lanes
	pumps sync.WaitGroup
	ended chan struct{}
	once  sync.Once

	mu    sync.Mutex
	ran   bool
	parts map[int32]*part
	dead  map[int32]*part
}

func (m *member) Run(ctx context.Context, lanes framework.Lanes) error {
	if m.ran && m.c.bug != "runs twice" {
		return framework.ErrClosed
	}
	m.ran, m.lanes = true, lanes
	if ctx.Err() != nil {
		if m.c.bug == "returns the context's error" {
			return ctx.Err()
		}
		return nil
	}
	if m.c.bug != "is silent about nothing" {
		lanes.Assigned(nil)
	}
	m.g.join(m)
	<-ctx.Done()
	if m.c.bug == "hangs when it is stopped" {
		<-m.c.given
	}
	m.g.leave(m)
	m.once.Do(func() { close(m.ended) })
	m.pumps.Wait()
	if m.c.bug == "calls after Run" {
		go lanes.Assigned([]framework.Partition{newPart(m, 99)})
	}
	return nil
}

func (m *member) partitions() int32 {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return int32(len(m.c.topics[m.topic].logs))
}

func (m *member) all() (ps []*part) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.parts {
		ps = append(ps, p)
	}
	slices.SortFunc(ps, func(a, b *part) int { return cmp.Compare(a.tp.Partition, b.tp.Partition) })
	return ps
}

func (m *member) assign(n int32) {
	m.mu.Lock()
	p := m.parts[n]
	if p != nil {
		m.mu.Unlock()
		return
	}
	p = newPart(m, n)
	if old := m.dead[n]; old != nil && m.c.bug == "gives out the former assignment" {
		p = old
		p.revive()
	}
	m.parts[n] = p
	gone := p.gone
	m.mu.Unlock()
	m.lanes.Assigned([]framework.Partition{p})
	m.pumps.Go(func() { p.pump(gone) })
}

func (m *member) revoke(ps []*part) {
	if len(ps) == 0 {
		return
	}
	for _, p := range ps {
		p.silence()
	}
	m.lanes.Revoked(context.Background(), asPartitions(ps))
	m.kill(ps)
}

func (m *member) kill(ps []*part) {
	for _, p := range ps {
		p.silence()
		p.mu.Lock()
		p.dead = true
		close(p.gone)
		p.mu.Unlock()
		m.mu.Lock()
		if m.dead == nil {
			m.dead = map[int32]*part{}
		}
		m.dead[p.tp.Partition] = p
		delete(m.parts, p.tp.Partition)
		m.mu.Unlock()
	}
}

func asPartitions(ps []*part) []framework.Partition {
	out := make([]framework.Partition, len(ps))
	for i, p := range ps {
		out[i] = p
	}
	return out
}

// part is one assignment.
type part struct {
	m    *member
	tp   offsetstore.TopicPartition
	wake chan struct{}
	gone chan struct{}

	deliver sync.Mutex // held during calls about this partition

	mu       sync.Mutex
	dead     bool
	started  bool
	paused   bool
	pauses   int
	silenced bool
	next     int64
	id       offsetstore.TopicID
	seenEnd  int64
	buf      []byte
}

func newPart(m *member, n int32) *part {
	return &part{
		m: m, tp: offsetstore.TopicPartition{Topic: m.topic, Partition: n},
		paused: true, seenEnd: -1, wake: make(chan struct{}, 1), gone: make(chan struct{}),
	}
}

func (p *part) bug(name string) bool { return p.m.c.bug == name }

func (p *part) TopicPartition() offsetstore.TopicPartition { return p.tp }

func (p *part) revive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead, p.started, p.silenced, p.gone = false, false, false, make(chan struct{})
}

func (p *part) silence() {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silenced = true
}

func (p *part) Pause() { p.set(true) }

func (p *part) Resume() { p.set(false) }

func (p *part) set(paused bool) {
	if p.bug("ignores Resume within calls") && !paused {
		if !p.deliver.TryLock() {
			return
		}
		defer p.deliver.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.bug("counts pauses") && paused:
		p.pauses++
	case p.bug("counts pauses"):
		p.pauses--
	case p.bug("ignores pauses") && paused && p.started:
		return
	case p.bug("skips a record after a pause") && !paused && p.paused && p.started && p.seenEnd > 0 && p.next < p.seenEnd:
		p.next++
	}
	p.paused = paused || p.pauses > 0
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *part) Start(ctx context.Context, from offsetstore.Position) error {
	again := p.bug("ignores a second start")
	p.mu.Lock()
	if again && p.started {
		p.paused = true
		p.mu.Unlock()
		return nil
	}
	if !p.bug("reads on after a refused start") {
		p.started = false
	}
	p.mu.Unlock()
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		if p.bug("starts when dead") {
			return nil
		}
		return framework.ErrNotOwner
	}
	id, err := p.check(from)
	if err != nil {
		return err
	}
	was := p.next
	p.started, p.paused, p.next, p.id = true, !p.bug("starts without a pause"), from.Offset, id
	switch {
	case p.bug("starts one late"), p.bug("skips a record at a takeover") && from.Offset > 0:
		p.next++
	case p.bug("takes zero for none") && from.Offset == 0:
		p.next = 1
	case p.bug("never goes back") && from.Offset < was:
		p.next = was
	case p.bug("starts where the group says"):
		p.m.g.commits.Lock()
		p.next = max(p.next, p.m.g.committed[p.tp])
		p.m.g.commits.Unlock()
	}
	return nil
}

// check is Start's look at the log.
func (p *part) check(from offsetstore.Position) (offsetstore.TopicID, error) {
	c := p.m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[p.tp.Topic]
	l := t.logs[p.tp.Partition]
	pe := &framework.PositionError{TopicPartition: p.tp, Position: from, LogStart: l.start, LogEnd: l.end, TopicID: t.id}
	switch {
	case !from.TopicID.IsZero() && from.TopicID != t.id && !p.bug("takes any topic"):
		pe.Err = framework.ErrTopicRecreated
	case from.Offset < l.start && !p.bug("moves to the log's start"):
		pe.Err = framework.ErrBelowLogStart
	case from.Offset > l.end && !p.bug("waits for the log to come"):
		pe.Err = framework.ErrAboveLogEnd
	case from.LeaderEpoch > 0 && !p.bug("takes any epoch"):
		pe.Err = framework.ErrAboveLogEnd
	default:
		return t.id, nil
	}
	if p.bug("refuses without saying the position") {
		return t.id, pe.Err
	}
	return t.id, pe
}

func (p *part) Resolve(_ context.Context, rules offsetstore.StartRules) (framework.TopicStart, error) {
	p.mu.Lock()
	dead := p.dead
	p.mu.Unlock()
	if dead {
		return framework.TopicStart{}, framework.ErrNotOwner
	}
	c := p.m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[p.tp.Topic]
	start := framework.TopicStart{ClusterID: "memory", TopicID: t.id, Starts: map[int32]int64{}}
	for n, l := range t.logs {
		tp := offsetstore.TopicPartition{Topic: p.tp.Topic, Partition: int32(n)}
		if tp != p.tp && p.bug("resolves its own partition only") {
			continue
		}
		at, err := l.resolve(tp, rules.For(tp))
		if err != nil && !p.bug("resolves any offset") {
			return start, err
		}
		if p.bug("resolves to the end") {
			at = l.end
		}
		start.Starts[int32(n)] = at
	}
	return start, nil
}

func (l *log) resolve(tp offsetstore.TopicPartition, rule offsetstore.StartRule) (int64, error) {
	switch rule.Kind() {
	case offsetstore.StartLatest:
		return l.end, nil
	case offsetstore.StartExact:
		if rule.Offset() > l.end {
			return rule.Offset(), &framework.PositionError{TopicPartition: tp, Position: offsetstore.At(rule.Offset()), LogEnd: l.end, Err: framework.ErrAboveLogEnd}
		}
		return rule.Offset(), nil
	case offsetstore.StartTimestamp:
		for _, r := range l.records {
			if !r.Timestamp.Before(rule.Time()) {
				return r.Offset, nil
			}
		}
		return l.end, nil
	default:
		return l.start, nil
	}
}

func (p *part) Confirm(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return framework.ErrNotOwner
	}
	if p.bug("cannot confirm") {
		return errors.New("broken")
	}
	return nil
}

func (p *part) Mirror(pos offsetstore.Position) {
	p.m.g.commits.Lock()
	defer p.m.g.commits.Unlock()
	p.m.g.committed[p.tp] = pos.Offset
}

// pump delivers until the partition is dead.
func (p *part) pump(gone <-chan struct{}) {
	for {
		p.m.c.mu.Lock()
		changed := p.m.c.changed
		p.m.c.mu.Unlock()
		if p.hand() {
			continue
		}
		select {
		case <-changed:
		case <-p.wake:
		case <-gone:
			return
		case <-p.m.ended:
			return
		}
	}
}

// hand makes one call to the lanes, if there is something to say.
func (p *part) hand() bool {
	p.deliver.Lock()
	defer p.deliver.Unlock()
	p.mu.Lock()
	ready := p.started && !p.paused
	if p.bug("delivers before the start") {
		ready = ready || !p.started && p.next == 0
	}
	if p.dead || p.silenced || !ready {
		p.mu.Unlock()
		return false
	}
	records, end, err := p.take()
	p.mu.Unlock()
	if err != nil {
		p.m.lanes.Failed(p, err)
		return true
	}
	if len(records) == 0 {
		return false
	}
	p.m.lanes.Records(p, records, end)
	return true
}

// take returns the next records, or why there are none.
func (p *part) take() ([]framework.Record, int64, error) {
	c := p.m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[p.tp.Topic]
	l := t.logs[p.tp.Partition]
	pe := &framework.PositionError{TopicPartition: p.tp, Position: offsetstore.At(p.next), LogStart: l.start, LogEnd: l.end, TopicID: t.id}
	switch {
	case t.id != p.id && p.started && !p.bug("reads any topic"):
		pe.Err = framework.ErrTopicRecreated
	case p.next < l.start && !p.bug("moves to the log's start"):
		pe.Err = framework.ErrBelowLogStart
	}
	if pe.Err != nil {
		p.started = p.bug("fails again and again")
		return nil, 0, pe
	}
	if p.seenEnd < 0 {
		p.seenEnd = l.end
	}
	var out []framework.Record
	for _, r := range l.records {
		if r.Offset < p.next || len(out) == 20 {
			continue
		}
		if p.bug("stalls at gaps") && r.Offset > p.next || p.bug("does not read what is written later") && r.Offset >= p.seenEnd {
			break
		}
		p.next = r.Offset + 1
		out = append(out, p.copyOf(r))
	}
	end := l.end
	switch {
	case p.bug("delivers in reverse"):
		slices.Reverse(out)
	case p.bug("repeats records") && len(out) > 1:
		p.next--
	case p.bug("gives a wrong log end"):
		end = 0
	}
	return out, end, nil
}

func (p *part) copyOf(r framework.Record) framework.Record {
	switch {
	case p.bug("cuts values"):
		r.Value = r.Value[:min(len(r.Value), 1000)]
	case p.bug("takes empty for nil") && r.Key == nil:
		r.Key = []byte{}
	case p.bug("drops repeated headers"):
		r.Headers = slices.CompactFunc(slices.Clone(r.Headers), func(framework.Header, framework.Header) bool { return true })
	case p.bug("reuses memory"):
		p.buf = append(p.buf[:0], r.Value...)
		r.Value = p.buf
	default:
		r.Value = bytes.Clone(r.Value)
	}
	return r
}

func (p *part) String() string { return fmt.Sprint(p.tp) }
