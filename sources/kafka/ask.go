package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// What the source asks the servers itself, rather than through the consumer.

// errNoTopic and errNoPartition say that the servers do not know the name. Right
// after a creation that may be so for a moment.
var (
	errNoTopic     = errors.New("topic does not exist")
	errNoPartition = errors.New("partition does not exist")
)

// topicInfo is a topic as the servers describe it.
type topicInfo struct {
	clusterID string
	id        offsetstore.TopicID
	epochs    map[int32]int32 // leader epoch of every partition
	err       error           // why the rest is not known
}

// metadataAge is how old an answer about topics may be. It keeps the starts of
// many partitions from asking for the same.
const metadataAge = time.Second

// describe asks for topics, all of which are in the answer; maxAge 0 asks anew.
func (r *run) describe(ctx context.Context, maxAge time.Duration, topics ...string) (map[string]topicInfo, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, t)
	}
	var resp *kmsg.MetadataResponse
	var err error
	if maxAge > 0 {
		resp, err = r.cl.RequestCachedMetadata(ctx, req, maxAge)
	} else {
		resp, err = req.RequestWith(ctx, r.cl)
	}
	if err != nil {
		return nil, err
	}
	found := make(map[string]topicInfo, len(topics))
	for _, topic := range topics {
		found[topic] = topicInfo{err: missingTopic(topic)}
	}
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.Topic != nil {
			found[*t.Topic] = newTopicInfo(t, resp.ClusterID)
		}
	}
	return found, nil
}

// describeOne is describe for one topic, which has to exist.
func (r *run) describeOne(ctx context.Context, maxAge time.Duration, topic string) (topicInfo, error) {
	found, err := r.describe(ctx, maxAge, topic)
	if err != nil {
		return topicInfo{}, err
	}
	return found[topic], found[topic].err
}

func newTopicInfo(t *kmsg.MetadataResponseTopic, clusterID *string) topicInfo {
	info := topicInfo{id: t.TopicID, epochs: make(map[int32]int32, len(t.Partitions))}
	if clusterID != nil {
		info.clusterID = *clusterID
	}
	for _, p := range t.Partitions {
		info.epochs[p.Partition] = p.LeaderEpoch
	}
	err := kerr.ErrorForCode(t.ErrorCode)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), err == nil && len(t.Partitions) == 0:
		info.err = missingTopic(*t.Topic)
	case err != nil:
		info.err = fmt.Errorf("topic %q: %w", *t.Topic, err)
	}
	return info
}

func missingTopic(topic string) error {
	return fmt.Errorf("%w: %q; create it, or correct the name", errNoTopic, topic)
}

// The special timestamps of ListOffsets.
const (
	atStart = -2
	atEnd   = -1
)

// listed is one answer of ListOffsets.
type listed map[int32]int64

// list asks for the offsets of partitions at the given timestamps. With
// committed, the end is where a reader of committed records stops; without, it
// is where the log itself ends.
func (r *run) list(ctx context.Context, topic string, at map[int32]int64, committed bool) (listed, error) {
	if len(at) == 0 {
		return nil, nil
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if committed {
		req.IsolationLevel = 1
	}
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for number, timestamp := range at {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = number, timestamp
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, r.cl)
	if err != nil {
		return nil, err
	}
	offsets := make(listed, len(at))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("offsets of %s/%d: %w", topic, p.Partition, err)
			}
			offsets[p.Partition] = p.Offset
		}
	}
	if len(offsets) != len(at) {
		return nil, fmt.Errorf("offsets of topic %q: %d of %d partitions were answered: %w", topic, len(offsets), len(at), kerr.UnknownTopicOrPartition)
	}
	return offsets, nil
}

// endOfEpoch asks which is the last epoch up to epoch that the log has records
// of, and where it ends. Both are -1 if the log does not know.
func (r *run) endOfEpoch(ctx context.Context, tp offsetstore.TopicPartition, epoch int32) (known int32, end int64, err error) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = tp.Topic
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = tp.Partition, -1, epoch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, r.cl)
	if err != nil {
		return 0, 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, 0, fmt.Errorf("epochs of %s were not answered: %w", tp, kerr.UnknownTopicOrPartition)
	}
	answer := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return 0, 0, fmt.Errorf("epochs of %s: %w", tp, err)
	}
	return answer.LeaderEpoch, answer.EndOffset, nil
}

