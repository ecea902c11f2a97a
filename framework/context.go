package framework

import (
	"context"
	"time"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Context is what a handler can know beside the value. It is a context.Context,
// cancelled when the lane is given up, so it can be passed to calls that may
// take long. It is reused for the records of a lane: it is valid during the
// call only, and must not be kept or handed to another goroutine.
type Context struct{ c *call }

var _ context.Context = Context{}

// call is what a Context shows. There is one for each lane.
type call struct {
	ctx      context.Context
	pipeline string
	tp       offsetstore.TopicPartition
	record   *Record // nil while a batch closes
	stage    *stage  // the operator that runs now: whom to blame
}

// Pipeline returns the pipeline's name.
func (x Context) Pipeline() string { return x.c.pipeline }

// Topic returns the record's topic.
func (x Context) Topic() string { return x.c.tp.Topic }

// Partition returns the record's partition.
func (x Context) Partition() int32 { return x.c.tp.Partition }

// Record returns the record the value came from. After a [ReduceByKey] there is
// no single one, and Record returns nil.
func (x Context) Record() *Record { return x.c.record }

// Deadline implements context.Context.
func (x Context) Deadline() (time.Time, bool) { return x.c.ctx.Deadline() }

// Done implements context.Context.
func (x Context) Done() <-chan struct{} { return x.c.ctx.Done() }

// Err implements context.Context.
func (x Context) Err() error { return x.c.ctx.Err() }

// Value implements context.Context.
func (x Context) Value(key any) any { return x.c.ctx.Value(key) }
