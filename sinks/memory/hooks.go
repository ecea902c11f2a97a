package memory

import (
	"context"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Hooks are the places where a test can delay or fail a sink. Each may be nil,
// may block (the context ends when the call's does or the sink is closed), and
// is called from many goroutines at once. An error it returns is what the call
// returns, unchanged.
type Hooks[W any] struct {
	// BeforeTopic and BeforeClaim: an error means that nothing was stored or
	// claimed.
	BeforeTopic func(ctx context.Context, pipeline, topic string) error
	BeforeClaim func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) error

	// BeforeLoad: an error means that nothing was read.
	BeforeLoad func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, keys []framework.StateKey) error

	// BeforeSave: an error means that nothing of the batch was saved. It should
	// be a *framework.SaveError; any other counts, as the treaty has it, as
	// Unknown with the claim spent.
	BeforeSave func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, b *framework.Batch[W]) error

	// AfterSave: the batch was saved; an error is a lost answer.
	AfterSave func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition, b *framework.Batch[W]) error

	// BeforeRelease: an error means that the claim was not given up.
	BeforeRelease func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) error
}
