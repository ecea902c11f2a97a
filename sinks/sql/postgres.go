package sql

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

//go:embed schema/postgres.sql
var postgresSchema string

// postgres is the dialect of PostgreSQL, through pgx behind database/sql: the
// transactions of this package then are the same for every database, and what
// pgx alone does, arrays as parameters and COPY, database/sql lets through.
type postgres struct {
	// answer bounds the wait for one answer, on the client's side: the server's own
	// bounds do not help where the network has swallowed it.
	answer time.Duration
}

func (postgres) schema() string           { return postgresSchema }
func (postgres) placeholder(n int) string { return fmt.Sprintf("$%d", n) }
func (postgres) fold(name string) string  { return name }
func (postgres) stateTable() *boundTable  { return postgresState }

// begin does not rely on the default of the database or the role. The guard locks
// the lane's row, and is asked again when it had to wait for another transaction:
// a higher level of isolation would add nothing but failures.
func (postgres) begin() string { return "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE" }

// forUpdate waits for a transaction whose client is gone and whose COMMIT may
// still be on its way.
func (postgres) forUpdate() string { return " FOR UPDATE" }

func (p postgres) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, p.answer,
		fmt.Errorf("%w: the server has not answered a statement within %s", framework.ErrUnavailable, p.answer))
}

var postgresState = ownTable("lockstep_state", 4, "lane_id bigint", "operator text", "win bigint", "key_hash bytea", "key bytea", "value bytea")

func (postgres) stateKey(key []byte) []any {
	hash := sha256.Sum256(key)
	return []any{hash[:], key}
}

// clean replaces what no column of text holds.
func (postgres) clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// maxKeyBytes is what fits an index of PostgreSQL, which is a third of a page: a
// longer key may still fit after compression, but nobody could say so beforehand.
func (postgres) maxKeyBytes() int { return 2600 }

// quoteTable quotes a name, and its schema if it has one.
func quoteTable(name string) string {
	if schema, table, ok := strings.Cut(name, "."); ok {
		return quote(schema) + "." + quote(table)
	}
	return quote(name)
}
