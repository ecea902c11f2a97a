package cassandra

import (
	_ "embed"
	"fmt"
	"strings"
)

// The sink's own tables. They live beside the program's tables in one keyspace,
// hence the prefix.
const (
	ledgerTable    = "lockstep_ledger"
	stageTable     = "lockstep_stage"
	pipelinesTable = "lockstep_pipelines"
	stateTable     = "lockstep_state"
	deadTable      = "lockstep_dead"
)

//go:embed schema/lockstep.cql
var ownSchema string

// Schema returns the statements of the sink's own tables, as they are in
// schema/lockstep.cql, for operators who create tables themselves.
func Schema() string { return ownSchema }

// splitCQL splits a script into its statements, without their semicolons.
// Comments are dropped; quoted text may contain anything.
func splitCQL(script string) ([]string, error) {
	var statements []string
	var b strings.Builder
	for s := script; s != ""; {
		n, skip, err := nextToken(s)
		if err != nil {
			return nil, err
		}
		switch {
		case skip:
			b.WriteByte(' ')
		case s[:n] == ";":
			statements = appendStatement(statements, b.String())
			b.Reset()
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return appendStatement(statements, b.String()), nil
}

func appendStatement(to []string, s string) []string {
	if s = strings.TrimSpace(s); s != "" {
		return append(to, s)
	}
	return to
}

// delimiters are the pairs between which a semicolon means nothing, and whether
// they enclose a comment.
var delimiters = []struct {
	open, end string
	comment   bool
}{
	{"--", "\n", true}, {"//", "\n", true}, {"/*", "*/", true},
	{"$$", "$$", false}, {"'", "'", false}, {`"`, `"`, false},
}

// nextToken returns the length of the first token of s: quoted text, a comment
// (skip), or one byte. A doubled quote is simply two quoted texts.
func nextToken(s string) (n int, skip bool, err error) {
	for _, d := range delimiters {
		if !strings.HasPrefix(s, d.open) {
			continue
		}
		end := strings.Index(s[len(d.open):], d.end)
		switch {
		case end >= 0:
			return len(d.open) + end + len(d.end), d.comment, nil
		case d.end == "\n":
			return len(s), true, nil
		default:
			return 0, false, fmt.Errorf("cassandra: schema: %s without %s at %.40q", d.open, d.end, s)
		}
	}
	return 1, false, nil
}
