package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// The topics: one whose records all stay, and one that is compacted.
const (
	plain     = "plain"
	compacted = "compacted"
)

var topics = []string{plain, compacted}

// The brokers, and their ports in the virtual network.
const (
	brokers   = 3
	firstPort = 9092
)

// world is one simulated history.
type world struct {
	t       *testing.T
	seed    uint64
	log     *slog.Logger
	net     kfake.VirtualNetwork
	cluster *kfake.Cluster
	client  *kgo.Client // produces and administers
	admin   *kadm.Client
	db      *database
	wg      sync.WaitGroup

	producing sync.WaitGroup // transactions under way

	static    bool       // the processes are static members of the group
	slotsMu   sync.Mutex // guards slots and processes
	slots     []*slot
	processes []*process // all that were ever started
	breakage  breakage

	carriedOut []string // the faults, with their times

	netMu sync.Mutex
	lost  int32                 // the broker that is away, or -1
	conns map[string][]net.Conn // by port, dead ones too

	fetchesAt time.Time // for delayFetches, which the in-process Kafka calls one at a time
	fetches   int       // then

	mu         sync.Mutex
	partitions map[string]int32
	nextID     int // of records
	faults     []string
	savesInTwo int // by a database that is broken
}

// errorf notes that something is wrong. Whether that fails the test depends on
// whether it was broken on purpose.
func (w *world) errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.faults) > 0
}

// slot is where a supervisor keeps one process running.
type slot struct {
	current *process
	down    bool // on purpose
}

func newWorld(t *testing.T, seed uint64, b breakage) *world {
	w := &world{t: t, seed: seed, log: slog.New(slog.DiscardHandler), db: newDatabase(), breakage: b, lost: -1, conns: map[string][]net.Conn{},
		partitions: map[string]int32{plain: 3, compacted: 2}}
	if *oneSeed >= 0 {
		w.log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: logLevel}))
	}
	var err error
	w.cluster, err = kfake.NewCluster(
		kfake.Ports(firstPort, firstPort+1, firstPort+2),
		kfake.ListenFn(w.net.Listen),
		kfake.SeedTopics(w.partitions[plain], plain),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
	)
	if err != nil {
		t.Fatal(err)
	}
	w.cluster.ControlKey(int16(kmsg.Fetch), w.delayFetches)
	// Small segments, as only closed ones are compacted.
	if err := w.cluster.CreateTopic(compacted, w.partitions[compacted], map[string]string{
		"cleanup.policy": "compact", "segment.bytes": "300", "min.cleanable.dirty.ratio": "0.01"}); err != nil {
		t.Fatal(err)
	}
	w.client = w.newClient()
	w.pinLogStart()
	w.admin = kadm.NewClient(w.client)
	return w
}

// delayFetches lets time pass where many fetches are answered in a moment. The client
// repeats some at once until it has new metadata, with no end if that takes no time:
// virtual time stands still until everybody waits. (Fetches have connections of their
// own; to delay what others wait for with a lock would stop the time too.)
func (w *world) delayFetches(kmsg.Request) (kmsg.Response, error, bool) {
	const many = 100
	w.cluster.KeepControl()
	if now := time.Now(); !now.Equal(w.fetchesAt) {
		w.fetchesAt, w.fetches = now, 0
	}
	if w.fetches++; w.fetches > many {
		w.cluster.SleepControl(func() { time.Sleep(time.Millisecond) })
	}
	return nil, nil, false
}

// pinLogStart puts records into the compacted topic that no other replaces. The
// in-process Kafka would move the log's start over what compaction removes there,
// which a real one does not.
func (w *world) pinLogStart() {
	for p := range w.partitions[compacted] {
		w.produceOne(&kgo.Record{Topic: compacted, Partition: p, Key: []byte("first"), Value: []byte("0 first 1")})
	}
}

func (w *world) newClient(opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.Dialer(w.dial),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.DisableClientMetrics(),
	}, opts...)...)
	if err != nil {
		panic(err) // our own options
	}
	return cl
}

// close ends everything that still runs.
func (w *world) close() {
	for _, p := range w.processes {
		p.kill()
	}
	w.client.Close()
	w.cluster.Close()
	w.wg.Wait()
	time.Sleep(time.Second) // for delayFetches
}

// run lives one history: an attack, then peace, then the reckoning.
func (w *world) run() {
	defer w.close()
	rng := rand.New(rand.NewPCG(w.seed, 0))
	w.static = rng.IntN(3) == 0
	attack := newSchedule(rng)
	for i := range attack.processes {
		w.slots = append(w.slots, &slot{current: w.start(i)})
	}
	produce := w.inBackground(w.produceUntil)
	supervise := w.inBackground(w.supervise)
	evict := w.inBackground(w.evictTheDead)
	attack.carryOut(w)
	w.heal()
	produce.end()
	w.producing.Wait()
	ends := w.produceLast()
	w.await(ends)
	supervise.end()
	evict.end()
	if group := w.cluster.GroupInfo(pipelineName); group != nil {
		w.db.totals.add("rebalances", int(group.Epoch))
	}
	w.shutDown()
	if !w.failed() {
		w.check(ends)
	}
}

