package framework

import "github.com/lockstep-stream/lockstep/offsetstore"

// Point names a moment in the life of a lane at which a crash is worth a test. A
// lane comes by them through [Hooks].Reached.
type Point string

// The points, in the order in which a lane comes by. The moments within a save (the
// commit made but nothing applied, half of it applied) and within the completion of
// a former owner's save are the sinks' own.
const (
	// PointClaim: the sink has made the lane the owner, and nothing was read yet.
	PointClaim Point = "claim"
	// PointBeforeSave: a batch is complete, and the sink does not know it.
	PointBeforeSave Point = "before-save"
	// PointAfterSave: the sink has saved a batch, and nobody was told: neither the
	// mirror nor Hooks.Saved.
	PointAfterSave Point = "after-save"
	// PointDrain: a lane that ends in order has saved what it processed, and has
	// not released its claim.
	PointDrain Point = "drain"
)

// Points returns all points, in the order in which a lane comes by.
func Points() []Point {
	return []Point{PointClaim, PointBeforeSave, PointAfterSave, PointDrain}
}

// PointEvent is given to Hooks.Reached.
type PointEvent struct {
	Pipeline       string
	TopicPartition offsetstore.TopicPartition
	Point          Point
}

func (l *lane[W]) reached(p Point) {
	notify(l.e.cfg.Hooks.Reached, PointEvent{l.e.pipeline.name, l.tp, p})
}
