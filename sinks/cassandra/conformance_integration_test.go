//go:build integration

package cassandra

import (
	"context"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sinktest"
)

// textRow is a row of the table that the conformance suite writes to.
type textRow struct {
	Key   string `cql:"key,partition"`
	Value string `cql:"value"`
}

var textRows = NewTable[textRow]("text_rows")

const textRowsSchema = "CREATE TABLE IF NOT EXISTS text_rows (key text PRIMARY KEY, value text)"

func TestSinkKeepsTheTreaty(t *testing.T) {
	cfg, session := migrated(t, textRowsSchema)
	cfg.Tables = []AnyTable{textRows}
	sinktest.Run(t, sinktest.Harness[Write]{
		Guarantee: framework.Guarantee{Level: framework.ExactlyOnce, State: true, DeadLetters: true},
		Open:      func(ctx context.Context) (framework.Sink[Write], error) { return Open(ctx, *cfg) },
		Write:     func(key, value string) Write { return textRows.Insert(textRow{key, value}) },
		Delete:    func(key string) Write { return textRows.Delete(textRow{Key: key}) },
		Rows: func(ctx context.Context, keys []string) (map[string]string, error) {
			rows := map[string]string{}
			iter := session.Query("SELECT key, value FROM text_rows WHERE key IN ?", keys).WithContext(ctx).Iter()
			for key, value := "", ""; iter.Scan(&key, &value); {
				rows[key] = value
			}
			return rows, iter.Close()
		},
		DeadLetters: func(ctx context.Context, pipeline string, tp offsetstore.TopicPartition) ([]framework.DeadLetter, error) {
			s, err := Open(ctx, *cfg)
			if err != nil {
				return nil, err
			}
			defer s.Close(ctx)
			return s.DeadLetters(ctx, pipeline, tp)
		},
		// No Refused: what Cassandra would refuse after the commit is refused by Check,
		// since then it would keep the partition from going on.
		MaxBatch: 9 << 20,
	})
}
