package watermill_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/ThreeDotsLabs/watermill"

	watermillsource "github.com/lockstep-stream/lockstep/sources/watermill"
)

func TestLoggerWritesToWatermill(t *testing.T) {
	to := watermill.NewCaptureLogger()
	log := watermillsource.NewLogger(to)
	broken := errors.New("broken")
	log = log.With("pipeline", "p")
	log.Error("failed", "error", broken, "partition", 3)
	log.Warn("slow", slog.Group("save", "took", "1s"))
	log.WithGroup("lane").Info("began", "at", int64(5))
	log.Debug("detail")
	log.Log(t.Context(), watermill.LevelTrace, "trifle")
	for _, want := range []watermill.CapturedMessage{
		{Level: watermill.ErrorLogLevel, Msg: "failed", Err: broken, Fields: watermill.LogFields{"pipeline": "p", "partition": int64(3)}},
		{Level: watermill.InfoLogLevel, Msg: "slow", Fields: watermill.LogFields{"pipeline": "p", "level": "WARN", "save.took": "1s"}},
		{Level: watermill.InfoLogLevel, Msg: "began", Fields: watermill.LogFields{"pipeline": "p", "lane.at": int64(5)}},
		{Level: watermill.DebugLogLevel, Msg: "detail", Fields: watermill.LogFields{"pipeline": "p"}},
		{Level: watermill.TraceLogLevel, Msg: "trifle", Fields: watermill.LogFields{"pipeline": "p"}},
	} {
		if !to.Has(want) {
			t.Errorf("%+v was not written; what was: %+v", want, to.Captured())
		}
	}
}
