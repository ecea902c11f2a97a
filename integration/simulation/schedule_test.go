package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// schedule is everything that goes wrong in one history, fixed beforehand.
type schedule struct {
	processes int
	faults    []fault
}

// fault is one thing that goes wrong at a moment, and what ends it later.
type fault struct {
	at   time.Duration // since the start
	name string
	do   func(*world)
}

// newSchedule draws an attack of one to two minutes.
func newSchedule(rng *rand.Rand) *schedule {
	s := &schedule{processes: 2 + rng.IntN(2)}
	length := 40 + rng.IntN(50)
	kinds := withLeaders
	if rng.IntN(3) == 0 {
		kinds = withCompaction
	}
	for range 8 + rng.IntN(14) {
		at := time.Duration(rng.IntN(length*1000)) * time.Millisecond
		kinds[rng.IntN(len(kinds))](s, rng, at)
	}
	slices.SortStableFunc(s.faults, func(a, b fault) int { return int(a.at - b.at) })
	return s
}

func (s *schedule) add(at time.Duration, name string, do func(*world)) {
	s.faults = append(s.faults, fault{at, name, do})
}

// carryOut lets every fault happen at its time.
func (s *schedule) carryOut(w *world) {
	start := time.Now()
	for _, f := range s.faults {
		time.Sleep(f.at - time.Since(start))
		w.log.Warn("FAULT", "at", f.at, "what", f.name)
		w.carriedOut = append(w.carriedOut, fmt.Sprint(time.Since(start), " ", f.name))
		f.do(w)
		w.db.totals.add(f.name, 1)
	}
}

type kindList []func(*schedule, *rand.Rand, time.Duration)

// kinds are the faults there are; what is listed twice happens twice as often.
var kinds = kindList{
	kill, kill, pause, pause, stopInOrder, cutConnections, isolate,
	badWeather, badWeather, badWeather,
	moveCoordinators, failRequests, failRequests, transaction, transaction, addPartition,
}

// The in-process Kafka forgets the epochs of what compaction has removed, and a log
// without them looks truncated. A real one remembers. So a history has either
// compactions or new leaders.
var (
	withLeaders    = slices.Concat(kinds, kindList{moveLeaders, movePartition, loseBroker})
	withCompaction = slices.Concat(kinds, kindList{compact, compact})
)

func millis(rng *rand.Rand, most int) time.Duration {
	return time.Duration(rng.IntN(most)) * time.Millisecond
}

func kill(s *schedule, rng *rand.Rand, at time.Duration) {
	slot, downtime := rng.IntN(s.processes), millis(rng, 12_000)
	s.add(at, "kills", func(w *world) { w.end(slot, (*process).kill) })
	s.add(at+downtime, "restarts", func(w *world) { w.restart(slot) })
}

func stopInOrder(s *schedule, rng *rand.Rand, at time.Duration) {
	slot, downtime := rng.IntN(s.processes), millis(rng, 6_000)
	s.add(at, "stops", func(w *world) { w.end(slot, func(p *process) { p.cancel() }) })
	s.add(at+downtime, "restarts", func(w *world) { w.restart(slot) })
}

// pause lasts longer than the session two times in three.
func pause(s *schedule, rng *rand.Rand, at time.Duration) {
	slot, length := rng.IntN(s.processes), millis(rng, int(3*sessionTimeout.Milliseconds()))
	name := "pauses"
	if length > sessionTimeout {
		name = "pauses beyond the session"
	}
	var paused *process // a restart between must not be mistaken for it
	s.add(at, name, func(w *world) {
		if p := w.running(slot); p != nil && !p.gate.paused() {
			paused = p
			p.gate.pause()
		}
	})
	s.add(at+length, "pauses that end", func(*world) {
		if paused != nil {
			paused.gate.resume()
		}
	})
}

func cutConnections(s *schedule, rng *rand.Rand, at time.Duration) {
	slot := rng.IntN(s.processes)
	s.add(at, "cuts of all connections", func(w *world) { w.processIn(slot).gate.cut() })
}

func isolate(s *schedule, rng *rand.Rand, at time.Duration) {
	slot, length := rng.IntN(s.processes), millis(rng, 15_000)
	s.add(at, "isolations", func(w *world) { w.processIn(slot).gate.isolate(true) })
	s.add(at+length, "isolations that end", func(w *world) { w.processIn(slot).gate.isolate(false) })
}

func badWeather(s *schedule, rng *rand.Rand, at time.Duration) {
	slot, length := rng.IntN(s.processes), 2*time.Second+millis(rng, 15_000)
	failing, unknown, slowness := rng.Float64()/3, rng.Float64()/2, millis(rng, 3_000)
	s.add(at, "spells of a bad database", func(w *world) { w.processIn(slot).weather.set(failing, unknown, slowness) })
	s.add(at+length, "spells that end", func(w *world) { w.processIn(slot).weather.set(0, 0, 0) })
}

