package cassandra

import (
	"slices"
	"strings"
	"testing"
)

func TestScriptsAreSplitIntoStatements(t *testing.T) {
	got, err := splitCQL(`
-- a comment; with 'quotes
CREATE TABLE a (k text PRIMARY KEY); // another; one
INSERT INTO a (k) VALUES ('it''s; -- text'); /* ; ' */
CREATE TABLE "b;" (k text PRIMARY KEY);;
CREATE FUNCTION f() RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS $$ return 1; $$
-- end`)
	want := []string{
		"CREATE TABLE a (k text PRIMARY KEY)",
		"INSERT INTO a (k) VALUES ('it''s; -- text')",
		`CREATE TABLE "b;" (k text PRIMARY KEY)`,
		"CREATE FUNCTION f() RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS $$ return 1; $$",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestScriptsThatEndInTheMiddleAreRefused(t *testing.T) {
	for _, s := range []string{"SELECT 'a", `SELECT "a`, "SELECT /* a", "AS $$ a"} {
		if got, err := splitCQL(s); err == nil {
			t.Errorf("%q: got %q", s, got)
		}
	}
}

// TestTheOwnSchemaMakesEveryTableOnce also holds it idempotent: running it again
// must change nothing.
func TestTheOwnSchemaMakesEveryTableOnce(t *testing.T) {
	statements, err := splitCQL(Schema())
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{ledgerTable, stageTable, pipelinesTable, stateTable, deadTable} {
		n := 0
		for _, s := range statements {
			if strings.HasPrefix(s, "CREATE TABLE IF NOT EXISTS "+table+" (") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is made %d times", table, n)
		}
	}
	if len(statements) != 5 {
		t.Errorf("there are %d statements", len(statements))
	}
}
