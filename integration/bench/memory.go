package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-stream/lockstep/sinks/cassandra"
)

// The bounds of the memory part.
const (
	peakBound  = 200 << 20        // of VmHWM, bytes
	growth     = 8 << 20          // of VmHWM while the sink stands still: the runtime's own unrest
	settle     = 20 * time.Second // of work before the sink stands still
	standstill = time.Minute
	catchUp    = 10 * time.Minute
)

// benchMemory watches the example's streaming app: how much memory it takes at
// most, and whether that grows while its sink does not answer.
func benchMemory(ctx context.Context, o options, r *report) error {
	topic, err := newTopic(ctx, o, o.waiting)
	if err != nil {
		return err
	}
	dam, err := newDam(ctx, o.cassandra)
	if err != nil {
		return err
	}
	defer dam.close()
	app, err := startApp(ctx, o, topic, dam.address())
	if err != nil {
		return err
	}
	defer app.stop()

	if err := app.work(ctx, settle); err != nil {
		return err
	}
	dam.shut()
	if err := app.work(ctx, 5*time.Second); err != nil { // what was in flight lands
		return err
	}
	before, err := app.peak()
	if err != nil {
		return err
	}
	if err := app.work(ctx, standstill); err != nil {
		return err
	}
	after, err := app.peak()
	if err != nil {
		return err
	}
	dam.open()
	if err := app.untilSaved(ctx, o.waiting); err != nil {
		return err
	}
	most, err := app.peak()
	if err != nil {
		return err
	}
	r.verdict(after-before <= growth, "memory\tgrowth of the peak while the sink stood still for %s\t%.1f MiB\t\tbound %d MiB", standstill, mib(after-before), growth>>20)
	r.verdict(most <= peakBound, "memory\tpeak (VmHWM) over %d waiting records\t%.1f MiB\t\tbound %d MiB", o.waiting, mib(most), peakBound>>20)
	return nil
}

func mib(n int) float64 { return float64(n) / (1 << 20) }

// streaming is the example's streaming program in a process of its own.
type streaming struct {
	cmd    *exec.Cmd
	exited chan error
	sink   *cassandra.Sink
	dir    string
}

func startApp(ctx context.Context, o options, topic, cassandraAddr string) (*streaming, error) {
	dir, err := os.MkdirTemp("", "lockstep-bench-")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "streaming")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/lockstep-stream/lockstep/examples/exactlyonce/cmd/streaming")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the streaming app: %w\n%s", err, out)
	}
	cfg, err := keyspace(ctx, o)
	if err != nil {
		return nil, err
	}
	sink, err := cassandra.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "cassandra", Host: cassandraAddr, Path: cfg.Keyspace}
	cmd := exec.CommandContext(ctx, program, "-brokers", strings.Join(o.brokers, ","), "-topic", topic, "-group", uuid.NewString(), "-sink", dsn.String())
	cmd.Stderr = io.Discard
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a := &streaming{cmd: cmd, exited: make(chan error, 1), sink: sink, dir: dir}
	go func() { a.exited <- cmd.Wait() }()
	return a, nil
}

// work waits while the app works.
func (a *streaming) work(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case err := <-a.exited:
		a.exited <- err
		return fmt.Errorf("the streaming app ended: %w", errors.Join(err, errors.New("it should go on")))
	}
}

// untilSaved waits until the positions add up to n.
func (a *streaming) untilSaved(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for {
		positions, err := a.sink.Positions(ctx, "")
		if err != nil {
			return err
		}
		saved := int64(0)
		for _, p := range positions {
			saved += p.Position.Offset
		}
		if saved >= int64(n) {
			return nil
		}
		if err := a.work(ctx, time.Second); err != nil {
			return err
		}
	}
}

// peak returns the most resident memory the app has had, in bytes.
func (a *streaming) peak() (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("the memory part reads /proc, so it needs Linux: %w", err)
	}
	_, after, found := strings.Cut(string(status), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(after, &kib); err != nil || !found {
		return 0, fmt.Errorf("no VmHWM in /proc/%d/status: %w", a.cmd.Process.Pid, err)
	}
	return kib << 10, nil
}

func (a *streaming) stop() {
	_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	if err := <-a.exited; err != nil {
		slog.Warn("the streaming app ended badly", "error", err)
	}
	_ = a.sink.Close(context.Background())
	_ = os.RemoveAll(a.dir)
}
