package main

import (
	"context"
	"net"
	"sync"
)

// dam is a TCP proxy in front of the sink. While it is shut nothing flows in
// either direction, and no connection breaks: the sink stands still.
type dam struct {
	listener net.Listener
	target   string
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu   sync.Mutex
	gate chan struct{} // closed: open
}

func newDam(ctx context.Context, target string) (*dam, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &dam{listener: l, target: target, gate: make(chan struct{})}
	close(d.gate)
	ctx, d.cancel = context.WithCancel(ctx)
	d.wg.Go(func() { d.accept(ctx) })
	return d, nil
}

func (d *dam) address() string { return d.listener.Addr().String() }

func (d *dam) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate = make(chan struct{})
}

func (d *dam) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.gate)
}

func (d *dam) wait(ctx context.Context) error {
	d.mu.Lock()
	gate := d.gate
	d.mu.Unlock()
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *dam) accept(ctx context.Context) {
	for {
		near, err := d.listener.Accept()
		if err != nil {
			return // closed
		}
		far, err := net.Dial("tcp", d.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		context.AfterFunc(ctx, func() { _ = near.Close(); _ = far.Close() })
		d.wg.Go(func() { d.pipe(ctx, near, far) })
		d.wg.Go(func() { d.pipe(ctx, far, near) })
	}
}

// pipe copies from one side to the other until either ends, then ends both.
func (d *dam) pipe(ctx context.Context, from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if d.wait(ctx) != nil {
			return
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (d *dam) close() {
	_ = d.listener.Close()
	d.cancel()
	d.wg.Wait()
}
