package framework

import (
	"errors"
	"fmt"
)

// Stream describes values of type T on their way from a record to a sink. It is
// a description only: operators ([Map], [Filter], [FlatMap], [ReduceByKey],
// [Merge]) return new ones, [NewPipeline] checks the whole, and each partition
// runs a chain of its own. A Stream is immutable and may be used by several
// operators: it is evaluated once per record all the same.
//
// Mistakes made while describing (a nil function, a name used twice) are kept
// in the Stream and reported by [NewPipeline].
type Stream[T any] struct{ n *node[T] }

// node is one operator. build connects a lane's chain: it arranges for out to
// be called with each value, and asks the nodes upstream to do the same.
type node[T any] struct {
	info
	build func(b *builder, out func(T) error)
}

// info is what validation needs to know of a node, whatever its type.
type info struct {
	stage   *stage
	inputs  []*info
	problem error  // what is wrong with this operator alone
	origin  bool   // it is a From
	reduce  string // the name of a ReduceByKey, else ""
}

// stage names an operator in errors and carries its failure policy.
type stage struct {
	kind   StageKind
	name   string
	policy *FailurePolicy // nil: the pipeline's for this kind
}

// StageOption adjusts one operator.
type StageOption func(*stage)

// Named gives an operator a name for errors and dead letters: "map to-minute"
// instead of "map".
func Named(name string) StageOption {
	return func(s *stage) { s.name += " " + name }
}

// OnFailure gives one operator a policy of its own. After a [ReduceByKey] only
// [ActionStop] is allowed, since a failure there has no single record to
// blame; [NewPipeline] refuses anything else.
func OnFailure(p FailurePolicy) StageOption {
	return func(s *stage) { s.policy = &p }
}

// derive makes a node with one input. attach returns what is done with each
// value of the input, given where results go.
func derive[T, U any](in Stream[T], name string, missing bool, opts []StageOption,
	attach func(c *call, st *stage, out func(U) error) func(T) error,
) Stream[U] {
	st := &stage{kind: StageHandler, name: name}
	for _, o := range opts {
		o(st)
	}
	n := &node[U]{info: info{stage: st, inputs: inputs(in)}}
	if missing {
		n.problem = fmt.Errorf("%s: the function is nil", st.name)
	}
	n.build = func(b *builder, out func(U) error) {
		connect(b, in, attach(b.call, st, out))
	}
	return Stream[U]{n}
}

func inputs[T any](in Stream[T]) []*info {
	if in.n == nil {
		return []*info{{problem: errors.New("a Stream was not made by From or an operator")}}
	}
	return []*info{&in.n.info}
}

// builder makes the chain of one lane from the nodes.
type builder struct {
	call       *call
	junction   map[any]any // *node[T] to its *junction[T]
	barriers   []barrier
	entry      func(*Record) error
	cacheBytes func() int // of one barrier, now
}

// junction passes a node's values to everyone who uses that node, in the order
// in which they were connected. It is what makes a shared Stream run once.
type junction[T any] struct{ outs []func(T) error }

func (j *junction[T]) emit(v T) error {
	for _, out := range j.outs {
		if err := out(v); err != nil {
			return err
		}
	}
	return nil
}

func connect[T any](b *builder, s Stream[T], out func(T) error) {
	if j, ok := b.junction[s.n]; ok {
		j := j.(*junction[T])
		j.outs = append(j.outs, out)
		return
	}
	j := &junction[T]{outs: []func(T) error{out}}
	b.junction[s.n] = j
	s.n.build(b, j.emit)
}
