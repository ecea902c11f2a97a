package sourcetest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A suite that nothing fails proves nothing. Here the source in memory is broken
// in one way after another, and each fault must be caught by the case whose rule
// it breaks.
var faults = []struct{ bug, caughtBy string }{
	{"starts one late", "start_at_its_position"},
	{"takes zero for none", "start_at_zero"},
	{"waits for the log to come", "position_above_log_end"},
	{"delivers before the start", "start_before_records"},
	{"starts without a pause", "start_is_paused"},
	{"ignores a second start", "start_again"},
	{"never goes back", "start_again_where_saved"},
	{"starts one late", "start_at_log_end"},
	{"does not read what is written later", "read_in_order"},
	{"delivers in reverse", "read_in_order"},
	{"repeats records", "read_in_order"},
	{"gives a wrong log end", "read_in_order"},
	{"cuts values", "read_values"},
	{"takes empty for nil", "read_whole"},
	{"drops repeated headers", "read_whole"},
	{"reuses memory", "read_memory_is_not_reused"},
	{"stalls at gaps", "read_over_gaps"},
	{"ignores pauses", "pause_silences"},
	{"skips a record after a pause", "pause_loses_nothing"},
	{"counts pauses", "pause_repeated"},
	{"ignores Resume within calls", "methods_within_calls"},
	{"cannot confirm", "methods_concurrently"},
	{"cannot confirm", "confirm_owner"},
	{"starts where the group says", "mirror_never_decides"},
	{"moves to the log's start", "position_below_log_start"},
	{"refuses without saying the position", "position_below_log_start"},
	{"takes any epoch", "position_of_unknown_epoch"},
	{"takes any topic", "position_of_other_topic"},
	{"reads on after a refused start", "position_refused_stays_silent"},
	{"moves to the log's start", "retention_while_reading"},
	{"fails again and again", "retention_while_reading"},
	{"reads any topic", "recreated_while_reading"},
	{"resolves its own partition only", "resolve_every_partition"},
	{"resolves any offset", "resolve_outside_log"},
	{"resolves to the end", "resolve_own_partition"},
	{"skips a record at a takeover", "group_shares"},
	{"is silent about nothing", "group_without_a_share"},
	{"gives out the former assignment", "group_fresh_assignment"},
	{"assigns before Revoked has returned", "group_revoked_waits"},
	{"revokes everything", "group_cooperative"},
	{"does not notice an eviction", "group_eviction"},
	{"starts one late", "stop_and_restart"},
	{"leaves partitions alive", "stop_ends_partitions"},
	{"starts when dead", "stop_ends_partitions"},
	{"hangs when it is stopped", "stop_while_paused"},
	{"hangs when it is stopped", "stop_while_unstarted"},
	{"hangs when it is stopped", "stop_while_starting"},
	{"leaves without revoking", "stop_waits_for_lanes"},
	{"returns the context's error", "stop_at_once"},
	{"runs twice", "run_once"},
}

// recorder stands in for *testing.T.
type recorder struct {
	mu       sync.Mutex
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) FailNow() { runtime.Goexit() }

// failures runs one case and returns its failures.
func failures(ctx context.Context, h Harness, c testCase) []string {
	r := &recorder{}
	done := make(chan struct{})
	go func() { // FailNow ends the goroutine
		defer close(done)
		runCase(ctx, r, h.withDefaults(), c)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

func everything() Features {
	return Features{Log: true, Retention: true, TopicIDs: true, LeaderEpochs: true, Groups: true, Cooperative: true, WholeRecords: true}
}

func caseNamed(t *testing.T, name string) testCase {
	t.Helper()
	for _, c := range allCases() {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("there is no case %q", name)
	return testCase{}
}

func TestSuitePassesTheUnbrokenSource(t *testing.T) {
	Run(t, everything(), func(*testing.T) Harness { return newCluster("").harness() })
}

func requireCaught(t *testing.T, bug string, c testCase) {
	t.Helper()
	cl := newCluster(bug)
	defer close(cl.given)
	h := cl.harness()
	h.Timeout = time.Second // some faults show as a case that never ends
	found := failures(t.Context(), h, c)
	if len(found) == 0 {
		t.Fatal("the case passes")
	}
	if !strings.Contains(found[0], "rule: ") || !strings.Contains(found[0], "seen: ") {
		t.Errorf("the failure does not state the rule: %s", found[0])
	}
}

// Virtual time: that a fault shows must not depend on the machine's load.
func TestSuiteCatchesEveryFault(t *testing.T) {
	for _, f := range faults {
		t.Run(f.caughtBy+"/"+f.bug, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { requireCaught(t, f.bug, caseNamed(t, f.caughtBy)) })
		})
	}
}

// Every case has a fault that it catches.
func TestEveryCaseCanFail(t *testing.T) {
	caught := map[string]bool{}
	for _, f := range faults {
		caught[f.caughtBy] = true
	}
	for _, c := range allCases() {
		if !caught[c.name] {
			t.Errorf("no fault is caught by %s", c.name)
		}
	}
}

func TestCasesFollowTheFeatures(t *testing.T) {
	none, all := casesFor(Features{}), casesFor(everything())
	if len(none) == 0 || len(none) >= len(all) || len(all) != len(allCases()) {
		t.Errorf("%d cases without features, %d with all, of %d", len(none), len(all), len(allCases()))
	}
	for _, c := range none {
		if c.needs.features != (Features{}) {
			t.Errorf("%s is run without the features it needs", c.name)
		}
	}
}

func TestHarnessErrorsNameTheField(t *testing.T) {
	for field, remove := range map[string]func(*Harness){
		"Harness.Open":     func(h *Harness) { h.Open = nil },
		"Harness.Create":   func(h *Harness) { h.Create = nil },
		"Harness.Append":   func(h *Harness) { h.Append = nil },
		"Harness.Retain":   func(h *Harness) { h.Retain = nil },
		"Harness.Recreate": func(h *Harness) { h.Recreate = nil },
	} {
		h := newCluster("").harness()
		remove(&h)
		if err := h.validate(everything()); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("without %s validate returned %v", field, err)
		}
	}
	if err := newCluster("").harness().validate(Features{Cooperative: true}); err == nil || !strings.Contains(err.Error(), "Groups") {
		t.Errorf("cooperative without groups: %v", err)
	}
}

func TestWhatCannotBeTestedIsNamed(t *testing.T) {
	h := newCluster("").harness()
	h.Gap, h.Evict = nil, nil
	if got := missing(h, caseNamed(t, "read_over_gaps").needs); got != "Harness.Gap" {
		t.Errorf("without Gap %q is said to be missing", got)
	}
	if got := missing(h, caseNamed(t, "group_eviction").needs); got != "Harness.Evict" {
		t.Errorf("without Evict %q is said to be missing", got)
	}
}
