//go:build integration

package watermill_test

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/integration/proxy"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/sinks/sql"
	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

// Of the clients within watermill-kafka, and by itself, sarama forgets connections
// when brokers fail. What the source asks for is closed in the end
// (TestABrokerThatWasForgottenIsClosed).
func init() {
	leftBehind = append(leftBehind, goleak.IgnoreTopFunction("github.com/IBM/sarama.(*Broker).responseReceiver"))
}

// The broker is killed while records are on their way, and started again: the
// pipeline goes on by itself, and each record counts once.
func TestRealKafkaIsKilledUnderLoad(t *testing.T) {
	set, err := servers.Start(t.Context(), servers.Options{Kafka: true, FastStart: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	s := newSaving(t, newBroker(t, []string{set.Kafka.Addr()}, kgo.UnknownTopicRetries(-1)), 2)
	r := s.start("one", nil)
	s.send(100)
	s.awaitAll()
	for range 2 {
		stopLoad := s.load()
		before := s.count()
		eventually(t, "work under load", func() bool { return s.count() > before+100 })
		if err := set.Kafka.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := set.Kafka.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		before = s.count()
		eventually(t, "work after the restart", func() bool { return s.count() > before+100 })
		stopLoad()
	}
	s.awaitAll()
	r.end()
	s.compare()
}

// Two processes share the partitions of a topic while records keep coming. One
// is a static member, and killed again and again; the other comes and goes in
// order, and is killed once, which the group learns by its session alone.
func TestRealKafkaProcessesThatShareATopicAreKilled(t *testing.T) {
	s := newSaving(t, realKafka(t), 4)
	stopLoad := s.load()
	a, b := s.startChild("a", "static-"+s.group), s.startChild("b", "")
	for i := range 4 {
		s.awaitWork("a", "b")
		a.kill()
		a = s.startChild("a", "static-"+s.group)
		switch i {
		case 1:
			b.terminate()
			b = s.startChild("b", "")
		case 2:
			b.kill()
			b = s.startChild("b", "")
		}
	}
	stopLoad()
	s.awaitAll()
	a.terminate()
	b.terminate()
	s.compare()
}

// One of two instances reaches the broker over connections that break in the
// middle of requests, before and after these have taken effect, that lose answers
// and stay, and over which for longer than its session nothing is heard.
func TestRealKafkaOverBadConnections(t *testing.T) {
	s := newSaving(t, realKafka(t), 4)
	p, err := proxy.Kafka(s.b.addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	bad := s.start("bad", func(c *watermillsource.KafkaConfig) {
		net := &c.Subscriber.OverwriteSaramaConfig.Net
		net.Proxy.Enable, net.Proxy.Dialer = true, through{p}
		net.ReadTimeout = time.Second // for an answer that was lost
	})
	good := s.start("good", nil)
	stopLoad := s.load()
	s.awaitWork("bad", "good")
	breaks := &breaker{lost: map[string]bool{"Fetch": true, "OffsetCommit": true, "Heartbeat": true}}
	p.On(breaks.decide)
	eventually(t, "cuts, and a lost answer of each kind", func() bool { cuts, kept := breaks.count(); return cuts >= 20 && kept == 0 })
	p.On(nil)
	s.awaitWork("bad")
	stalled := time.NewTimer(8 * time.Second) // more than the session
	p.Stall()
	<-stalled.C
	s.awaitWork("good")
	p.Resume()
	s.awaitWork("bad")
	stopLoad()
	s.awaitAll()
	bad.end()
	good.end()
	s.compare()
}

// through is the dialer of a sarama configuration.
type through struct{ p *proxy.Proxy }

// Dial implements proxy.Dialer of golang.org/x/net.
func (d through) Dial(network, address string) (net.Conn, error) {
	return d.p.Dial(context.Background(), network, address)
}

// breaker cuts the connection of every twentieth request or so, before or after
// it has taken effect, a limited number of times, and loses one answer of each
// kind that it is told.
type breaker struct {
	mu    sync.Mutex
	times int
	lost  map[string]bool // kinds of which none is lost yet
}

func (b *breaker) decide(r proxy.Request) proxy.Action {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.lost[r.Kind]:
		delete(b.lost, r.Kind)
		return proxy.DropAnswer
	case b.times >= 20 || rand.IntN(20) > 0:
		return proxy.Pass
	}
	if b.times++; b.times%2 == 0 {
		return proxy.CutBefore
	}
	return proxy.CutAfter
}

func (b *breaker) count() (cuts, kept int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times, len(b.lost)
}

// saving is a topic, a database, and the model of what must be in it.
type saving struct {
	t            *testing.T
	b            *broker
	topic, group string
	partitions   int32
	file         string
	db           *stdsql.DB // for looking

	mu   sync.Mutex
	sent map[at]string
}

// at is where a record stands.
type at struct {
	partition int32
	offset    int64
}

func newSaving(t *testing.T, b *broker, partitions int32) *saving {
	t.Helper()
	s := &saving{t: t, b: b, topic: unique("fault"), group: unique("group"), partitions: partitions, file: filepath.Join(t.TempDir(), "saved.db"), sent: map[at]string{}}
	b.made(s.topic, partitions)
	t.Cleanup(func() { _, _ = b.adm.DeleteTopics(context.Background(), s.topic) })
	if err := s.open().Close(t.Context()); err != nil { // the tables are there now
		t.Fatal(err)
	}
	db, err := stdsql.Open("sqlite", "file:"+s.file+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s.db = db
	return s
}

// instance is a pipeline of this process.
type instance struct {
	s    *saving
	stop context.CancelFunc
	done chan struct{}
	err  error // valid when done
}

func (s *saving) start(owner string, edit func(*watermillsource.KafkaConfig)) *instance {
	s.t.Helper()
	cfg := s.b.config(s.group, s.topic)
	if edit != nil {
		edit(&cfg)
	}
	sink := s.open()
	ctx, cancel := context.WithCancel(context.Background())
	i := &instance{s: s, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(i.done)
		i.err = runSaving(ctx, sink, owner, cfg)
		_ = sink.Close(context.Background()) // nothing is open any more
	}()
	s.t.Cleanup(func() { cancel(); <-i.done })
	return i
}

func (i *instance) end() {
	i.s.t.Helper()
	i.stop()
	<-i.done
	if i.err != nil {
		i.s.t.Errorf("an instance ended with %v", i.err)
	}
}

// process is an instance in a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   bytes.Buffer // valid when ended
	ended chan error
}

func (s *saving) startChild(owner, instance string) *process {
	s.t.Helper()
	settings, err := json.Marshal(child{Brokers: s.b.addrs, Topic: s.topic, Group: s.group, Instance: instance, Owner: owner, File: s.file})
	if err != nil {
		s.t.Fatal(err)
	}
	p := &process{t: s.t, cmd: exec.Command(os.Args[0]), ended: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(settings))
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait(); close(p.ended) }()
	s.t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.ended }) // in case the test failed
	return p
}

