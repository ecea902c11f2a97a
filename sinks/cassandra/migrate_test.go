package cassandra

import (
	"slices"
	"testing"

	"github.com/gocql/gocql"
)

// fixedHosts is a policy that offers its hosts in a given order.
type fixedHosts struct {
	gocql.HostSelectionPolicy
	ids []string
}

type fixedHost struct{ info *gocql.HostInfo }

func (h fixedHost) Info() *gocql.HostInfo { return h.info }
func (h fixedHost) Mark(error)            {}

func (p fixedHosts) Pick(gocql.ExecutableQuery) gocql.NextHost {
	left := p.ids
	return func() gocql.SelectedHost {
		if len(left) == 0 {
			return nil
		}
		info := &gocql.HostInfo{}
		info.SetHostID(left[0])
		left = left[1:]
		return fixedHost{info}
	}
}

func TestSchemaChangesMeetAtOneNode(t *testing.T) {
	for _, ids := range [][]string{{"b", "c", "a"}, {"a", "b", "c"}, {"c", "b", "a"}} {
		next := lowestHostFirst{fixedHosts{ids: ids}}.Pick(nil)
		var got []string
		for h := next(); h != nil; h = next() {
			got = append(got, h.Info().HostID())
		}
		if !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("offered in the order %q", got)
		}
	}
}
