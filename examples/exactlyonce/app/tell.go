package app

import (
	"fmt"
	"io"

	"github.com/lockstep-stream/lockstep/framework"
)

// positionLine is what --tell prints: a partition and the next offset to read.
const positionLine = "%d %d\n"

// tellPositions returns hooks that write the position of each claim and save to
// w, in one call of Write each. Who started the program learns from it how far it
// is without asking the database again and again.
func tellPositions(w io.Writer) framework.Hooks {
	tell := func(partition int32, next int64) {
		// Whoever has stopped listening does not want to know.
		_, _ = fmt.Fprintf(w, positionLine, partition, next)
	}
	return framework.Hooks{
		Claimed: func(e framework.ClaimedEvent) { tell(e.TopicPartition.Partition, e.Position.Offset) },
		Saved:   func(e framework.SavedEvent) { tell(e.TopicPartition.Partition, e.To) },
	}
}

// ParsePosition reads a line that the streaming program prints with --tell.
func ParsePosition(line string) (partition int32, next int64, err error) {
	if _, err = fmt.Sscanf(line, positionLine, &partition, &next); err != nil {
		err = fmt.Errorf("%q is not a partition and its position: %w", line, err)
	}
	return partition, next, err
}
