package main

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// The metrics library that sarama uses keeps one goroutine for the process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

func TestThePipelineCountsOnceWhatTheHandlerCountedTwice(t *testing.T) {
	var out bytes.Buffer
	if err := demo(t.Context(), &out, slog.New(slog.NewTextHandler(t.Output(), nil))); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		`(?m)^600 orders over 74700 cents`,
		`(?m)^revenue, by the handler:  \d+ cents, [1-9]\d* too many`,
		`(?m)^revenue, by the pipeline: 74700 cents, 0 too many; the dashboard failed [1-9]`,
		`(?m)^exactly once`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%s does not match\n%s", want, &out)
		}
	}
}

func TestTheCheckCanFail(t *testing.T) {
	spent := map[string]int64{"ann": 3, "bob": 5}
	for name, saved := range map[string]map[string]int64{
		"lost": {"ann": 3}, "twice": {"ann": 3, "bob": 10}, "somebody else": {"ann": 3, "bob": 5, "eve": 1},
	} {
		var out bytes.Buffer
		if err := compare(&out, spent, saved); !errors.Is(err, errDiffers) {
			t.Errorf("%s: got %v", name, err)
		}
		if strings.Contains(out.String(), "exactly once") {
			t.Errorf("%s: it says %s", name, &out)
		}
	}
	if err := compare(new(bytes.Buffer), spent, map[string]int64{"ann": 3, "bob": 5}); err != nil {
		t.Error(err)
	}
}
