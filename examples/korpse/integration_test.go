//go:build integration

package main

import (
	"maps"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Both jobs on a real Kafka, whose own tool describes what was stored.
func TestBothOnARealKafka(t *testing.T) {
	brokers, err := offsetstore.ParseBrokers(servers.EnvKafka, servers.Kafka(t))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topic := "korpse-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 2, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	if _, err := produce(t.Context(), brokers, topic); err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, args: []string{"--brokers", servers.Kafka(t), "--topics", topic, "--group", topic, "--default-offset", "earliest", "--until-end"}}
	if got := sumOf(t, b.run("--batch-records", "300")); !maps.Equal(got, produced) {
		t.Errorf("printed %v, want %v", got, produced)
	}
	described, err := servers.KafkaConsumerGroups(t, "--bootstrap-server", servers.Kafka(t), "--describe", "--group", topic).CombinedOutput()
	if rows := regexp.MustCompile(topic+`\s+\d\s+500\s+500\s+0\s`).FindAll(described, -1); err != nil || len(rows) != 2 {
		t.Errorf("%v; want two partitions at 500 of 500 in\n%s", err, described)
	}
	b.args = append(b.args, "--group", topic+".save", "--db", filepath.Join(t.TempDir(), "counts.db"))
	if got := sumOf(t, b.run()); !maps.Equal(got, produced) {
		t.Errorf("saved %v, want %v", got, produced)
	}
}
