package frameworkfx

import (
	"log/slog"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

func TestSettingsThatAreGivenStay(t *testing.T) {
	own, apps := slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
	got := adjust(framework.Config{DrainTimeout: time.Minute, Logger: own}, apps)
	if got.DrainTimeout != time.Minute || got.Logger != own {
		t.Errorf("given: %+v", got)
	}
	got = adjust(framework.Config{}, apps)
	if got.DrainTimeout != DrainTimeout || got.Logger != apps {
		t.Errorf("defaults: %+v", got)
	}
}