// retry repeats ask until it succeeds, fails for good, or ctx ends. A missing
// topic is waited for as long as TopicWait.
func retry[T any](ctx context.Context, r *run, subject string, ask func() (T, error)) (T, error) {
	var last error
	var missing time.Time // since when
	result, err := backoff.Retry(ctx, func() (T, error) {
		answer, err := ask()
		if ctx.Err() == nil || last == nil {
			last = err
		}
		switch {
		case err == nil:
		case permanent(err):
			err = backoff.Permanent(err)
		case !errors.Is(err, errNoTopic):
			missing = time.Time{}
		case missing.IsZero():
			missing = time.Now()
		case time.Since(missing) >= r.cfg.TopicWait:
			err = backoff.Permanent(refused(err))
		}
		return answer, err
	}, backoff.WithBackOff(slow()), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		r.log.warn(subject, "Kafka could not answer; trying again", "about", subject, "error", err)
	}))
	if err != nil && ctx.Err() != nil && last != nil && !errors.Is(err, last) {
		err = fmt.Errorf("%w; the last answer was: %w", err, last)
	}
	return result, err
}

// slow grows from 100 ms to 2 s.
func slow() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 100*time.Millisecond, 2*time.Second
	return b
}

// permanent reports whether waiting cannot mend err.
func permanent(err error) bool {
	var position *framework.PositionError
	return errors.As(err, &position) || errors.Is(err, framework.ErrConfig) || errors.Is(err, framework.ErrNotOwner) || hopeless(err) != ""
}

// hopeless says what an operator has to do about an error that waiting cannot
// mend, or "".
func hopeless(err error) string {
	for _, known := range []struct {
		err  error
		hint string
	}{
		{kerr.SaslAuthenticationFailed, "the login was refused; check kafka.Config.SASL"},
		{kerr.UnsupportedSaslMechanism, "the brokers do not offer this mechanism; check kafka.Config.SASL.Mechanism"},
		{kerr.IllegalSaslState, "the brokers did not expect this login; check kafka.Config.SASL"},
		{kerr.TopicAuthorizationFailed, "the user needs the rights Read and Describe on the topic"},
		{kerr.GroupAuthorizationFailed, "the user needs the right Read on the group"},
		{kerr.ClusterAuthorizationFailed, "the user lacks a right on the cluster"},
		{kerr.InvalidTopicException, "the name is not allowed; check kafka.Config.Topics"},
		{kerr.InvalidGroupID, "the name is not allowed; check kafka.Config.Group"},
		{kerr.InvalidSessionTimeout, "the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms bound it; change kafka.Config.SessionTimeout"},
		{kerr.InconsistentGroupProtocol, "other members of the group are of another kind; give this pipeline a group of its own in kafka.Config.Group"},
		{kerr.FencedInstanceID, "another process uses the same kafka.Config.InstanceID"},
		{kerr.GroupMaxSizeReached, "the group has as many members as the brokers allow (group.max.size)"},
		{kerr.UnsupportedVersion, "the brokers are too old"},
	} {
		if errors.Is(err, known.err) {
			return known.hint
		}
	}
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var header tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &host):
		return "the broker's certificate is not trusted; check kafka.Config.TLS"
	case errors.As(err, &alert):
		return "the broker refused the TLS handshake; check kafka.Config.TLS"
	case errors.As(err, &header):
		return "the broker does not speak TLS on this port; check kafka.Config.TLS and the port"
	}
	return ""
}

// explain wraps a hopeless error as one of configuration, with what to do.
func explain(err error) error {
	if hint := hopeless(err); hint != "" && !errors.Is(err, framework.ErrConfig) {
		return refused(fmt.Errorf("%w: %s", err, hint))
	}
	return err
}
