package main

import (
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
)

// counter closes reached once the saves of all lanes add up to n records.
type counter struct {
	mu      sync.Mutex
	left    int
	reached chan struct{}
}

func newCounter(n int) *counter { return &counter{left: n, reached: make(chan struct{})} }

func (c *counter) saved(e framework.SavedEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.left
	c.left -= e.Records
	if before > 0 && c.left <= 0 {
		close(c.reached)
	}
}
