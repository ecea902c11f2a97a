//go:build integration

package cassandra

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/integration/servers"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// authorised returns a keyspace on the server that checks logins, with a position
// in it, and the settings of the superuser.
func authorised(t *testing.T) Config {
	t.Helper()
	cfg := testConfig(t)
	cfg.Hosts, cfg.Username, cfg.Password = []string{servers.CassandraAuth(t)}, servers.AuthUser, servers.AuthPassword
	cfg.Schema, cfg.Tables = []string{logRowsSchema}, []AnyTable{logRows}
	t.Cleanup(func() { dropKeyspace(t, cfg) })
	if err := Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	c, err := s.Claim(t.Context(), "p", in0, offsetstore.At(0))
	if err != nil {
		t.Fatal(err)
	}
	mustSave(t, c, logBatch(0, 7, "v"))
	if err := c.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// withRole returns cfg with the login of a new role that has these grants.
func withRole(t *testing.T, cfg Config, grants ...string) Config {
	t.Helper()
	full, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	name := "role_" + strings.ToLower(rand.Text()[:8])
	run := func(statements ...string) error {
		return withSchemaSession(t.Context(), &full, "", func(s *gocql.Session) error { return runSchema(t.Context(), s, statements) })
	}
	statements := []string{fmt.Sprintf("CREATE ROLE %s WITH PASSWORD = 'a-secret' AND LOGIN = true", name)}
	for _, grant := range grants {
		statements = append(statements, fmt.Sprintf("GRANT %s TO %s", grant, name))
	}
	err = run(statements...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := withSchemaSession(context.Background(), &full, "", func(s *gocql.Session) error { return s.Query("DROP ROLE " + name).Exec() })
		if err != nil {
			t.Error(err)
		}
	})
	cfg.Username, cfg.Password = name, "a-secret"
	return cfg
}

func TestWhoMayOnlyReadListsPositionsAndSavesNothing(t *testing.T) {
	cfg := authorised(t)
	cfg = withRole(t, cfg, "SELECT ON KEYSPACE "+cfg.Keyspace)
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	all, err := s.Positions(t.Context(), "p")
	if err != nil || len(all) != 1 || all[0].Position.Offset != 7 {
		t.Errorf("the positions are %+v, %v", all, err)
	}
	if _, err := s.DeadLetters(t.Context(), "p", in0); err != nil {
		t.Errorf("DeadLetters returned %v", err)
	}
	_, topic := s.Topic(t.Context(), "p", "in", framework.TopicStart{})
	_, claim := s.Claim(t.Context(), "p", in0, offsetstore.At(0))
	reset := s.Reset(t.Context(), framework.Reset{Pipeline: "p", TopicPartition: in0, From: offsetstore.At(7)})
	for what, err := range map[string]error{"Topic": topic, "Claim": claim, "Reset": reset} {
		if !errors.Is(err, framework.ErrConfig) {
			t.Errorf("%s returned %v, want ErrConfig", what, err)
		}
	}
}

func TestWhoSavesNeedsTheKeyspaceAndTheServersSettings(t *testing.T) {
	super := authorised(t)
	save, settings := []string{"SELECT ON KEYSPACE " + super.Keyspace, "MODIFY ON KEYSPACE " + super.Keyspace}, "SELECT ON TABLE system_views.settings"
	for name, test := range map[string]struct {
		grants  []string
		missing string // what the error must name
	}{
		"all":         {append(save, settings), ""},
		"no settings": {save, "system_views.settings"},
		"no writes":   {[]string{save[0], settings}, "MODIFY"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), withRole(t, super, test.grants...))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(t.Context())
			c, err := s.Claim(t.Context(), name, in0, offsetstore.At(0))
			if test.missing != "" {
				if !errors.Is(err, framework.ErrConfig) || !strings.Contains(err.Error(), test.missing) {
					t.Errorf("Claim returned %v, want ErrConfig that names %s", err, test.missing)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			mustSave(t, c, logBatch(0, 3, "v"))
		})
	}
}
