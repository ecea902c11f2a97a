package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestACoordinatorThatIsNotThereIsAskedAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		wait  time.Duration
		fails int // how often, before it answers
		err   error
		asked int
		want  error
	}{
		{"it comes", 10 * time.Second, 3, kerr.CoordinatorNotAvailable, 4, nil},
		{"it does not come", time.Second, 100, kerr.CoordinatorNotAvailable, 6, kerr.CoordinatorNotAvailable},
		{"nobody waits", 0, 100, kerr.CoordinatorLoadInProgress, 1, kerr.CoordinatorLoadInProgress},
		{"it refuses", 10 * time.Second, 100, kerr.GroupAuthorizationFailed, 1, kerr.GroupAuthorizationFailed},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			err := (&cluster{wait: c.wait}).retry(t.Context(), func() error {
				if asked++; asked <= c.fails {
					return c.err
				}
				return nil
			})
			if !errors.Is(err, c.want) || asked != c.asked {
				t.Errorf("%s: asked %d times, want %d; %v, want %v", c.name, asked, c.asked, err, c.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&cluster{wait: time.Hour}).retry(ctx, func() error { return kerr.CoordinatorNotAvailable }); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// Who may not ask for the group still sees the lag.
func TestLagDoesWithoutTheGroup(t *testing.T) {
	t.Parallel()
	b := processed(t)
	b.cluster.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		for _, g := range req.(*kmsg.OffsetFetchRequest).Groups {
			group := kmsg.NewOffsetFetchResponseGroup()
			group.Group, group.ErrorCode = g.Group, kerr.GroupAuthorizationFailed.Code
			resp.Groups = append(resp.Groups, group)
		}
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil, true
	})
	out := b.want(exitOK, []string{"what the consumer group has committed is not known", "GROUP_AUTHORIZATION_FAILED"}, "lag")
	if line := strings.Join(strings.Fields(strings.Split(out, "\n")[1]), " "); !strings.HasPrefix(line, "spending orders 0 3 - 0..3 0 ") {
		t.Errorf("the first line is %q", line)
	}
}
