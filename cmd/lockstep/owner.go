package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
)

// owners is what is known of those who own some partitions.
type owners struct {
	names []string // of the positions' owners, each once
	alive bool     // they may be
	why   string   // it is believed that they are alive, or not
}

// owners finds out whether the owners of positions live. A process that was killed
// stays the owner, but the group has no members then.
func (c *change) owners(ctx context.Context, stored []framework.StoredPosition) (owners, error) {
	owned := keep(stored, func(p framework.StoredPosition) bool { return p.Owner != "" })
	o := owners{names: distinct(owned, func(p framework.StoredPosition) string { return p.Owner })}
	if len(owned) == 0 {
		return o, nil
	}
	group := groupOf(c.scope.pipeline, c.kafka.group)
	members, exists, err := c.cluster.members(ctx, group)
	switch {
	case err != nil:
		return o, err
	case !exists:
		o.alive, o.why = true, fmt.Sprintf("Kafka knows no consumer group %q that would tell whether it lives; is it another --group?", group)
	case members > 0:
		o.alive, o.why = true, fmt.Sprintf("consumer group %q has %s", group, count(members, "member"))
	default:
		o.why = fmt.Sprintf("consumer group %q has no members", group)
	}
	return o, nil
}

// refuse returns why a change is not to be made, if so.
func (c *change) refuse(o owners) error {
	if !o.alive || c.fence {
		return nil
	}
	return refused(fmt.Errorf("owned by %s, and %s; stop that process, or give --fence to take the partitions from it", strings.Join(o.names, ", "), o.why))
}

// say tells what becomes of the owners.
func (o owners) say(fence bool) []string {
	names := strings.Join(o.names, ", ")
	switch {
	case len(o.names) == 0:
		return nil
	case !o.alive:
		return []string{fmt.Sprintf("Owned by %s, which is gone: %s.", names, o.why)}
	case !fence:
		return []string{fmt.Sprintf("Owned by %s, and %s: --apply will refuse this. Stop that process, or give --fence to take the partitions from it.", names, o.why)}
	default:
		return []string{fmt.Sprintf("Owned by %s, and %s: it is fenced. Its next save is refused, and it goes on from the new position; until it has something to save it does not notice.", names, o.why)}
	}
}
