package kafkastore

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Store keeps offsets in a consumer group. Make it with [New]. Its methods may be
// called from many goroutines.
type Store struct {
	cfg    Config
	client *kgo.Client
	admin  *kadm.Client
	conns  *connections
}

var _ offsetstore.Store = (*Store)(nil)

// New returns a store for cfg, or an error that wraps [ErrConfig] and names the
// field at fault. It connects to nothing.
func New(cfg Config) (*Store, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, conns: &connections{}}
	// Topics by name: later versions of the requests know them by ID alone.
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), 9)
	versions.SetMaxKeyVersion(kmsg.OffsetFetch.Int16(), 9)
	opts := append([]kgo.Opt{
		kgo.MaxVersions(versions),
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID(cfg.ClientID),
		kgo.WithHooks(s.conns),
		kgo.DisableClientMetrics(),
		// Trying again is ours to do, so that it is bounded and seen.
		kgo.RequestRetries(0),
		kgo.RequestTimeoutOverhead(cfg.Timeout),
	}, cfg.Options...)
	var err error
	if s.client, err = kgo.NewClient(opts...); err != nil {
		return nil, refused(fmt.Errorf("Config.Options: %w", err))
	}
	s.admin = kadm.NewClient(s.client)
	return s, nil
}

// Close ends the connections. Calls in flight end with an error.
func (s *Store) Close() { s.client.Close() }

// Partition is one partition of the store's topics and who leads it.
type Partition struct {
	offsetstore.TopicPartition
	Leader      int32 // the broker's node ID
	LeaderEpoch int32
	TopicID     offsetstore.TopicID
}

// Partitions returns every partition of the store's topics, ordered by topic and
// partition. A topic that does not exist is [ErrUnknownTopic], a partition without
// a leader [ErrNoLeader]; both are waited for as [Config] says.
func (s *Store) Partitions(ctx context.Context) ([]Partition, error) {
	var partitions []Partition
	err := s.retry(ctx, "find the partitions", func(ctx context.Context) error {
		topics, err := s.admin.ListTopics(ctx, s.cfg.Topics...)
		if err != nil {
			return err
		}
		partitions, err = listPartitions(s.cfg.Topics, topics)
		return err
	})
	return partitions, err
}

func listPartitions(names []string, topics kadm.TopicDetails) ([]Partition, error) {
	var partitions []Partition
	for _, name := range names {
		topic, ok := topics[name]
		if !ok {
			return nil, fmt.Errorf("topic %s: %w", name, ErrUnknownTopic)
		}
		if topic.Err != nil {
			return nil, fmt.Errorf("topic %s: %w", name, topic.Err)
		}
		for _, p := range topic.Partitions.Sorted() {
			tp := offsetstore.TopicPartition{Topic: name, Partition: p.Partition}
			if p.Err != nil {
				return nil, &offsetstore.PartitionError{TopicPartition: tp, Err: p.Err}
			}
			if p.Leader < 0 {
				return nil, &offsetstore.PartitionError{TopicPartition: tp, Err: ErrNoLeader}
			}
			partitions = append(partitions, Partition{tp, p.Leader, p.LeaderEpoch, offsetstore.TopicID(topic.ID)})
		}
	}
	return partitions, nil
}
