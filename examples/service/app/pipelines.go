package app

import (
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/framework/codec"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// Order is a record's value, as JSON.
type Order struct {
	ID       string
	Customer string
	Cents    int64
}

// orderRow is a row a record. It is inserted, so an order that came twice would
// be refused.
type orderRow struct {
	Topic     string `db:"topic,key"`
	Partition int32  `db:"partition,key"`
	Offset    int64  `db:"record_offset,key"`
	ID        string `db:"id"`
	Customer  string `db:"customer"`
	Cents     int64  `db:"cents"`
}

// spentRow is what a customer has spent on one partition.
type spentRow struct {
	Customer  string `db:"customer,key"`
	Partition int32  `db:"partition,key"`
	Cents     int64  `db:"cents"`
}

var (
	orders = sql.NewTable[orderRow]("orders")
	spent  = sql.NewTable[spentRow]("spent")
)

const schema = `
CREATE TABLE IF NOT EXISTS orders (topic TEXT, partition INTEGER, record_offset INTEGER, id TEXT NOT NULL, customer TEXT NOT NULL, cents INTEGER NOT NULL,
	PRIMARY KEY (topic, partition, record_offset));
CREATE TABLE IF NOT EXISTS spent (customer TEXT, partition INTEGER, cents INTEGER NOT NULL, PRIMARY KEY (customer, partition));`

// Archive keeps every order.
func Archive() (*framework.Pipeline[sql.Write], error) {
	rows := framework.MapErr(framework.From(codec.JSON[Order]()), func(c framework.Context, o Order) (sql.Write, error) {
		return orders.Insert(orderRow{c.Topic(), c.Partition(), c.Record().Offset, o.ID, o.Customer, o.Cents}), nil
	})
	return framework.NewPipeline("archive", rows)
}

// Spending adds up what each customer has spent.
func Spending() (*framework.Pipeline[sql.Write], error) {
	type amount = framework.Keyed[string, int64]
	amounts := framework.Map(framework.From(codec.JSON[Order]()), func(o Order) amount { return amount{Key: o.Customer, Value: o.Cents} })
	totals := framework.ReduceByKey("spent", amounts, func(a, b int64) int64 { return a + b })
	rows := framework.MapErr(totals, func(c framework.Context, t amount) (sql.Write, error) {
		return spent.Upsert(spentRow{t.Key, c.Partition(), t.Value}), nil
	})
	return framework.NewPipeline("spending", rows)
}
