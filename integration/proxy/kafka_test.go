package proxy

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The client repeats what got lost, and the proxy sees it do so.
func TestKafkaRequestsAreNamedAndLost(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	p := through(t, Kafka, cluster.ListenAddrs()[0])
	seen := make(chan string, 100)
	fates := make(chan Action, 2)
	p.On(func(r Request) Action {
		seen <- r.Kind
		if r.Kind == "Produce" {
			select {
			case a := <-fates:
				return a
			default:
			}
		}
		return Pass
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.Dialer(p.Dial), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	fates <- CutBefore
	fates <- CutAfter
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Value: []byte("a")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup("in", 0); end.Offset != 1 {
		t.Errorf("the log has %d records, want the one that was sent three times", end.Offset)
	}
	produces := 0
	for len(seen) > 0 {
		if <-seen == "Produce" {
			produces++
		}
	}
	if produces != 3 {
		t.Errorf("%d produce requests were seen, want 3", produces)
	}
}
