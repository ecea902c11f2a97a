package main

import (
	"context"

	"github.com/lockstep-stream/lockstep/framework"
)

// positionsOnly is a sink that only lists positions.
type positionsOnly []framework.StoredPosition

func (p positionsOnly) Positions(context.Context, string) ([]framework.StoredPosition, error) {
	return p, nil
}

func (p positionsOnly) Close(context.Context) error { return nil }