// background is work that goes on until it is ended.
type background struct{ stop, done chan struct{} }

func (w *world) inBackground(work func(stop chan struct{})) background {
	b := background{make(chan struct{}), make(chan struct{})}
	w.wg.Go(func() {
		defer close(b.done)
		work(b.stop)
	})
	return b
}

func (b background) end() {
	close(b.stop)
	<-b.done
}

// produceUntil produces a few records now and then.
func (w *world) produceUntil(stop chan struct{}) {
	rng := rand.New(rand.NewPCG(w.seed, 1))
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rng.IntN(1200)) * time.Millisecond):
		}
		topic, partition := w.anyPartition(rng)
		w.produce(w.client, w.newRecords(rng, topic, partition, 1+rng.IntN(12)))
	}
}

func (w *world) anyPartition(rng *rand.Rand) (string, int32) {
	topic := topics[rng.IntN(len(topics))]
	w.mu.Lock()
	defer w.mu.Unlock()
	return topic, rng.Int32N(w.partitions[topic])
}

// newRecords makes records of which one in twenty is poison.
func (w *world) newRecords(rng *rand.Rand, topic string, partition int32, n int) []*kgo.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	records := make([]*kgo.Record, n)
	for i := range records {
		w.nextID++
		key := fmt.Sprint("k", rng.IntN(6))
		value := fmt.Sprint(w.nextID, " ", key, " ", rng.IntN(100))
		if rng.IntN(20) == 0 {
			value = fmt.Sprint("poison ", w.nextID)
		}
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: []byte(value)}
	}
	return records
}

// produce ignores errors: in the end the log itself says what it holds.
func (w *world) produce(cl *kgo.Client, records []*kgo.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = cl.ProduceSync(ctx, records...)
}

// transaction leaves a gap in the log: a marker, and the records too if it is
// aborted.
func (w *world) transaction(rng *rand.Rand, commit bool) {
	cl := w.newClient(kgo.TransactionalID(fmt.Sprint("tx-", rng.Uint64())), kgo.TransactionTimeout(10*time.Second))
	defer cl.Close()
	if cl.BeginTransaction() != nil {
		return
	}
	topic, partition := w.anyPartition(rng)
	w.produce(cl, w.newRecords(rng, topic, partition, 1+rng.IntN(4)))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

func (w *world) addPartition() {
	// The lock is not held over the request: time stands still while one waits
	// for a lock.
	if added, err := w.admin.CreatePartitions(context.Background(), 1, plain); err != nil || added.Error() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.partitions[plain]++
}

// dial connects to a broker that is there.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := w.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	w.netMu.Lock()
	defer w.netMu.Unlock()
	if w.lost >= 0 && port == portOf(w.lost) {
		_ = c.Close()
		return nil, errors.New("connection refused")
	}
	w.conns[port] = append(w.conns[port], c)
	return c, nil
}

func portOf(node int32) string { return strconv.Itoa(firstPort + int(node)) }

// removeBroker takes one broker away, unless one is away already. The in-process
// Kafka would go on to answer where one is connected to it, and never be the leader
// of anything again.
func (w *world) removeBroker(node int32, seed uint64) {
	w.netMu.Lock()
	already := w.lost >= 0
	if !already {
		w.lost = node
		for _, c := range w.conns[portOf(node)] {
			_ = c.Close()
		}
		delete(w.conns, portOf(node))
	}
	w.netMu.Unlock()
	if already {
		return
	}
	if err := w.cluster.RemoveNode(node); err != nil {
		w.errorf("a broker could not be taken away: %v", err)
	}
	w.electLeaders(seed) // the in-process Kafka has drawn them by itself
}

// addBroker brings back the broker that is away, if one is.
func (w *world) addBroker(seed uint64) {
	if w.lost < 0 {
		return
	}
	if _, _, err := w.cluster.AddNode(w.lost, firstPort+int(w.lost)); err != nil {
		w.errorf("a broker could not come back: %v", err)
	}
	w.netMu.Lock()
	w.lost = -1
	w.netMu.Unlock()
	w.electLeaders(seed)
}

// electLeaders makes some broker, or the same anew, the leader of each partition.
func (w *world) electLeaders(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, topic := range topics {
		for p := range w.cluster.PartitionInfos(topic) {
			w.move(rng, topic, int32(p))
		}
	}
}

func (w *world) move(rng *rand.Rand, topic string, partition int32) {
	node := rng.Int32N(brokers)
	if node == w.lost {
		node = (node + 1) % brokers
	}
	if err := w.cluster.MoveTopicPartition(topic, partition, node); err != nil {
		w.errorf("a partition could not be moved: %v", err)
	}
}

