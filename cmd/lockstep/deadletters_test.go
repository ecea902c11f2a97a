package main

import (
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
)

func letterArgs(what, more string) []string {
	return append([]string{"dead-letters", what}, strings.Fields(more)...)
}

// wantSink runs a command that needs the sink alone.
func (b *bed) wantSink(code int, says []string, args ...string) (stdout string) {
	b.t.Helper()
	got, stdout, stderr := lockstep(b.t, append(args, "--sink", b.dsn)...)
	if got != code {
		b.t.Fatalf("%q: exit %d, want %d\n%s\n%s", args, got, code, stdout, stderr)
	}
	for _, text := range says {
		if !strings.Contains(stdout+stderr, text) {
			b.t.Errorf("%q: it does not say %q:\n%s%s", args, text, stdout, stderr)
		}
	}
	return stdout
}

func TestDeadLettersAreListedShownAndDropped(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.policy = framework.FailurePolicy{Action: framework.ActionDeadLetter}
	b.wantSink(exitOK, []string{"there are no dead letters"}, letterArgs("list", "")...)
	b.produce(0, -1, 2, -3)
	b.produce(1, -4)
	b.process(3, 1, 0)

	out := b.wantSink(exitOK, []string{"PIPELINE", "-1 cents are not possible"}, letterArgs("list", "")...)
	if strings.Count(out, "\n") != 4 {
		t.Errorf("the list is %s", out)
	}
	out = b.wantSink(exitOK, []string{`"record":{"offset":2,"timestamp":"2026-05-01T12:00:02Z","key":{"text":"ann"},"value":{"text":"{\"customer\":\"ann\",\"cents\":-3}"},"headers":[]}`},
		letterArgs("list", "--partition 0 --output json")...)
	if strings.Count(out, "\n") != 2 {
		t.Errorf("the list of one partition is %s", out)
	}
	b.wantSink(exitOK, []string{"record    orders/0@2\n", "after 1 attempt\n", "error     -3 cents", "key       ann\n", `value     {"customer"`}, letterArgs("show", "--pipeline spending --partition 0 --offset 2")...)
	b.wantSink(exitFailed, []string{"there is no dead letter of offset 1; there are some of 0, 2"}, letterArgs("show", "--pipeline spending --partition 0 --offset 1")...)
	b.wantSink(exitFailed, []string{"there are none in that partition"}, letterArgs("show", "--pipeline spending --partition 2 --offset 1")...)

	b.wantSink(exitOK, []string{dryRunNote}, letterArgs("drop", "--pipeline spending --all")...)
	b.wantSink(exitFailed, []string{"there is no dead letter of offset 5"}, letterArgs("drop", "--pipeline spending --partition 0 --offset 0,5 --apply")...)
	b.wantCount(3)
	b.wantSink(exitOK, []string{"1 dead letter dropped"}, letterArgs("drop", "--pipeline spending --partition 0 --offset 0 --apply")...)
	b.wantCount(2)
	b.wantSink(exitOK, []string{"2 dead letters dropped"}, letterArgs("drop", "--pipeline spending --all --apply")...)
	b.wantCount(0)
	b.wantSink(exitOK, []string{"there are no dead letters"}, letterArgs("drop", "--pipeline spending --all --apply")...)
}

func (b *bed) wantCount(n int64) {
	b.t.Helper()
	if got := b.number("SELECT COUNT(*) FROM lockstep_dead_letter"); got != n {
		b.t.Errorf("%d dead letters are stored, want %d", got, n)
	}
}

func TestDeadLettersCheckTheirOptions(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"drop --pipeline p", "give either --offset or --all"},
		{"drop --pipeline p --all --offset 1 --partition 0", "give either --offset or --all"},
		{"drop --pipeline p --offset 1", "--offset is for one partition"},
		{"drop --pipeline p --partition 0 --offset -1", "--offset: give 0 or more"},
		{"drop --all", "--pipeline is missing"},
		{"show --pipeline p --offset 1", "give one --partition"},
		{"shwo", `unknown command "shwo"; is it show?`},
		{"quux", "unknown command \"quux\"; `lockstep help dead-letters` lists the commands"},
	} {
		args := letterArgs("", c.args)[:1]
		args = append(args, strings.Fields(c.args)...)
		if strings.Contains(c.args, " ") {
			args = append(args, "--sink", "sqlite://x.db")
		}
		if code, _, stderr := lockstep(t, args...); code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d, %q; want %q", args, code, stderr, c.says)
		}
	}
}
