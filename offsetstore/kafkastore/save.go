package kafkastore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Save commits the end of each range, with its metadata. Partitions that fail for
// reasons that pass are sent again, and only they. An error that is a
// *[offsetstore.SaveError] names those that are not stored, for example with a
// *[MetadataTooLargeError]; all others are.
func (s *Store) Save(ctx context.Context, ranges ...offsetstore.PartitionRange) error {
	if err := offsetstore.Validate(ranges); err != nil {
		return refused(err)
	}
	if len(ranges) == 0 {
		return nil
	}
	open := map[offsetstore.TopicPartition]offsetstore.PartitionRange{}
	for _, r := range ranges {
		open[r.TopicPartition] = r
	}
	failed := map[offsetstore.TopicPartition]error{}
	answered := false
	err := s.retry(ctx, "commit offsets", func(ctx context.Context) error {
		resp, err := commitRequest(s.cfg.Group, open).RequestWith(ctx, s.client)
		if err != nil {
			return err
		}
		answered = true
		return takeSaved(open, failed, answers(resp))
	})
	if !answered {
		return err
	}
	var one *offsetstore.PartitionError
	if ctx.Err() != nil || !errors.As(err, &one) {
		for tp := range open { // it was not a partition's fault in the end
			failed[tp] = err
		}
	}
	return s.saveError(ctx, ranges, failed)
}

// commitRequest is made by hand: the admin client asks for the topics' IDs first,
// and takes every failure of that for topics that do not exist.
func commitRequest(group string, open map[offsetstore.TopicPartition]offsetstore.PartitionRange) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	topics := map[string]*kmsg.OffsetCommitRequestTopic{}
	for tp, r := range open {
		if topics[tp.Topic] == nil {
			topic := kmsg.NewOffsetCommitRequestTopic()
			topic.Topic = tp.Topic
			topics[tp.Topic] = &topic
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = tp.Partition, r.To
		if r.Metadata != "" {
			p.Metadata = &r.Metadata
		}
		topics[tp.Topic].Partitions = append(topics[tp.Topic].Partitions, p)
	}
	for _, topic := range topics {
		req.Topics = append(req.Topics, *topic)
	}
	return req
}

// answers returns what the brokers say of each partition.
func answers(resp *kmsg.OffsetCommitResponse) map[offsetstore.TopicPartition]error {
	errs := map[offsetstore.TopicPartition]error{}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			errs[offsetstore.TopicPartition{Topic: topic.Topic, Partition: p.Partition}] = kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return errs
}

// takeSaved drops from open what is saved or never will be, notes why in failed for
// all that is not saved, and returns an error if something is worth another try.
func takeSaved(open map[offsetstore.TopicPartition]offsetstore.PartitionRange, failed map[offsetstore.TopicPartition]error, answers map[offsetstore.TopicPartition]error) error {
	var again error
	for tp := range open {
		answer, ok := answers[tp]
		err := explain(answer)
		if !ok {
			err = ErrUnknownTopic
		}
		if err == nil {
			delete(open, tp)
			delete(failed, tp)
			continue
		}
		failed[tp] = err
		if passes(err) {
			again = &offsetstore.PartitionError{TopicPartition: tp, Err: err}
		} else {
			delete(open, tp)
		}
	}
	return again
}

// saveError lists what is not saved, nil if everything is.
func (s *Store) saveError(ctx context.Context, ranges []offsetstore.PartitionRange, failed map[offsetstore.TopicPartition]error) error {
	if len(failed) == 0 {
		return nil
	}
	e := &offsetstore.SaveError{}
	limit := sync.OnceValue(func() int { return s.metadataLimit(ctx) })
	for _, r := range ranges {
		err, ok := failed[r.TopicPartition]
		if !ok {
			continue
		}
		if errors.Is(err, kerr.OffsetMetadataTooLarge) {
			err = &MetadataTooLargeError{TopicPartition: r.TopicPartition, Size: len(r.Metadata), Limit: limit()}
		}
		e.Failed = append(e.Failed, offsetstore.PartitionError{TopicPartition: r.TopicPartition, Err: err})
	}
	slices.SortFunc(e.Failed, func(a, b offsetstore.PartitionError) int {
		return cmp.Or(cmp.Compare(a.TopicPartition.Topic, b.TopicPartition.Topic), cmp.Compare(a.TopicPartition.Partition, b.TopicPartition.Partition))
	})
	return e
}

// metadataLimit asks a broker for its limit, and returns 0 if it does not say: the
// right to describe brokers is not needed for anything else.
func (s *Store) metadataLimit(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	brokers, err := s.admin.ListBrokers(ctx)
	if err != nil || len(brokers) == 0 {
		return 0
	}
	configs, err := s.admin.DescribeBrokerConfigs(ctx, brokers[0].NodeID)
	if err != nil {
		return 0
	}
	_, err = configs.On(strconv.Itoa(int(brokers[0].NodeID)), func(c *kadm.ResourceConfig) error { return c.Err })
	if err != nil {
		return 0
	}
	for _, c := range configs {
		for _, setting := range c.Configs {
			if setting.Key == "offset.metadata.max.bytes" {
				n, _ := strconv.Atoi(setting.MaybeValue())
				return n
			}
		}
	}
	return 0
}
