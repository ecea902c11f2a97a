package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
)

// These three are the job, however its result is kept. A record is a line such as
// "GET /cart 503".

// failed is the filter: it keeps requests that the server is to blame for.
func failed(line string) bool {
	fields := strings.Fields(line)
	return len(fields) == 3 && strings.HasPrefix(fields[2], "5")
}

// count is a number of requests with one path.
type count = framework.Keyed[string, int64]

// byPath is the map.
func byPath(line string) count { return count{Key: strings.Fields(line)[1], Value: 1} }

// add is the reduce.
func add(a, b int64) int64 { return a + b }

// show prints counts in order of the paths.
func show(out io.Writer, what string, counts map[string]int64) {
	for _, path := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "%s (%s,%d)\n", what, path, counts[path])
	}
}
