package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

// programCommand makes the test program the real one, for tests of its exit code.
const programCommand = "lockstep-itself"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == programCommand {
		os.Args = os.Args[1:]
		main()
	}
	goleak.VerifyTestMain(m)
}

func lockstep(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestMigrateAndPositions(t *testing.T) {
	dir := t.TempDir()
	dsn := "sqlite://" + filepath.Join(dir, "app.db")
	schema := filepath.Join(dir, "tables.sql")
	if err := os.WriteFile(schema, []byte("CREATE TABLE IF NOT EXISTS mine (id INTEGER PRIMARY KEY);"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be repeated
		if code, _, stderr := lockstep(t, "migrate", "--sink", dsn, "--schema", schema); code != exitOK {
			t.Fatalf("migrate: exit %d: %s", code, stderr)
		}
	}
	save(t, dsn)

	code, out, stderr := lockstep(t, "positions", "--sink", dsn)
	if code != exitOK {
		t.Fatalf("positions: exit %d: %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "PIPELINE") {
		t.Fatalf("positions printed %q, want a heading and two lines", out)
	}
	if got := strings.Fields(lines[1]); got[0] != "a" || got[1] != "in" || got[2] != "0" || got[3] != "42" {
		t.Errorf("first line %q, want a in 0 42", lines[1])
	}
	if names, values := len(strings.Fields(lines[0])), len(strings.Fields(lines[1])); names != values || !strings.Contains(lines[0], " LOST ") {
		t.Errorf("%d names for %d values in %q", names, values, out)
	}
	_, out, _ = lockstep(t, "positions", "--sink", dsn, "--pipeline", "b", "--output", "json")
	var l line
	if err := json.Unmarshal([]byte(out), &l); err != nil || l.Pipeline != "b" || l.NextOffset != 7 || l.SavedAt != nil {
		t.Errorf("JSON %q, %v: want one line of b at 7, never saved", out, err)
	}
	if names := regexp.MustCompile(`"\w*[A-Z]\w*":`).FindAllString(out, -1); len(names) > 0 || !strings.Contains(out, `"dead_lettered":0`) {
		t.Errorf("JSON %q, want all names in snake_case, not %q", out, names)
	}
	code, out, stderr = lockstep(t, "positions", "--sink", dsn, "--pipeline", "c", "--output", "json")
	if code != exitFailed || out != "" || !strings.Contains(stderr, `--pipeline "c": it has no positions; there are some of "a", "b"`) {
		t.Errorf("an unknown pipeline: exit %d, %q, %q; want it and those that exist named on stderr", code, out, stderr)
	}
}

func TestHelpTellsTheExitCodes(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"help"}, {"positions", "--help"}, {"migrate", "--help"}} {
		code, out, stderr := lockstep(t, args...)
		if code != exitOK || stderr != "" || !strings.Contains(out, "Exit codes: 0 success; 1 the work failed") {
			t.Errorf("%q: exit %d, %q, %q", args, code, out, stderr)
		}
	}
	if _, out, _ := lockstep(t, "positions", "--help"); !strings.Contains(out, "table|json") {
		t.Errorf("positions --help says %q", out)
	}
}

// TestExitCodesOfTheProgram runs the program itself.
func TestExitCodesOfTheProgram(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nope.db")
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"help"}, exitOK},
		{[]string{"positions", "--sink", "sqlite://" + missing}, exitFailed},
		{[]string{"positions"}, exitUsage},
	} {
		cmd := exec.Command(os.Args[0], append([]string{programCommand}, c.args...)...)
		out, _ := cmd.CombinedOutput() // its error is the code
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%q: exit code %d, want %d:\n%s", c.args, code, c.code, out)
		}
	}
}

func TestADatabaseThatCannotBeReachedIsAFailure(t *testing.T) {
	code, _, stderr := lockstep(t, "positions", "--sink", "cassandra://127.0.0.1:1/app?start_wait=200ms")
	if code != exitFailed || !strings.Contains(stderr, "127.0.0.1:1") {
		t.Errorf("exit %d, %q; want %d and the address", code, stderr, exitFailed)
	}
}

