// Command streaming runs the example's pipeline until it is stopped: a first
// SIGINT or SIGTERM lets it finish what is in flight, a second kills it.
package main

import (
	"context"
	"os"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
)

func main() {
	app.Main(func(ctx context.Context, args []string) error { return app.Streaming(ctx, args, os.Stderr) })
}
