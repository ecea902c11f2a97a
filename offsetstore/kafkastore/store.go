package kafkastore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
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
	seeds  seeds
}

var _ offsetstore.Store = (*Store)(nil)

// New returns a store for cfg, or an error that wraps [ErrConfig] and names the
// field at fault. It connects to nothing.
func New(cfg Config) (*Store, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, seeds: seeds{lock: make(chan struct{}, 1), now: cfg.Brokers}}
	// Topics by name: later versions of the requests know them by ID alone.
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), 9)
	versions.SetMaxKeyVersion(kmsg.OffsetFetch.Int16(), 9)
	opts := append([]kgo.Opt{
		kgo.MaxVersions(versions),
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID(cfg.ClientID),
		kgo.DisableClientMetrics(),
		// Trying again is ours to do, so that it is bounded and seen.
		kgo.RequestRetries(0),
		// A leader that is remembered would be asked again after it has moved.
		kgo.MetadataMinAge(10 * time.Millisecond),
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

// Partitions returns every partition of the store's topics, in the order of
// Config.Topics and by number. A topic that does not exist is [ErrUnknownTopic], a
// partition without a leader [ErrNoLeader]; both are waited for as [Config] says.
func (s *Store) Partitions(ctx context.Context) ([]Partition, error) {
	var partitions []Partition
	err := s.retry(ctx, "find the partitions", func(ctx context.Context) error {
		resp, err := metadataRequest(s.cfg.Topics).RequestWith(ctx, s.client)
		if err != nil {
			return err
		}
		partitions, err = listPartitions(s.cfg.Topics, resp.Topics)
		return err
	})
	return partitions, err
}

// metadataRequest is made by hand: the admin client answers from memory for a while,
// so that a second try would see what the first saw.
func metadataRequest(topics []string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func listPartitions(names []string, topics []kmsg.MetadataResponseTopic) ([]Partition, error) {
	var partitions []Partition
	for _, name := range names {
		i := slices.IndexFunc(topics, func(t kmsg.MetadataResponseTopic) bool { return deref(t.Topic) == name })
		if i < 0 {
			return nil, fmt.Errorf("topic %s: %w", name, ErrUnknownTopic)
		}
		of, err := partitionsOf(name, topics[i])
		if err != nil {
			return nil, err
		}
		partitions = append(partitions, of...)
	}
	return partitions, nil
}

// partitionsOf returns the partitions of a topic in order.
func partitionsOf(name string, topic kmsg.MetadataResponseTopic) ([]Partition, error) {
	if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
		return nil, fmt.Errorf("topic %s: %w", name, err)
	}
	var partitions []Partition
	for _, p := range topic.Partitions {
		tp := offsetstore.TopicPartition{Topic: name, Partition: p.Partition}
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return nil, &offsetstore.PartitionError{TopicPartition: tp, Err: err}
		}
		if p.Leader < 0 {
			return nil, &offsetstore.PartitionError{TopicPartition: tp, Err: ErrNoLeader}
		}
		partitions = append(partitions, Partition{tp, p.Leader, p.LeaderEpoch, offsetstore.TopicID(topic.TopicID)})
	}
	slices.SortFunc(partitions, func(a, b Partition) int { return cmp.Compare(a.Partition, b.Partition) })
	return partitions, nil
}