// save claims two partitions and saves in one.
func save(t *testing.T, dsn string) {
	t.Helper()
	ctx := context.Background()
	sink, err := sql.Open(ctx, sql.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close(ctx)
	tp := offsetstore.TopicPartition{Topic: "in"}
	a, err := sink.Claim(ctx, "a", tp, offsetstore.At(0))
	if err != nil {
		t.Fatal(err)
	}
	to := framework.Progress{Position: offsetstore.At(42)}
	if err := a.Save(ctx, &framework.Batch[sql.Write]{From: a.Progress(), To: to}); err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Claim(ctx, "b", tp, offsetstore.At(7)); err != nil {
		t.Fatal(err)
	}
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"positions"}, "such as --sink sqlite://app.db"},
		{[]string{"positions", "sqlite:///x.db"}, "give the database as --sink sqlite:///x.db"},
		{[]string{"migrate", "cassandra://u:secret@h/x"}, "give the database as --sink cassandra://…@h/x"},
		{[]string{"positions", "--sink", "app.db"}, `--sink "app.db": `},
		{[]string{"positions", "--sink", "mongodb://u:secret@h/db"}, `--sink "mongodb://…@h/db": `},
		{[]string{"positions", "--sink", "cassandra://u:secr@et@h:x/ks"}, `--sink "cassandra://…@h:x/ks": `},
		{[]string{"positions", "--sink", "cassandra://h:9042"}, "keyspace"},
		{[]string{"positions", "--sink", "sqlite://"}, `--sink "sqlite://": `},
		{[]string{"positions", "--sink", "postgres://h"}, `--sink "postgres://h": `},
		{[]string{"positions", "--sink", "u:secret@h"}, `--sink "…@h": `},
		{[]string{"positions", "u:secret@h"}, `unexpected argument "…@h"`},
		{[]string{"positions", "--sink", "sqlite://x.db", "--output", "xml"}, `--output "xml": give table or json`},
		{[]string{"positions", "--sink", "sqlite://x.db", "--json"}, "--json"},
		{[]string{"positions", "--sink", "sqlite://x.db", "--lines"}, "--lines"},
		{[]string{"positions", "--sink", "sqlite://x.db", "extra"}, "extra"},
		{[]string{"migrate", "--sink", "sqlite://x.db", "--schema", "missing.sql"}, `--schema "missing.sql"`},
		{[]string{"rest"}, "unknown command \"rest\"; is it reset?"},
	} {
		code, _, stderr := lockstep(t, c.args...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %q; want %d and %q named", c.args, code, stderr, exitUsage, c.want)
		}
		if strings.Contains(stderr, "secr") {
			t.Errorf("%q: a password is in %q", c.args, stderr)
		}
	}
	if _, err := os.Stat("x.db"); err == nil {
		t.Error("a database was made although the arguments were wrong")
	}
}

func TestPositionsMakesNoDatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nope.db")
	for _, dsn := range []string{"sqlite://" + file, "sqlite://" + file + "?mode=rwc&busy_timeout=5s"} {
		code, _, stderr := lockstep(t, "positions", "--sink", dsn)
		if code != exitFailed || !strings.Contains(stderr, "does not exist; check --sink") || !strings.Contains(stderr, file) {
			t.Errorf("%s: exit %d, %q; want %d and the file named", dsn, code, stderr, exitFailed)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%s: the file is there afterwards (%v)", dsn, err)
		}
	}
}

func TestPositionsOfADatabaseWithoutTablesSaysWhatToDo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := lockstep(t, "positions", "--sink", "sqlite://"+file)
	if code != exitFailed || !strings.Contains(stderr, "lockstep migrate --sink") {
		t.Errorf("exit %d, %q; want %d and the command to run", code, stderr, exitFailed)
	}
}

func TestMigrateNamesTheFileAtFault(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.sql"), filepath.Join(dir, "README.md")
	for file, text := range map[string]string{good: "CREATE TABLE IF NOT EXISTS a (b)", bad: "# Not SQL"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, _, stderr := lockstep(t, "migrate", "--sink", "sqlite://"+filepath.Join(dir, "x.db"), "--schema", good, "--schema", bad)
	if code != exitFailed || !strings.Contains(stderr, "--schema "+bad) {
		t.Errorf("exit %d, %q; want %d and %s named", code, stderr, exitFailed, bad)
	}
}

func TestAnEmptyDatabaseIsSaidToBeEmpty(t *testing.T) {
	dsn := "sqlite://" + filepath.Join(t.TempDir(), "app.db")
	if code, _, stderr := lockstep(t, "migrate", "--sink", dsn); code != exitOK {
		t.Fatalf("migrate: exit %d: %s", code, stderr)
	}
	code, out, stderr := lockstep(t, "positions", "--sink", dsn)
	if code != exitOK || out != "" || !strings.Contains(stderr, "no positions are stored") {
		t.Errorf("exit %d, %q, %q", code, out, stderr)
	}
}

func TestMistakesNameWhatToType(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"position --sink sqlite://x.db", exitUsage, `unknown command "position"; is it positions?`},
		{"position", exitUsage, `unknown command "position"; is it positions?`},
		{"quux", exitUsage, "`lockstep help` lists the commands"},
		{"--bogus", exitUsage, "unknown flag: --bogus\nlockstep: --help tells"},
		{"positions --bogus", exitUsage, "unknown flag: --bogus\nlockstep: --help tells"},
		{"positions --sink sqlite://" + filepath.Dir(text), exitFailed, "check --sink: "},
		{"migrate --sink sqlite://" + text + "/x.db", exitFailed, "check --sink: "},
		{"positions --sink sqlite://x.db --wait -1s", exitUsage, "--wait -1s"},
		{"positions --sink postgres://127.0.0.1:1/db --wait 0", exitFailed, "no connection to the server within 0s"},
		{"positions --sink cassandra://127.0.0.1:1/ks --wait 0", exitFailed, "127.0.0.1:1"},
		{"positions --sink sqlite://" + text, exitFailed, "is no SQLite database"},
	} {
		code, out, stderr := lockstep(t, strings.Fields(test.args)...)
		if code != test.code || out != "" || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "damaged") {
			t.Errorf("lockstep %s: exit %d, %q, %q; want exit %d and %q", test.args, code, out, stderr, test.code, test.want)
		}
	}
}
