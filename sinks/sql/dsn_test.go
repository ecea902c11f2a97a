package sql_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

func TestDSNErrorsNameWhatIsWrong(t *testing.T) {
	for dsn, want := range map[string]string{
		"":                                                "DSN is empty",
		"app.db":                                          "no scheme",
		"sqlite:app.db":                                   "no scheme",
		"mysql://u:secret@host/db":                        `unknown scheme "mysql"; supported: sqlite, postgres, postgresql`,
		"postgres:u:secret@host/db":                       "no scheme",
		"postgres://u:sec/secret@host/db":                 "percent-encoded",
		"postgres://u:secret@host/db#secret":              "percent-encoded",
		"postgres://u:secret@host":                        "names no database",
		"postgresql://u:secret@host/":                     "names no database",
		"postgres://u:secret@host:x/db":                   "percent-encoded",
		"postgres://u:secret@host/db?sslmode=yes":         "sslmode is invalid",
		"postgres://u:secret@host/db?start_wait=60":       "start_wait=\"60\" is not a positive duration",
		"postgres://u:secret@host/db?writers=0":           "writers=\"0\" is not a number from 1",
		"postgres://u:secret@host/db?writers=1&writers=2": "writers is given 2 times",
		"postgres://u:secret@host/db?lock_timeout=%zz":    "DSN parameters",
		"SQLITE:///a.db":                                  "unknown scheme",
		"sqlite://":                                       "names no database file",
		"sqlite://?mode=rw":                               "names no database file",
		"sqlite://:memory:":                               "memory sink",
		"sqlite:///tmp/":                                  "is a directory",
		"sqlite:///a#b.db":                                "write %23",
		"sqlite:///a%zz.db":                               "a%zz.db",
		"sqlite:///a%00.db":                               "NUL",
		"sqlite:///a.db?cache=shared":                     `parameter "cache" is unknown; known are busy_timeout, mode and synchronous`,
		"sqlite:///a.db?mode=ro":                          `mode="ro": give rwc or rw`,
		"sqlite:///a.db?mode=rw&mode=rwc":                 "mode is given 2 times",
		"sqlite:///a.db?synchronous=off":                  "give full or normal",
		"sqlite:///a.db?busy_timeout=5":                   "busy_timeout",
		"sqlite:///a.db?busy_timeout=-1s":                 "busy_timeout",
		"sqlite:///a.db?busy_timeout=100000h":             "busy_timeout",
		"sqlite:///a.db?mode=rw;synchronous=off":          "DSN parameters",
	} {
		_, err := sql.ParseDSN(dsn)
		if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseDSN(%q) returned %v, want ErrConfig with %q", dsn, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseDSN(%q) shows the password: %v", dsn, err)
		}
	}
}

func TestOpenNamesThePathItCannotUse(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		dsn  string
		want string
		kind error
	}{
		"missing directory": {"sqlite://" + dir + "/none/app.db", "none", framework.ErrConfig},
		"a directory":       {"sqlite://" + dir, "is a directory", framework.ErrConfig},
		"missing file":      {"sqlite://" + dir + "/none.db?mode=rw", "mode=rw creates no database: stat ", framework.ErrConfig},
		"not a database":    {"sqlite://" + garbage, "garbage.db is no SQLite database", framework.ErrConfig},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sql.Open(t.Context(), sql.Config{DSN: test.dsn})
			if err == nil {
				s.Close(t.Context())
			}
			if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Open returned %v, want %v with %q", err, test.kind, test.want)
			}
		})
	}
}

func TestPathsOfAnySpellingNameOneFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("sub dir", 0o700); err != nil {
		t.Fatal(err)
	}
	for dsn, file := range map[string]string{
		"sqlite://relative.db":                   "relative.db",
		"sqlite://sub%20dir/a%23b%3Fc%25.db":     "sub dir/a#b?c%.db",
		"sqlite://" + dir + "/absolute.db":       "absolute.db",
		"sqlite://:odd.db?synchronous=normal":    ":odd.db",
		"sqlite://file:x.db?busy_timeout=1500ms": "file:x.db",
	} {
		openSink(t, sql.Config{DSN: dsn})
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

func FuzzParseDSN(f *testing.F) {
	for _, seed := range []string{
		"sqlite:///a.db", "sqlite://a.db?mode=rw&synchronous=normal&busy_timeout=5s", "sqlite://%", "://", "sqlite://?a", "postgres://x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		c, err := sql.ParseDSN(dsn)
		if err != nil && !errors.Is(err, framework.ErrConfig) {
			t.Errorf("ParseDSN(%q) returned %v, not an ErrConfig", dsn, err)
		}
		if err == nil && (c.DSN != dsn || !strings.HasPrefix(dsn, "sqlite://")) {
			t.Errorf("ParseDSN(%q) returned %q", dsn, c.DSN)
		}
	})
}

func TestPostgresDSNSaysHowLongToWait(t *testing.T) {
	for dsn, want := range map[string]time.Duration{
		"postgres://h/db":                  0,
		"postgresql://h/db?start_wait=90s": 90 * time.Second,
	} {
		if c, err := sql.ParseDSN(dsn); err != nil || c.StartWait != want || c.DSN != dsn {
			t.Errorf("ParseDSN(%q) returned %+v, %v", dsn, c, err)
		}
	}
}
