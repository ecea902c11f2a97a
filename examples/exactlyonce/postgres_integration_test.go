//go:build integration

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/lockstep-stream/lockstep/integration/servers"
)

// TestTheDemoSurvivesItsCrashesOnPostgres is the demo's whole promise on
// PostgreSQL, with Kafka inside the process.
func TestTheDemoSurvivesItsCrashesOnPostgres(t *testing.T) {
	const events, crashes = 20_000, 3
	dsn := func(database string) string {
		return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", servers.PostgresUser, servers.PostgresPassword, servers.Postgres(t), database)
	}
	admin, err := pgx.Connect(t.Context(), dsn(servers.PostgresDatabase))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.WithoutCancel(t.Context()))
	database := "exactlyonce_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+database); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := admin.Exec(context.WithoutCancel(t.Context()), "DROP DATABASE "+database+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	}()
	args := []string{"-events", fmt.Sprint(events), "-crashes", fmt.Sprint(crashes), "-sink", dsn(database)}
	var out bytes.Buffer
	err = run(t.Context(), args, &out)
	t.Log(&out)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("exactly once: %[1]d produced, %[1]d saved, 0 lost, 0 duplicated, alerts match\n", events)
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("the output does not end with %q", want)
	}
	if n := strings.Count(out.String(), "SIGKILL with"); n != crashes {
		t.Errorf("%d crashes, want %d", n, crashes)
	}
	if strings.Contains(out.String(), servers.PostgresPassword) {
		t.Error("the output shows the password")
	}
}
