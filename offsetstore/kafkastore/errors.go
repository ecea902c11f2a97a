package kafkastore

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Errors of requests. Test for them with errors.Is; Kafka's own error is wrapped
// beside them.
var (
	// ErrUnknownTopic: the topic, or the partition, does not exist.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrNoLeader: no broker leads the partition now.
	ErrNoLeader = errors.New("partition without a leader")
	// ErrNotAuthorized: this client may not do that, or the login was refused. It
	// needs the right to describe and read the topics, and to read the group.
	ErrNotAuthorized = errors.New("not authorized")
	// ErrGroupInUse: the group has members; only they can commit.
	ErrGroupInUse = errors.New("the group has members, which alone can commit its offsets; stop them or use a group of its own")
)

// MetadataTooLargeError says that the metadata of a range is larger than the
// brokers store.
type MetadataTooLargeError struct {
	TopicPartition offsetstore.TopicPartition
	Size           int // bytes
	Limit          int // the brokers' offset.metadata.max.bytes; 0: they did not say
}

// Error names the partition, the size and the limit.
func (e *MetadataTooLargeError) Error() string {
	limit := "the brokers' limit (offset.metadata.max.bytes)"
	if e.Limit > 0 {
		limit = fmt.Sprintf("the %d that the brokers store (offset.metadata.max.bytes)", e.Limit)
	}
	return fmt.Sprintf("%s: the metadata has %d bytes, more than %s; make it shorter", e.TopicPartition, e.Size, limit)
}

// Unwrap returns Kafka's error.
func (e *MetadataTooLargeError) Unwrap() error { return kerr.OffsetMetadataTooLarge }

// BrokersError says that no broker answers.
type BrokersError struct {
	Brokers []BrokerError // in the order of Config.Brokers
}

// BrokerError is why one broker does not answer.
type BrokerError struct {
	Address string
	Err     error
}

// Error lists each broker and its cause.
func (e *BrokersError) Error() string {
	var b strings.Builder
	b.WriteString("no broker answers:")
	for _, broker := range e.Brokers {
		fmt.Fprintf(&b, "\n  %s: %v", broker.Address, broker.Err)
	}
	return b.String()
}

// Unwrap returns the causes.
func (e *BrokersError) Unwrap() []error {
	errs := make([]error, len(e.Brokers))
	for i, b := range e.Brokers {
		errs[i] = b.Err
	}
	return errs
}

// kinds are Kafka's errors that have a name here.
var kinds = []struct {
	kind  error
	codes []*kerr.Error
}{
	{ErrUnknownTopic, []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID}},
	{ErrNoLeader, []*kerr.Error{kerr.LeaderNotAvailable, kerr.ListenerNotFound}},
	{ErrNotAuthorized, []*kerr.Error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState,
	}},
	{ErrGroupInUse, []*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress}},
}

// explain adds the kind to an error of Kafka's.
func explain(err error) error {
	if err == nil {
		return nil
	}
	for _, k := range kinds {
		for _, code := range k.codes {
			if errors.Is(err, code) && !errors.Is(err, k.kind) {
				return fmt.Errorf("%w: %w", k.kind, err)
			}
		}
	}
	return err
}

// passes reports whether err may be gone at the next try: what Kafka calls
// retriable (coordinator loading, moved or not there, no leader), our own names
// for that, and connections that broke.
func passes(err error) bool {
	var network net.Error
	switch {
	case errors.Is(err, ErrNotAuthorized), errors.Is(err, ErrGroupInUse), errors.Is(err, ErrConfig), errors.Is(err, kgo.ErrClientClosed):
		return false
	case errors.Is(err, ErrUnknownTopic), errors.Is(err, ErrNoLeader), kerr.IsRetriable(err):
		return true
	case errors.As(err, &network):
		return true
	}
	return kgo.IsRetryableBrokerErr(err)
}

// answered reports whether err is more than a matter of connections: Kafka has said it,
// or this package.
func answered(err error) bool {
	var code *kerr.Error
	if errors.As(err, &code) {
		return true
	}
	for _, known := range []error{ErrConfig, ErrUnknownTopic, ErrNoLeader, kgo.ErrClientClosed} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// notReached reports whether err is a connection that could not be opened.
func notReached(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
