package framework

import (
	"errors"
	"fmt"
	"regexp"
)

// Pipeline is a checked description of one job: what is done with the records
// of its topics. All its branches commit with one offset. W is the write type of
// the sinks it can run on. It is immutable and may be used by several runners.
type Pipeline[W any] struct {
	name     string
	root     Stream[W]
	policies [3]FailurePolicy // by StageKind
	needs    Guarantee
}

// Name returns the pipeline's name.
func (p *Pipeline[W]) Name() string { return p.name }

// PipelineOption adjusts a pipeline.
type PipelineOption func(*settings)

type settings struct {
	policies    [3]FailurePolicy
	atLeastOnce bool
}

// AcceptAtLeastOnce lets the pipeline run on sinks that may let outputs take
// effect again after a crash. Without it they are refused.
func AcceptAtLeastOnce() PipelineOption {
	return func(s *settings) { s.atLeastOnce = true }
}

// OnDecodeFailure sets what happens to records whose value cannot be decoded.
func OnDecodeFailure(p FailurePolicy) PipelineOption {
	return func(s *settings) { s.policies[StageDecode] = p }
}

// OnHandlerFailure sets what happens to records for which an operator fails,
// unless the operator has a policy of its own ([OnFailure]). Operators after a
// [ReduceByKey] always stop the lane, after the same number of retries.
func OnHandlerFailure(p FailurePolicy) PipelineOption {
	return func(s *settings) { s.policies[StageHandler] = p }
}

// OnOutputFailure sets what happens to records that led to a write which the
// sink could never save: too large, or with a key it cannot use.
func OnOutputFailure(p FailurePolicy) PipelineOption {
	return func(s *settings) { s.policies[StageOutput] = p }
}

// pipelineName is what every sink can keep as it is. It begins with a letter or
// digit so that no name looks like a flag.
var pipelineName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// NewPipeline checks a description and gives it its name. The name finds the
// saved positions and state: another name is another pipeline, which starts
// anew. It has at most 100 letters, digits, '.', '_' and '-', and is never
// rewritten. All mistakes found are reported together; they match [ErrConfig].
func NewPipeline[W any](name string, root Stream[W], opts ...PipelineOption) (*Pipeline[W], error) {
	var s settings
	for _, o := range opts {
		o(&s)
	}
	c := checker{seen: map[*info]bool{}, reduces: map[string]bool{}}
	c.name(name)
	for _, p := range s.policies {
		c.policy("pipeline", p)
	}
	for _, in := range inputs(root) {
		c.visit(in)
	}
	if len(c.problems) > 0 {
		return nil, fmt.Errorf("pipeline %q: %w: %w", name, ErrConfig, errors.Join(c.problems...))
	}
	needs := Guarantee{Level: ExactlyOnce, State: len(c.reduces) > 0, DeadLetters: c.deadLetters}
	if s.atLeastOnce {
		needs.Level = AtLeastOnce
	}
	return &Pipeline[W]{name: name, root: root, policies: s.policies, needs: needs}, nil
}

// checker walks the nodes from the root to the From and collects mistakes.
type checker struct {
	problems    []error
	seen        map[*info]bool
	reduces     map[string]bool
	origins     int
	deadLetters bool
}

func (c *checker) problemf(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}

func (c *checker) name(name string) {
	switch {
	case name == "":
		c.problemf("the pipeline has no name; give it one, it finds the saved positions")
	case !pipelineName.MatchString(name):
		c.problemf("the name must be 1 to 100 letters, digits, '.', '_' or '-', and begin with a letter or digit")
	}
}

func (c *checker) policy(where string, p FailurePolicy) {
	if err := p.validate(); err != nil {
		c.problemf("%s: %w", where, err)
	}
	if p.Action == ActionDeadLetter {
		c.deadLetters = true
	}
}

func (c *checker) visit(n *info) {
	if c.seen[n] {
		return
	}
	c.seen[n] = true
	if n.problem != nil {
		c.problems = append(c.problems, n.problem)
	}
	c.origin(n)
	c.reduction(n)
	c.ownPolicy(n)
	for _, in := range n.inputs {
		c.visit(in)
	}
}

func (c *checker) origin(n *info) {
	if !n.origin {
		return
	}
	if c.origins++; c.origins == 2 {
		c.problemf("there are two From; use one, and branch from the Stream it returns")
	}
}

func (c *checker) reduction(n *info) {
	if n.reduce == "" {
		return
	}
	if c.reduces[n.reduce] {
		c.problemf("two ReduceByKey are named %q; the name finds the saved state, so each needs its own", n.reduce)
	}
	c.reduces[n.reduce] = true
	if afterReduce(n) {
		c.problemf("ReduceByKey %q follows another ReduceByKey: it would add up running totals, which come as often as batches close; branch before the first one", n.reduce)
	}
}

func (c *checker) ownPolicy(n *info) {
	if n.stage == nil || n.stage.policy == nil {
		return
	}
	c.policy(n.stage.name, *n.stage.policy)
	if n.stage.policy.Action != ActionStop && (n.reduce != "" || afterReduce(n)) {
		c.problemf("%s: only ActionStop is allowed in and after a ReduceByKey: a failure there has no single record to blame", n.stage.name)
	}
}

// afterReduce reports whether anything that reaches n came out of a ReduceByKey.
func afterReduce(n *info) bool {
	for _, in := range n.inputs {
		if in.reduce != "" || afterReduce(in) {
			return true
		}
	}
	return false
}
