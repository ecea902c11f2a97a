// Package generate makes the example's events and puts them into Kafka.
package generate

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
)

// The world the events come from.
const (
	sources = 20
	clients = 500
)

// Generator makes events: equal seeds and times make equal events. It is for one
// goroutine.
type Generator struct {
	random *rand.Rand
	id     int64
	at     time.Time
	step   time.Duration
}

// NewGenerator returns a generator whose first event has ID firstID and time at,
// and whose others follow in steps.
func NewGenerator(seed uint64, firstID int64, at time.Time, step time.Duration) *Generator {
	return &Generator{random: rand.New(rand.NewPCG(seed, seed)), id: firstID, at: at, step: step}
}

// Next makes the next event. One in ten has low health.
func (g *Generator) Next() app.Event {
	e := app.Event{
		ID:     g.id,
		TS:     g.at.UnixMilli(),
		Source: fmt.Sprintf("sensor-%02d.plant-%d.example", g.random.IntN(sources), g.id%4),
		Client: fmt.Sprintf("client-%04d", g.random.IntN(clients)),
		Health: g.random.Int32N(100),
	}
	g.id++
	g.at = g.at.Add(g.step)
	return e
}
