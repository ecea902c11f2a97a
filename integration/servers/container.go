package servers

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
)

// container is a server that is a service of a compose project. Its data is in
// the project's volume, and survives a stop.
type container struct {
	compose *compose
	service string
}

// start creates the container, or starts the one that was stopped. Image pulls
// happen here, and do not count against the start timeout.
func (c *container) start(ctx context.Context) error {
	return c.compose.run(ctx, "up", "--detach", "--no-recreate", c.service)
}

func (c *container) stop(ctx context.Context) error {
	return c.compose.run(ctx, "stop", "--timeout", strconv.Itoa(int(stopGrace.Seconds())), c.service)
}

// kill asks first: compose refuses to kill what does not run.
func (c *container) kill(ctx context.Context) error {
	running, err := c.compose.command(ctx, "ps", "--quiet", "--status", "running", c.service).Output()
	if err != nil {
		return fmt.Errorf("docker compose ps %s: %w", c.service, err)
	}
	if len(bytes.TrimSpace(running)) == 0 {
		return nil
	}
	return c.compose.run(ctx, "kill", c.service)
}

// exited cannot be told cheaply: one that ends is noticed when its time is up.
func (c *container) exited() <-chan struct{} { return nil }

func (c *container) tail(ctx context.Context) string {
	out, err := c.compose.command(ctx, "logs", "--no-color", "--tail", strconv.Itoa(tailLines), c.service).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return lastLines(out, tailLines)
}
