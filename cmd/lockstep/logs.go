package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// topicLog is what Kafka says of a topic.
type topicLog struct {
	id         offsetstore.TopicID
	partitions map[int32]partitionLog
}

// partitionLog is what Kafka says of a partition: the first offset, the end for a
// reader of committed records, and the end.
type partitionLog struct{ start, stable, end int64 }

// logs asks for topics. One that does not exist is not in the answer.
func (c *cluster) logs(ctx context.Context, topics []string) (map[string]topicLog, error) {
	details, err := c.admin.ListTopics(ctx, topics...)
	if err != nil {
		return nil, asking("for topics", err)
	}
	found := map[string]topicLog{}
	for _, name := range topics {
		d, ok := details[name]
		switch {
		case !ok, errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			continue
		case d.Err != nil:
			return nil, asking("for topic "+name, d.Err)
		}
		if found[name], err = c.log(ctx, d); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (c *cluster) log(ctx context.Context, d kadm.TopicDetail) (topicLog, error) {
	t := topicLog{offsetstore.TopicID(d.ID), map[int32]partitionLog{}}
	var listed [3]kadm.ListedOffsets
	for i, list := range []func(context.Context, ...string) (kadm.ListedOffsets, error){
		c.admin.ListStartOffsets, c.admin.ListCommittedOffsets, c.admin.ListEndOffsets,
	} {
		var err error
		if listed[i], err = list(ctx, d.Topic); err == nil {
			err = listed[i].Error()
		}
		if err != nil {
			return t, asking("for the offsets of topic "+d.Topic, err)
		}
	}
	for n := range d.Partitions {
		var offsets [3]int64
		for i := range listed {
			l, _ := listed[i].Lookup(d.Topic, n)
			offsets[i] = l.Offset
		}
		t.partitions[n] = partitionLog{offsets[0], offsets[1], offsets[2]}
	}
	return t, nil
}

// since returns the offset of the first record of each partition that is not older
// than a time, and the log's end, with past set, where there is none.
func (c *cluster) since(ctx context.Context, topic string, t topicLog, milli int64) (offsets map[int32]int64, past map[int32]bool, err error) {
	listed, err := c.admin.ListOffsetsAfterMilli(ctx, milli, topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, nil, asking("for the offsets of topic "+topic, err)
	}
	offsets, past = map[int32]int64{}, map[int32]bool{}
	for n, log := range t.partitions {
		l, ok := listed.Lookup(topic, n)
		if !ok || l.Timestamp < 0 || l.Offset > log.stable {
			offsets[n], past[n] = log.stable, true
		} else {
			offsets[n] = l.Offset
		}
	}
	return offsets, past, nil
}

// topicNames lists the topics, for errors.
func (c *cluster) topicNames(ctx context.Context) ([]string, error) {
	details, err := c.admin.ListTopics(ctx)
	if err != nil {
		return nil, asking("for topics", err)
	}
	names := details.Names()
	slices.Sort(names)
	return names, nil
}

// committed returns what a group has committed.
func (c *cluster) committed(ctx context.Context, group string) (map[offsetstore.TopicPartition]int64, error) {
	var responses kadm.OffsetResponses
	err := c.retry(ctx, func() (err error) {
		responses, err = c.admin.FetchOffsets(ctx, group)
		return err
	})
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, asking("for the offsets of group "+group, err)
	}
	offsets := map[offsetstore.TopicPartition]int64{}
	responses.Each(func(r kadm.OffsetResponse) {
		if r.Err == nil && r.At >= 0 {
			offsets[offsetstore.TopicPartition{Topic: r.Topic, Partition: r.Partition}] = r.At
		}
	})
	return offsets, nil
}

// members returns how many members a group has, and whether there is such a group.
func (c *cluster) members(ctx context.Context, group string) (n int, exists bool, err error) {
	var groups kadm.DescribedGroups
	err = c.retry(ctx, func() (err error) {
		if groups, err = c.admin.DescribeGroups(ctx, group); err == nil {
			err = groups[group].Err
		}
		return err
	})
	if errors.Is(err, kerr.GroupIDNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, asking("for the members of group "+group, err)
	}
	g := groups[group]
	return len(g.Members), g.State != "Dead", nil
}

func asking(what string, err error) error {
	return fmt.Errorf("asking Kafka (--brokers) %s: %w", what, err)
}
