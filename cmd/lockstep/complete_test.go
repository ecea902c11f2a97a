package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestShellsCompleteNames(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.claimAndDie(1)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"positions", "--output", ""}, "table json"},
		{[]string{"reset", "--to", ""}, "earliest latest offset:"},
		{[]string{"reset", "--sasl", ""}, "PLAIN SCRAM-SHA-256 SCRAM-SHA-512"},
		{[]string{"totals", "--combine", ""}, "sum min max"},
		{[]string{"totals", "--values", ""}, "json int64 float64"},
		{[]string{"lag", "--sink", b.dsn, "--pipeline", ""}, "spending"},
		{[]string{"reset", "--sink", b.dsn, "--pipeline", "spending", "--topic", ""}, "orders"},
		{[]string{"reset", "--sink", b.dsn, "--pipeline", "other", "--topic", ""}, ""},
		{[]string{"reset", "--sink", "sqlite:///nowhere/x.db", "--pipeline", ""}, ""},
		{[]string{"reset", "--sink", "nonsense", "--pipeline", ""}, ""},
		{[]string{"dead-letters", ""}, "drop list show"},
	} {
		_, out, _ := lockstep(t, append([]string{cobra.ShellCompNoDescRequestCmd}, c.args...)...)
		words := strings.Fields(out)
		if len(words) == 0 || strings.Join(words[:len(words)-1], " ") != c.want { // the last is a directive
			t.Errorf("%q is completed by %q, want %q", c.args, out, c.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, _ := lockstep(t, "completion", shell); code != exitOK || !strings.Contains(out, "lockstep") {
			t.Errorf("completion %s: exit %d, %d bytes", shell, code, len(out))
		}
	}
}

// TestEveryCommandHelps goes through all commands there are.
func TestEveryCommandHelps(t *testing.T) {
	commands := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			visit(c)
		}
		if cmd.HasSubCommands() {
			return
		}
		commands++
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		code, out, stderr := lockstep(t, args...)
		if code != exitOK || stderr != "" {
			t.Errorf("%q: exit %d, %q", args, code, stderr)
		}
		for _, part := range []string{"Exit codes: 0 success", "3 a change was refused", "Examples:\n  " + cmd.CommandPath() + " --sink", "default what LOCKSTEP_SINK says"} {
			if !strings.Contains(out, part) {
				t.Errorf("%q does not say %q", args, part)
			}
		}
		for line := range strings.Lines(cmd.Long) {
			if width := len([]rune(strings.TrimSuffix(line, "\n"))); width > 82 {
				t.Errorf("%q: a line of %d characters: %s", args, width, line)
			}
		}
	}
	visit((&program{}).root())
	if commands < 10 {
		t.Errorf("only %d commands were seen", commands)
	}
}

func TestTheEnvironmentStandsForFlags(t *testing.T) {
	b := processed(t)
	t.Setenv(sinkVariable, b.dsn)
	t.Setenv(brokersVariable, b.brokers)
	if code, out, stderr := lockstep(t, "lag"); code != exitOK || !strings.Contains(out, "0..3") {
		t.Errorf("lag: exit %d, %q, %q", code, out, stderr)
	}
	if code, out, stderr := lockstep(t, "reset", "--pipeline", "spending", "--to", "earliest"); code != exitOK || !strings.Contains(out, dryRunNote) {
		t.Errorf("reset: exit %d, %q, %q", code, out, stderr)
	}
	if code, _, stderr := lockstep(t, "positions", "--sink", "sqlite:///nowhere/x.db"); code != exitFailed || !strings.Contains(stderr, "/nowhere/x.db") {
		t.Errorf("a flag does not win: exit %d, %q", code, stderr)
	}
	t.Setenv(sinkVariable, "cassandra://u:secret@h:x/ks")
	if code, _, stderr := lockstep(t, "positions"); code != exitUsage || strings.Contains(stderr, "secret") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	if _, out, _ := lockstep(t, "positions", "--help"); strings.Contains(out, "secret") {
		t.Error("--help shows a password")
	}
}
