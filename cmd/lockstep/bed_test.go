package main

import (
	"context"
	stdsql "database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
	"github.com/lockstep-stream/lockstep/sources/kafka"
)

// order is a record's value in the tests' pipeline, which adds up what each customer
// has spent. One of less than nothing fails.
type order struct {
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

type spent struct {
	Customer  string `db:"customer,key"`
	Partition int32  `db:"part,key"`
	Cents     int64  `db:"cents"`
}

var spentTable = sql.NewTable[spent]("spent")

const spentSchema = `CREATE TABLE IF NOT EXISTS spent (customer TEXT, part INTEGER, cents INTEGER NOT NULL, PRIMARY KEY (customer, part))`

type amount = framework.Keyed[string, int64]

func toAmount(_ framework.Context, o order) (amount, error) {
	if o.Cents < 0 {
		return amount{}, fmt.Errorf("%d cents are not possible", o.Cents)
	}
	return amount{Key: o.Customer, Value: o.Cents}, nil
}

// bed is an in-process Kafka with a topic "orders" of three partitions, a database,
// and the pipeline "spending" between them.
type bed struct {
	t       *testing.T
	cluster *kfake.Cluster
	brokers string
	dsn     string
	policy  framework.FailurePolicy
}

// second is the timestamp of the first record; each further one is a second later.
var second = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newBed(t *testing.T) *bed {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &bed{t: t, cluster: c, brokers: strings.Join(c.ListenAddrs(), ","), dsn: "sqlite://" + filepath.Join(t.TempDir(), "app.db")}
	sink := b.sink()
	defer sink.Close(t.Context())
	if err := sink.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) sink() *sql.Sink {
	b.t.Helper()
	sink, err := sql.Open(b.t.Context(), sql.Config{DSN: b.dsn, Tables: []sql.AnyTable{spentTable}, Schema: []string{spentSchema}, Owner: "worker-1"})
	if err != nil {
		b.t.Fatal(err)
	}
	return sink
}

func (b *bed) client() *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return cl
}

// produce writes one order a cent's amount to a partition, a second apart.
func (b *bed) produce(partition int32, cents ...int64) {
	b.t.Helper()
	cl := b.client()
	for i, n := range cents {
		value, err := json.Marshal(order{"ann", n})
		if err != nil {
			b.t.Fatal(err)
		}
		r := &kgo.Record{Topic: "orders", Partition: partition, Key: []byte("ann"), Value: value, Timestamp: second.Add(time.Duration(i) * time.Second)}
		if err := cl.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// start runs the pipeline until stop is called, which returns what Run did.
func (b *bed) start() (stop func() error) {
	b.t.Helper()
	amounts := framework.MapErr(framework.From(codec.JSON[order]()), toAmount, framework.OnFailure(b.policy))
	totals := framework.ReduceByKey("spent", amounts, func(a, b int64) int64 { return a + b })
	rows := framework.MapErr(totals, func(c framework.Context, a amount) (sql.Write, error) {
		return spentTable.Upsert(spent{a.Key, c.Partition(), a.Value}), nil
	})
	pipeline, err := framework.NewPipeline("spending", rows)
	if err != nil {
		b.t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	source, err := kafka.New(kafka.Config{Brokers: b.cluster.ListenAddrs(), Topics: []string{"orders"}, Group: "spending", Logger: quiet, MirrorInterval: time.Millisecond})
	if err != nil {
		b.t.Fatal(err)
	}
	sink := b.sink()
	runner, err := framework.NewRunner(pipeline, source, sink, framework.Config{Logger: quiet})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	return func() error {
		cancel()
		err := <-done
		sink.Close(context.Background())
		return err
	}
}

// process runs the pipeline until all partitions are where they should be.
func (b *bed) process(want ...int64) {
	b.t.Helper()
	stop := b.start()
	b.await(want...)
	if err := stop(); err != nil {
		b.t.Fatal(err)
	}
}

// positions are the next offsets of "orders", by partition.
func (b *bed) positions() []int64 {
	b.t.Helper()
	sink := b.sink()
	defer sink.Close(b.t.Context())
	stored, err := sink.Positions(b.t.Context(), "spending")
	if err != nil {
		b.t.Fatal(err)
	}
	var offsets []int64
	for _, p := range stored {
		offsets = append(offsets, p.Position.Offset)
	}
	return offsets
}

func (b *bed) await(want ...int64) {
	b.t.Helper()
	var got []int64
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if got = b.positions(); fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
	}
	b.t.Fatalf("positions are %v, want %v", got, want)
}

// spent is what the rows say in all.
func (b *bed) spent() int64 {
	b.t.Helper()
	return b.number("SELECT COALESCE(SUM(cents), 0) FROM spent")
}

// number asks the database.
func (b *bed) number(query string) (n int64) {
	b.t.Helper()
	db, err := stdsql.Open("sqlite", strings.TrimPrefix(b.dsn, "sqlite://"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(b.t.Context(), query).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *bed) sqlExec(statement string) {
	b.t.Helper()
	db, err := stdsql.Open("sqlite", strings.TrimPrefix(b.dsn, "sqlite://"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(b.t.Context(), statement); err != nil {
		b.t.Fatal(err)
	}
}

// claimAndDie leaves a partition with an owner that is gone.
func (b *bed) claimAndDie(partition int32) {
	b.t.Helper()
	sink := b.sink()
	defer sink.Close(b.t.Context())
	tp := offsetstore.TopicPartition{Topic: "orders", Partition: partition}
	if _, err := sink.Claim(b.t.Context(), "spending", tp, offsetstore.At(0)); err != nil {
		b.t.Fatal(err)
	}
}

// run runs a command on the bed's servers.
func (b *bed) run(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	return lockstep(b.t, append(args, "--sink", b.dsn, "--brokers", b.brokers)...)
}

// want runs a command, and compares its exit code and what it says.
func (b *bed) want(code int, says []string, args ...string) (stdout string) {
	b.t.Helper()
	got, stdout, stderr := b.run(args...)
	if got != code {
		b.t.Fatalf("%q: exit %d, want %d\n%s\n%s", args, got, code, stdout, stderr)
	}
	for _, text := range says {
		if !strings.Contains(stdout+stderr, text) && !strings.Contains(strings.ReplaceAll(stdout+stderr, "\n", " "), text) {
			b.t.Errorf("%q: it does not say %q:\n%s%s", args, text, stdout, stderr)
		}
	}
	return stdout
}
