package main

import (
	"fmt"
	"reflect"

	"github.com/lockstep-stream/lockstep/framework"
)

// power returns the optional interface P of a sink, or an error that says what it
// cannot do.
func power[P any](sink store, what string) (P, error) {
	p, ok := sink.(P)
	if !ok {
		return p, fmt.Errorf("this sink cannot %s: it is no %s", what, reflect.TypeFor[P]())
	}
	return p, nil
}

// holdsState reports whether a sink may hold the totals of reductions.
func holdsState(sink store) bool {
	g, ok := sink.(interface{ Guarantee() framework.Guarantee })
	return !ok || g.Guarantee().State
}