func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		<-p.ended
		p.t.Fatalf("the process had ended by itself: %v\n%s", err, &p.log)
	}
	<-p.ended
}

func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		<-p.ended
		p.t.Fatalf("the process had ended by itself: %v\n%s", err, &p.log)
	}
	if err := <-p.ended; err != nil {
		p.t.Errorf("after SIGTERM: %v\n%s", err, &p.log)
	}
}

func (s *saving) open() *sql.Sink {
	s.t.Helper()
	sink, err := openSaved(context.Background(), s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	return sink
}

// send appends n records to each partition.
func (s *saving) send(n int) {
	s.t.Helper()
	if err := s.trySend(n); err != nil {
		s.t.Fatal(err)
	}
}

func (s *saving) trySend(n int) error {
	var records []*kgo.Record
	for p := range s.partitions {
		for range n {
			records = append(records, &kgo.Record{Topic: s.topic, Partition: p, Value: []byte(unique("v"))})
		}
	}
	if err := s.b.cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		s.sent[at{r.Partition, r.Offset}] = string(r.Value)
	}
	return nil
}

// load sends until the returned function is called.
func (s *saving) load() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = s.trySend(5)
			time.Sleep(20 * time.Millisecond) // a load that lasts, and does not fill the machine
		}
		done <- err
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("producing: %v", err)
		}
	})
	s.t.Cleanup(stop)
	return stop
}

// number asks the database for one.
func (s *saving) number(query string, args ...any) (n int) {
	s.t.Helper()
	if err := s.db.QueryRow(query, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *saving) count() int { s.t.Helper(); return s.number(`SELECT count(*) FROM saved`) }

// savedBy is how many rows an owner has saved.
func (s *saving) savedBy(owner string) int {
	s.t.Helper()
	return s.number(`SELECT count(*) FROM saved WHERE owner = ?`, owner)
}

// awaitWork waits until each of the owners has saved something more.
func (s *saving) awaitWork(owners ...string) {
	s.t.Helper()
	for _, owner := range owners {
		before := s.savedBy(owner)
		eventually(s.t, "work by "+owner, func() bool { return s.savedBy(owner) > before })
	}
}

func (s *saving) awaitAll() {
	s.t.Helper()
	s.mu.Lock()
	want := len(s.sent)
	s.mu.Unlock()
	eventually(s.t, fmt.Sprintf("the save of all %d records", want), func() bool { return s.count() >= want })
}

// compare compares the rows, and the counts beside them, with what was sent.
func (s *saving) compare() {
	s.t.Helper()
	rows, err := s.db.Query(`SELECT partition, record_offset, value FROM saved`)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	got := map[at]string{}
	for rows.Next() {
		var where at
		var value string
		if err := rows.Scan(&where.partition, &where.offset, &value); err != nil {
			s.t.Fatal(err)
		}
		got[where] = value
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	if !maps.Equal(got, s.sent) {
		s.t.Errorf("%d records were sent, %d rows are saved, and they differ", len(s.sent), len(got))
	}
	if counted := s.number(`SELECT sum(records) FROM counted`); counted != len(s.sent) {
		s.t.Errorf("%d records were sent, the counts say %d", len(s.sent), counted)
	}
	s.t.Logf("%d records", len(s.sent))
}
