package cassandra_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/lockstep-stream/lockstep/sinks/cassandra"
)

type Reading struct {
	Sensor string                     `cql:"sensor,partition"`
	At     time.Time                  `cql:"at,clustering"`
	Value  float64                    `cql:"value"`
	Note   cassandra.Optional[string] `cql:"note"`
}

var readings = cassandra.NewTable[Reading]("readings", cassandra.WithTTL(30*24*time.Hour))

// Migrate once, then open the sink for as long as the pipelines run.
func Example() {
	ctx := context.Background()
	cfg, err := cassandra.ParseDSN("cassandra://app:secret@db1,db2/pipelines?replication=3")
	if err != nil {
		log.Fatal(err)
	}
	cfg.Tables = []cassandra.AnyTable{readings}
	cfg.Schema = []string{`CREATE TABLE IF NOT EXISTS readings
		(sensor text, at timestamp, value double, note text, PRIMARY KEY (sensor, at))`}
	if err := cassandra.Migrate(ctx, cfg); err != nil {
		log.Fatal(err)
	}
	sink, err := cassandra.Open(ctx, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer sink.Close(ctx)
}

func ExampleTable() {
	r := Reading{Sensor: "kitchen", At: time.UnixMilli(0), Value: 21.5}
	writes := []cassandra.Write{
		readings.Insert(r), // note keeps what it has
		readings.Upsert(Reading{Sensor: "kitchen", At: r.At, Value: 22, Note: cassandra.Clear[string]()}),
		readings.Delete(r),
	}
	fmt.Println(len(writes), "writes to", readings.Name())
	// Output: 3 writes to readings
}

func ExampleParseDSN() {
	cfg, err := cassandra.ParseDSN("cassandra://app:secret@db1,db2:9043/pipelines?consistency=local&dc=dc1")
	fmt.Println(cfg, err)
	_, err = cassandra.ParseDSN("cassandra://app:secret@db1/pipelines?consistencey=local")
	fmt.Println(err)
	// Output:
	// cassandra://app@db1:9042,db2:9043/pipelines <nil>
	// cassandra: data source name: configuration: unknown parameter "consistencey"; known are ca, cert, connect_timeout, consistency, dc, key, replication, start_wait, timeout, tls
}
