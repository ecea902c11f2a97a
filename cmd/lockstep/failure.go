package main

import "errors"

// failure marks an error of the work itself; others are of the command line.
type failure struct {
	error
	code int
}

func (f *failure) Unwrap() error { return f.error }

// failed returns err as a failure, unless it is one or nil.
func failed(err error) error {
	var already *failure
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &failure{err, exitFailed}
}

// refused marks a change that is not made because something is not as it has to be.
func refused(err error) error { return &failure{err, exitRefused} }