func moveLeaders(s *schedule, rng *rand.Rand, at time.Duration) {
	seed := rng.Uint64()
	s.add(at, "elections of all leaders", func(w *world) { w.electLeaders(seed) })
}

// loseBroker takes a broker away, with all that it led or coordinated, and brings it
// back.
func loseBroker(s *schedule, rng *rand.Rand, at time.Duration) {
	node, downtime, seed := rng.Int32N(brokers), millis(rng, 20_000), rng.Uint64()
	s.add(at, "losses of a broker", func(w *world) { w.removeBroker(node, seed) })
	s.add(at+downtime, "returns of a broker", func(w *world) { w.addBroker(seed + 1) })
}

func moveCoordinators(s *schedule, _ *rand.Rand, at time.Duration) {
	s.add(at, "moves of the coordinator", func(w *world) { w.cluster.RehashCoordinators() })
}

func movePartition(s *schedule, rng *rand.Rand, at time.Duration) {
	partition, seed := rng.Int32N(3), rng.Uint64()
	s.add(at, "moves of a partition", func(w *world) { w.move(rand.New(rand.NewPCG(seed, 0)), plain, partition) })
}

// requestFaults are answers that a broker in trouble gives.
var requestFaults = []struct {
	key kmsg.Key
	err *kerr.Error
}{
	{kmsg.Fetch, kerr.NotLeaderForPartition},
	{kmsg.Fetch, kerr.UnknownTopicOrPartition},
	{kmsg.Fetch, kerr.KafkaStorageError},
	{kmsg.Heartbeat, kerr.NotCoordinator},
	{kmsg.Heartbeat, kerr.UnknownMemberID},
	{kmsg.Heartbeat, kerr.RebalanceInProgress},
	{kmsg.JoinGroup, kerr.CoordinatorLoadInProgress},
	{kmsg.SyncGroup, kerr.CoordinatorNotAvailable},
	{kmsg.OffsetCommit, kerr.CoordinatorNotAvailable},
	{kmsg.OffsetFetch, kerr.CoordinatorLoadInProgress},
	{kmsg.ListOffsets, kerr.LeaderNotAvailable},
	{kmsg.OffsetForLeaderEpoch, kerr.FencedLeaderEpoch},
	{kmsg.Metadata, kerr.LeaderNotAvailable},
}

func failRequests(s *schedule, rng *rand.Rand, at time.Duration) {
	f, count := requestFaults[rng.IntN(len(requestFaults))], 1+rng.IntN(6)
	s.add(at, "answers with an error of the broker", func(w *world) {
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{f.key}, Err: f.err, Count: count})
	})
}

func transaction(s *schedule, rng *rand.Rand, at time.Duration) {
	seed, commit := rng.Uint64(), rng.IntN(3) == 0
	s.add(at, "transactions", func(w *world) {
		w.producing.Go(func() { w.transaction(rand.New(rand.NewPCG(seed, 0)), commit) })
	})
}

func compact(s *schedule, _ *rand.Rand, at time.Duration) {
	s.add(at, "compactions", func(w *world) { w.cluster.Compact() })
}

func addPartition(s *schedule, _ *rand.Rand, at time.Duration) {
	// Beside the schedule: an answer may take time.
	s.add(at, "partitions added", func(w *world) { w.producing.Go(w.addPartition) })
}

// processIn returns the process of a slot, dead or alive.
func (w *world) processIn(slot int) *process {
	w.slotsMu.Lock()
	defer w.slotsMu.Unlock()
	return w.slots[slot].current
}

// running returns the process of a slot, nil if it was ended on purpose.
func (w *world) running(slot int) *process {
	w.slotsMu.Lock()
	defer w.slotsMu.Unlock()
	if w.slots[slot].down {
		return nil
	}
	return w.slots[slot].current
}

// end ends the process of a slot by how, and leaves the slot empty.
func (w *world) end(slot int, how func(*process)) {
	w.slotsMu.Lock()
	defer w.slotsMu.Unlock()
	if s := w.slots[slot]; !s.down {
		s.down = true
		how(s.current)
	}
}

// restart fills an empty slot. A process that is still draining goes on beside the
// new one, as it would.
func (w *world) restart(slot int) {
	w.slotsMu.Lock()
	defer w.slotsMu.Unlock()
	if s := w.slots[slot]; s.down {
		s.current, s.down = w.start(slot), false
	}
}

func (s *schedule) String() string {
	return fmt.Sprintf("%d processes, %d faults", s.processes, len(s.faults))
}
