// Command generator writes the example's events to Kafka, for the terminal
// beside the one that runs streaming.
package main

import (
	"context"
	"os"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/examples/exactlyonce/generate"
)

func main() {
	app.Main(func(ctx context.Context, args []string) error { return generate.Program(ctx, args, os.Stderr) })
}