// supervise starts processes again that have ended by themselves.
func (w *world) supervise(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Second):
		}
		for i := range w.slots {
			w.restartIfEnded(i)
		}
	}
}

func (w *world) restartIfEnded(slot int) {
	w.slotsMu.Lock()
	defer w.slotsMu.Unlock()
	if s := w.slots[slot]; !s.down && ended(s.current) && !w.failed() {
		w.endedWith(s.current.err)
		s.current = w.start(slot)
	}
}

func ended(p *process) bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// evictTheDead does for the in-process Kafka what a real one does by its timeouts.
// There a member that dies between joining and syncing stays for ever, and a group
// whose leader was away for long may wait for ever. So members are removed whose
// process is gone, and all of them when a rebalance lasts longer than any timeout.
func (w *world) evictTheDead(stop chan struct{}) {
	const patience = 4 // rounds of ten seconds
	gone, unstable := map[string]int{}, 0
	for {
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Second):
		}
		group := w.cluster.GroupInfo(pipelineName)
		if group == nil {
			continue
		}
		if unstable++; group.State == "Stable" {
			unstable = 0
		}
		for _, m := range group.Members {
			if w.isGone(m.ClientID) {
				gone[m.MemberID]++
			}
			if gone[m.MemberID] >= patience || unstable >= patience {
				w.evict(m.MemberID)
			}
		}
	}
}

func (w *world) isGone(clientID string) bool {
	w.slotsMu.Lock()
	defer w.slotsMu.Unlock()
	for _, p := range w.processes {
		if p.clientID() == clientID {
			return ended(p)
		}
	}
	return false
}

func (w *world) evict(memberID string) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = pipelineName
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = memberID
	req.MemberID, req.Members = memberID, append(req.Members, m)
	if _, err := req.RequestWith(context.Background(), w.client); err != nil {
		w.errorf("a dead member could not be removed: %v", err)
	}
}

func (w *world) endedWith(err error) {
	if err == nil {
		w.errorf("a runner ended without an error although nobody had stopped it")
		return
	}
	w.db.totals.add("runs that ended with an error", 1)
	w.log.Warn("a run has ended", "error", err)
	if !mayEndWith(err) {
		w.errorf("a run ended with what should never happen: %v", err)
	}
}

// heal ends every fault and lets all processes run.
func (w *world) heal() {
	w.slotsMu.Lock()
	defer w.slotsMu.Unlock()
	for i, s := range w.slots {
		s.current.weather.set(0, 0, 0)
		s.current.gate.isolate(false)
		if s.down {
			s.current, s.down = w.start(i), false
		}
	}
}

// produceLast puts one more record in each partition and returns their offsets.
func (w *world) produceLast() map[offsetstore.TopicPartition]int64 {
	w.mu.Lock()
	partitions := w.partitions
	w.mu.Unlock()
	rng := rand.New(rand.NewPCG(w.seed, 2))
	ends := map[offsetstore.TopicPartition]int64{}
	for topic, n := range partitions {
		for p := range n {
			ends[offsetstore.TopicPartition{Topic: topic, Partition: p}] = w.produceOne(w.newRecords(rng, topic, p, 1)[0])
		}
	}
	return ends
}

// produceOne repeats until the record is in the log: the client learns of a new
// partition late.
func (w *world) produceOne(r *kgo.Record) (offset int64) {
	var err error
	for range 100 {
		if err = w.client.ProduceSync(w.t.Context(), r).FirstErr(); err == nil {
			return r.Offset
		}
		w.client.ForceMetadataRefresh()
		time.Sleep(time.Second)
	}
	w.errorf("%s/%d: the last record cannot be produced: %v", r.Topic, r.Partition, err)
	return 0
}

// await waits until every position has passed its end.
func (w *world) await(ends map[offsetstore.TopicPartition]int64) {
	deadline := time.Now().Add(10 * time.Minute)
	for tp, end := range ends {
		for {
			position, ok := w.db.store.Position(pipelineName, tp)
			if ok && position.Offset > end {
				break
			}
			if w.failed() {
				return
			}
			if time.Now().After(deadline) {
				w.errorf("%s: after ten minutes of peace the position is %v (stored: %v), and the last record is %d", tp, position, ok, end)
				return
			}
			time.Sleep(500 * time.Millisecond)
		}
	}
}

// shutDown stops every process in order. A process may still be busy with what
// went wrong before, and say so.
func (w *world) shutDown() {
	w.slotsMu.Lock()
	defer w.slotsMu.Unlock()
	for _, s := range w.slots {
		s.down = true
		s.current.cancel()
	}
	for _, s := range w.slots {
		<-s.current.done
		if err := s.current.err; err != nil {
			w.endedWith(err)
		}
	}
}
