package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

// streamingCommand makes this program the streaming program.
const streamingCommand = "streaming"

// child is the pipeline's process.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer // its end stops the process, ours included
	log   *tail
	told  *told
	ended chan struct{}
	err   error // valid once ended is closed
}

// startChild starts the pipeline's process, which will continue at positions. It
// stands still after saving hold events; 0 means never.
func (d *demo) startChild(positions map[int32]int64, hold int64) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{log: &tail{}, told: newTold(positions), ended: make(chan struct{})}
	c.cmd = exec.Command(self, streamingCommand,
		"--brokers", d.brokers, "--topic", d.topic, "--sink", d.sink, "--wait", d.wait.String(), "--stdin", "--tell",
		// A static member takes its predecessor's partitions at once.
		"--group", d.topic, "--instance", "demo",
		"--batch", strconv.Itoa(d.batch()), "--hold", strconv.FormatInt(hold, 10))
	// These are no files, so Wait returns only after the last word was read.
	c.cmd.Stdout, c.cmd.Stderr = c.told, c.log
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.ended)
		c.err = c.cmd.Wait()
	}()
	return c, nil
}

// batch returns how many records are saved at once: so few that a process which
// is to stand still cannot get far beyond.
func (d *demo) batch() int {
	return min(2000, max(1, d.events/(eventsPerCrash*2*(d.crashes+1))))
}

// kill ends the process as a crash does, and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // the only error is that it has ended
	<-c.ended
}

// stop lets the process finish and requires that it ends well.
func (c *child) stop(ctx context.Context) error {
	// This fails only if the process has ended by itself; then its own words say
	// more.
	_ = c.stdin.Close()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return c.failed(fmt.Errorf("the pipeline's process did not stop within %v", patience))
	case <-c.ended:
	}
	if c.err != nil {
		return c.failed(fmt.Errorf("the pipeline's process stopped with an error: %w", c.err))
	}
	return nil
}

// endedEarly says why the process has ended although nobody asked it to. Ctrl-C
// reaches it as well as us, and then it is no fault.
func (c *child) endedEarly(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case c.err == nil:
		return c.failed(errors.New("the pipeline's process stopped before its work was done"))
	default:
		return c.failed(fmt.Errorf("the pipeline's process ended by itself: %w", c.err))
	}
}

// failed adds to err what the process has said, and whose fault it is.
func (c *child) failed(err error) error {
	c.kill()
	err = fmt.Errorf("%w; its last words:\n%s", err, c.log)
	var exit *exec.ExitError
	if errors.As(c.err, &exit) && exit.ExitCode() == 2 {
		err = fmt.Errorf("%w: %w", framework.ErrConfig, err)
	}
	return err
}
