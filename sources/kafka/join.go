package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// watchJoin says once, if the first assignment takes longer than living members
// need, what the group is likely to wait for: a member that was killed is counted
// until its session has timed out, and nobody gets anything meanwhile.
func (r *run) watchJoin() {
	select {
	case <-r.ctx.Done():
		return
	case <-r.joined:
		return
	case <-time.After(r.cfg.patience()):
	}
	ctx, cancel := context.WithTimeout(r.ctx, requestRetry)
	defer cancel()
	state, others, err := r.members(ctx)
	select {
	case <-r.ctx.Done():
	case <-r.joined: // while we asked
	default:
		r.log.Warn("no partitions yet: the consumer group waits until its members have joined again, those that were killed included",
			"state", state, "waits_for", others, "at_most", max(r.cfg.SessionTimeout, r.cfg.RebalanceTimeout),
			"session_timeout", r.cfg.SessionTimeout, "rebalance_timeout", r.cfg.RebalanceTimeout, "what_to_do", r.cfg.joinAdvice(), "error", err)
	}
}

// patience is how long a join takes at most while all members live: each hears of
// it with its next heartbeat.
func (c *Config) patience() time.Duration { return c.heartbeat() * 4 / 3 }

func (c *Config) heartbeat() time.Duration { return min(3*time.Second, c.SessionTimeout/5) }

func (c *Config) joinAdvice() string {
	if c.InstanceID == "" {
		return "to have the partitions back at once after a kill, set kafka.Config.InstanceID, another one for each process; to shorten the wait, lower kafka.Config.SessionTimeout in all of them"
	}
	return "to shorten the wait, lower kafka.Config.SessionTimeout in all processes, and give each a kafka.Config.InstanceID that it keeps"
}

// members asks for the group's state and for its members but this one.
func (r *run) members(ctx context.Context) (state string, others []string, err error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{r.cfg.Group}
	resp, err := req.RequestWith(ctx, r.cl)
	if err != nil {
		return "unknown", nil, err
	}
	self, _ := r.cl.GroupMetadata()
	for _, g := range resp.Groups {
		state, err = g.State, kerr.ErrorForCode(g.ErrorCode)
		for i := range g.Members {
			if m := &g.Members[i]; m.MemberID != self {
				others = append(others, memberName(m))
			}
		}
	}
	return state, others, err
}

func memberName(m *kmsg.DescribeGroupsResponseGroupMember) string {
	if m.InstanceID != nil {
		return fmt.Sprintf("%s (instance %s) at %s", m.ClientID, *m.InstanceID, m.ClientHost)
	}
	return fmt.Sprintf("%s (%s) at %s", m.ClientID, m.MemberID, m.ClientHost)
}
