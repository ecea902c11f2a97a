package kafkastore_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/offsetstore/kafkastore"
)

// snippet:start

// nightly has process work on every partition from where it came to last time, and then
// stores where it came to now. If it dies in between, the same work is done again.
func nightly(ctx context.Context, brokers, topics, start string, process func(offsetstore.TopicPartition, offsetstore.Start) (to int64, err error)) error {
	var cfg kafkastore.Config
	var err error
	if cfg.Brokers, err = offsetstore.ParseBrokers("--brokers", brokers); err != nil {
		return err
	}
	if cfg.Topics, err = offsetstore.ParseTopics("--topics", topics); err != nil {
		return err
	}
	if cfg.Defaults, err = offsetstore.ParseStartRules("--start", start); err != nil {
		return err
	}
	cfg.Group = "nightly"
	store, err := kafkastore.New(cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	starts, err := store.Starts(ctx)
	if err != nil {
		return err
	}
	var done []offsetstore.PartitionRange
	for tp, from := range starts {
		to, err := process(tp, from)
		if err != nil {
			return err
		}
		done = append(done, offsetstore.PartitionRange{TopicPartition: tp, Range: offsetstore.Range{From: from.Offset, To: to}})
	}
	return store.Save(ctx, done...)
}

// snippet:end

// A job that runs now and then: what it does with the records is left out, it takes
// three at most. Topic orders has five records, topic clicks has two.
func Example() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "clicks"))
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	brokers := strings.Join(cluster.ListenAddrs(), ",")
	ends := fill(brokers, map[string]int{"orders": 5, "clicks": 2})
	for range 3 {
		err := nightly(context.Background(), brokers, "orders, clicks", "earliest, clicks=latest", func(tp offsetstore.TopicPartition, from offsetstore.Start) (int64, error) {
			to := min(from.Offset+3, ends[tp.Topic])
			fmt.Printf("%s from %s to %d\n", tp, from, to)
			return to, nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Unordered output:
	// orders/0 from 0 (earliest) to 3
	// clicks/0 from 2 (latest) to 2
	// orders/0 from 3 (saved) to 5
	// clicks/0 from 2 (saved) to 2
	// orders/0 from 5 (saved) to 5
	// clicks/0 from 2 (saved) to 2
}

// fill writes a number of records to each topic, and returns where the logs end.
func fill(brokers string, counts map[string]int) map[string]int64 {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ends := map[string]int64{}
	for topic, n := range counts {
		for range n {
			record := &kgo.Record{Topic: topic, Value: []byte("a record")}
			if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
				panic(err)
			}
			ends[topic] = record.Offset + 1
		}
	}
	return ends
}
