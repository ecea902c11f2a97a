package framework

import "errors"

// Merge joins branches of one pipeline into one stream. For each record the
// branches run in the order given, so writes keep that order; what a
// [ReduceByKey] returns comes at the end of its batch, after all of them.
func Merge[T any](ins ...Stream[T]) Stream[T] {
	n := &node[T]{info: info{stage: &stage{kind: StageHandler, name: "merge"}}}
	for _, in := range ins {
		n.inputs = append(n.inputs, inputs(in)...)
	}
	if len(ins) == 0 {
		n.problem = errors.New("Merge: no streams given")
	}
	n.build = func(b *builder, out func(T) error) {
		for _, in := range ins {
			connect(b, in, out)
		}
	}
	return Stream[T]{n}
}
