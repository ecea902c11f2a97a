package servers

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// inCheckout puts an empty compose file above the working directory.
func inCheckout(t *testing.T) {
	t.Helper()
	root := t.TempDir()
	below := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, composeFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
}

func TestDockerCountsOnlyIfItsEngineAnswers(t *testing.T) {
	for script, want := range map[string]bool{
		`echo 28.2.2`:                     true,
		`echo cannot connect >&2; exit 1`: false,
		`echo`:                            false,
		`case "$1" in compose) exit 1;; *) echo 28.2.2;; esac`:        false,
		`case "$1" in info) echo 28.2.2;; compose) echo v2.30;; esac`: true,
	} {
		fakeCommand(t, "docker", script)
		if got := dockerAnswers(t.Context()); got != want {
			t.Errorf("%s: got %t, want %t", script, got, want)
		}
	}
}

func TestContainerLifeAndEnd(t *testing.T) {
	inCheckout(t)
	calls := fakeCommand(t, "docker", `case " $* " in *" ps "*) echo id;; *" logs "*) echo its log;; esac`)
	c, err := newCompose(Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.kafka(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kafka := l.backend
	for _, err := range []error{kafka.start(t.Context()), kafka.stop(t.Context()), kafka.kill(t.Context()), c.close(t.Context())} {
		if err != nil {
			t.Error(err)
		}
	}
	name, tool, _ := strings.Cut(l.env[0], "=")
	t.Setenv(name, tool)
	if got := KafkaConsumerGroups(t, "--list").Args; !slices.Equal(got, append(append([]string{"docker"}, c.args()...), "exec", "-T", "kafka", "/opt/kafka/bin/kafka-consumer-groups.sh", "--list")) {
		t.Errorf("got tool %q", got)
	}
	if got := kafka.tail(t.Context()); got != "its log" {
		t.Errorf("got log %q", got)
	}
	want := []string{"up --detach --no-recreate kafka", "stop --timeout 30 kafka", "ps --quiet --status running kafka", "kill kafka",
		"down --volumes --remove-orphans --timeout 0", "logs --no-color --tail 60 kafka"}
	if got := composeCalls(calls(), c); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got calls\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// composeCalls cuts from each call what all have in common.
func composeCalls(noted string, c *compose) []string {
	var calls []string
	for line := range strings.Lines(noted) {
		calls = append(calls, strings.TrimPrefix(strings.TrimSpace(line), strings.Join(c.args(), " ")+" "))
	}
	return calls
}

func TestContainersHavePortsOfTheirOwn(t *testing.T) {
	inCheckout(t)
	fakeCommand(t, "docker", `case " $* " in *" up "*) echo "ports $LOCKSTEP_CASSANDRA_PORT $LOCKSTEP_CASSANDRA_AUTH_PORT" >&2; exit 1;; esac`)
	c, err := newCompose(Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	plain, _ := c.cassandra(t.Context(), cassandraKind{})
	auth, _ := c.cassandra(t.Context(), cassandraKind{auth: true})
	if _, err := c.cassandra(t.Context(), cassandraKind{nodes: 3}); err == nil {
		t.Error("a container was taken for three nodes")
	}
	want := strings.ReplaceAll("ports "+plain[0].addr+" "+auth[0].addr, loopback+":", "")
	if err := auth[0].backend.start(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want it to say %q", err, want)
	}
}

func TestComposeFileMustBeNear(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := newCompose(Options{Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "inside a checkout") {
		t.Errorf("got %v", err)
	}
}
