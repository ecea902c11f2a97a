package cassandra

import "reflect"

// Optional is the value of a column that a write may leave alone. Its zero value
// is unset: the column is not written and keeps what it has. [Set] writes a
// value, [Clear] writes null, which removes the value (and costs a tombstone).
//
// A pointer field is the shorter form where clearing is not needed: nil is
// unset, and there is no way to clear.
type Optional[T any] struct {
	value T
	state cellState
}

type cellState uint8

const (
	cellUnset cellState = iota
	cellClear
	cellSet
)

// Set returns an Optional that writes v.
func Set[T any](v T) Optional[T] { return Optional[T]{value: v, state: cellSet} }

// Clear returns an Optional that writes null.
func Clear[T any]() Optional[T] { return Optional[T]{state: cellClear} }

// Get returns the value, and whether there is one.
func (o Optional[T]) Get() (T, bool) { return o.value, o.state == cellSet }

// IsUnset reports whether the column is left alone.
func (o Optional[T]) IsUnset() bool { return o.state == cellUnset }

// IsClear reports whether the column is cleared.
func (o Optional[T]) IsClear() bool { return o.state == cellClear }

// cell is how the encoder looks inside, whatever T is.
func (o *Optional[T]) cell() (cellState, any) { return o.state, &o.value }

// optionalCell is implemented by every *Optional.
type optionalCell interface{ cell() (cellState, any) }

// optionalElem returns T of an Optional[T].
func optionalElem(t reflect.Type) (reflect.Type, bool) {
	o, ok := reflect.New(t).Interface().(optionalCell)
	if !ok {
		return nil, false
	}
	_, p := o.cell()
	return reflect.TypeOf(p).Elem(), true
}
