// Command minimal is the smallest useful program: it adds up what each customer
// spent, from the Kafka topic orders into a SQLite file.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
	"github.com/lockstep-stream/lockstep/sources/kafka"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	brokers := flag.String("brokers", "127.0.0.1:9092", "Kafka brokers, `host:port,…`")
	dsn := flag.String("sink", "sqlite://spending.db", "where to save: sqlite://path")
	flag.Parse()
	check(run(ctx, must(offsetstore.ParseBrokers("--brokers", *brokers)), *dsn))
}

// snippet:start

// Order is a record's value, as JSON.
type Order struct {
	Customer string
	Cents    int64
}

// Spent is a row. The total of a customer is the sum over partitions.
type Spent struct {
	Customer  string `db:"customer,key"`
	Partition int32  `db:"partition,key"`
	Cents     int64  `db:"cents"`
}

// Amount is an order reduced to what counts.
type Amount = framework.Keyed[string, int64]

const schema = `CREATE TABLE IF NOT EXISTS spent (customer TEXT, partition INTEGER, cents INTEGER NOT NULL, PRIMARY KEY (customer, partition))`

func run(ctx context.Context, brokers []string, dsn string) error {
	table := sql.NewTable[Spent]("spent")
	amounts := framework.Map(framework.From(codec.JSON[Order]()), func(o Order) Amount { return Amount{Key: o.Customer, Value: o.Cents} })
	totals := framework.ReduceByKey("spent", amounts, func(a, b int64) int64 { return a + b })
	rows := framework.MapErr(totals, func(c framework.Context, t Amount) (sql.Write, error) {
		return table.Upsert(Spent{t.Key, c.Partition(), t.Value}), nil
	})
	pipeline := must(framework.NewPipeline("spending", rows))
	source := must(kafka.New(kafka.Config{Brokers: brokers, Topics: []string{"orders"}, Group: "spending"}))
	sink := must(sql.Open(ctx, sql.Config{DSN: dsn, Tables: []sql.AnyTable{table}, Schema: []string{schema}}))
	defer sink.Close(context.WithoutCancel(ctx))
	check(sink.Migrate(ctx))
	return must(framework.NewRunner(pipeline, source, sink, framework.Config{})).Run(ctx)
}

// snippet:end

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
