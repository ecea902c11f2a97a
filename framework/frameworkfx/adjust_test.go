package frameworkfx

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

func TestSettingsThatAreGivenStay(t *testing.T) {
	own, apps := slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
	var claimed atomic.Bool
	called := false
	cfg := framework.Config{
		DrainTimeout: time.Minute, Logger: own,
		Hooks: framework.Hooks{Claimed: func(framework.ClaimedEvent) { called = true }},
	}
	got := adjust(cfg, apps, &claimed)
	got.Hooks.Claimed(framework.ClaimedEvent{})
	if got.DrainTimeout != time.Minute || got.Logger != own || !called || !claimed.Load() {
		t.Errorf("%+v, hook called: %t, claim noted: %t", got, called, claimed.Load())
	}
	got = adjust(framework.Config{}, apps, &claimed)
	got.Hooks.Claimed(framework.ClaimedEvent{})
	if got.DrainTimeout != DrainTimeout || got.Logger != apps {
		t.Errorf("defaults: %+v", got)
	}
}
