package watermill

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/IBM/sarama"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// What the source asks the servers itself, over a client of its own.

var errNoTopic = errors.New("topic or partition does not exist")

// topicInfo is a topic as the servers describe it.
type topicInfo struct {
	clusterID string
	id        offsetstore.TopicID
	epochs    map[int32]int32 // leader epoch of every partition
}

// ask calls f, which knows no context, and returns at the end of ctx at the
// latest. Run waits for what goes on.
func ask[T any](ctx context.Context, r *run, f func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	if !r.spawn(func() {
		v, err := f()
		done <- answer{v, err}
	}) {
		return none, framework.ErrClosed
	}
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// describe asks the brokers in turn until one answers.
func (r *run) describe(topic string) (topicInfo, error) {
	err := r.client.RefreshMetadata(topic) // finds the brokers that live
	if errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		return topicInfo{}, missing(topic)
	}
	req := sarama.NewMetadataRequest(r.config.Version, []string{topic})
	for _, b := range r.client.Brokers() {
		r.brokers.Store(b, nil)
		_ = b.Open(r.config) // it may be open
		resp, failed := b.GetMetadata(req)
		if failed != nil {
			_ = b.Close() // so that the next try opens it anew
			err = failed
			continue
		}
		return newTopicInfo(topic, resp)
	}
	if err == nil {
		err = sarama.ErrOutOfBrokers
	}
	return topicInfo{}, err
}

func newTopicInfo(topic string, resp *sarama.MetadataResponse) (topicInfo, error) {
	info := topicInfo{epochs: map[int32]int32{}}
	if resp.ClusterID != nil {
		info.clusterID = *resp.ClusterID
	}
	for _, t := range resp.Topics {
		if t.Name != topic {
			continue
		}
		info.id = offsetstore.TopicID(t.Uuid)
		for _, p := range t.Partitions {
			info.epochs[p.ID] = p.LeaderEpoch
		}
		if t.Err != sarama.ErrNoError && t.Err != sarama.ErrUnknownTopicOrPartition {
			return info, fmt.Errorf("topic %q: %w", topic, t.Err)
		}
	}
	if len(info.epochs) == 0 {
		return info, missing(topic)
	}
	return info, nil
}

func missing(topic string) error {
	return fmt.Errorf("%w: %q; create it, or correct the name", errNoTopic, topic)
}

// offset asks where a partition's log stands at a time in milliseconds, or at
// sarama.OffsetOldest or OffsetNewest; -1 means that no record is that young.
// With committed, the end is where a reader of committed records stops.
func (r *run) offset(tp offsetstore.TopicPartition, at int64, committed bool) (int64, error) {
	leader, err := r.client.Leader(tp.Topic, tp.Partition)
	if err != nil {
		return 0, err
	}
	r.brokers.Store(leader, nil)
	req := &sarama.OffsetRequest{Version: 4}
	if committed {
		req.IsolationLevel = sarama.ReadCommitted
	}
	req.AddBlock(tp.Topic, tp.Partition, at, 1)
	resp, err := leader.GetAvailableOffsets(req)
	if err != nil {
		_ = leader.Close() // the next try opens it anew
		return 0, err
	}
	block := resp.GetBlock(tp.Topic, tp.Partition)
	switch {
	case block == nil:
		return 0, fmt.Errorf("offsets of %s: %w", tp, sarama.ErrIncompleteResponse)
	case block.Err != sarama.ErrNoError:
		return 0, fmt.Errorf("offsets of %s: %w", tp, block.Err)
	}
	return block.Offset, nil
}

// retry repeats f until it succeeds, fails for good, or ctx ends. A missing
// topic is waited for as long as TopicWait.
func retry[T any](ctx context.Context, r *run, subject string, f func() (T, error)) (T, error) {
	pause := slow()
	var gone time.Time // since when the topic is missing
	for {
		v, err := ask(ctx, r, f)
		switch {
		case err == nil || permanent(err):
			return v, explain(err)
		case ctx.Err() != nil:
			return v, context.Cause(ctx)
		case !errors.Is(err, errNoTopic):
			gone = time.Time{}
		case gone.IsZero():
			gone = time.Now()
		case time.Since(gone) >= r.cfg.TopicWait:
			return v, refused(err)
		}
		r.log.Warn("Kafka could not answer; trying again", "about", subject, "error", err)
		if err := sleep(ctx, pause.NextBackOff()); err != nil {
			return v, err
		}
	}
}

// permanent reports whether waiting cannot mend err.
func permanent(err error) bool {
	var position *framework.PositionError
	return errors.As(err, &position) || errors.Is(err, framework.ErrConfig) || errors.Is(err, framework.ErrNotOwner) ||
		errors.Is(err, framework.ErrClosed) || hopeless(err) != ""
}

// hopeless says what an operator has to do about an error that waiting cannot
// mend, or "".
func hopeless(err error) string {
	for _, known := range []struct {
		err  error
		hint string
	}{
		{sarama.ErrSASLAuthenticationFailed, "the login was refused; check Net.SASL of the sarama configuration"},
		{sarama.ErrUnsupportedSASLMechanism, "the brokers do not offer this mechanism; check Net.SASL.Mechanism of the sarama configuration"},
		{sarama.ErrIllegalSASLState, "the brokers did not expect this login; check Net.SASL of the sarama configuration"},
		{sarama.ErrTopicAuthorizationFailed, "the user needs the rights Read and Describe on the topic"},
		{sarama.ErrGroupAuthorizationFailed, "the user needs the right Read on the group"},
		{sarama.ErrClusterAuthorizationFailed, "the user lacks a right on the cluster"},
		{sarama.ErrInvalidTopic, "the name is not allowed; check watermill.KafkaConfig.Topics"},
		{sarama.ErrInvalidGroupId, "the name is not allowed; check Subscriber.ConsumerGroup"},
		{sarama.ErrInvalidSessionTimeout, "the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms bound it; change Consumer.Group.Session.Timeout of the sarama configuration"},
		{sarama.ErrInconsistentGroupProtocol, "other members of the group are of another kind; give this pipeline a group of its own in Subscriber.ConsumerGroup"},
		{sarama.ErrFencedInstancedId, "another process uses the same Consumer.Group.InstanceId"},
		{sarama.ErrUnsupportedVersion, "the brokers are too old; Kafka 2.8 is the first that will do"},
	} {
		if errors.Is(err, known.err) {
			return known.hint
		}
	}
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	if errors.As(err, &verification) || errors.As(err, &authority) {
		return "the broker's certificate is not trusted; check Net.TLS of the sarama configuration"
	}
	return ""
}

// advice is for who has waited in vain. A listener that wants a login, or TLS, only
// hangs up; and one that refuses a login is not named by sarama.
func advice(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the brokers hang up: check Net.SASL and Net.TLS of the sarama configuration"
	case err.Error() == sarama.ErrOutOfBrokers.Error():
		return "a broker refused something, and only sarama.Logger was told what: check Net.SASL of the sarama configuration"
	}
	return "start the brokers, or correct watermill.KafkaConfig.Subscriber.Brokers"
}

// explain wraps a hopeless error as one of configuration, with what to do.
func explain(err error) error {
	if hint := hopeless(err); hint != "" && !errors.Is(err, framework.ErrConfig) {
		return refused(fmt.Errorf("%w: %s", err, hint))
	}
	return err
}
