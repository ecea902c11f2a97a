package watermill

import (
	"context"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// NewLogger returns a slog.Logger that writes to a Watermill logger, so that a
// service which has one can give it to [framework.Config].Logger, too. The
// other direction is Watermill's own NewSlogLogger.
//
// A warning becomes information with the field level=WARN, since Watermill knows
// none. An attribute of the key "error" becomes the error of Watermill's Error.
// Which levels are written is up to the Watermill logger.
func NewLogger(to watermill.LoggerAdapter) *slog.Logger {
	return slog.New(logHandler{to: to})
}

type logHandler struct {
	to     watermill.LoggerAdapter
	prefix string // of keys within groups, with its dot
}

// Enabled implements slog.Handler.
func (h logHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	fields := make(watermill.LogFields, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		h.add(fields, h.prefix, a)
		return true
	})
	switch {
	case r.Level >= slog.LevelError:
		err, _ := fields["error"].(error)
		if err != nil {
			delete(fields, "error")
		}
		h.to.Error(r.Message, err, fields)
	case r.Level >= slog.LevelWarn:
		fields["level"] = r.Level.String()
		h.to.Info(r.Message, fields)
	case r.Level >= slog.LevelInfo:
		h.to.Info(r.Message, fields)
	case r.Level >= slog.LevelDebug:
		h.to.Debug(r.Message, fields)
	default:
		h.to.Trace(r.Message, fields)
	}
	return nil
}

// add puts an attribute into fields, those of a group by dotted names.
func (h logHandler) add(fields watermill.LogFields, prefix string, a slog.Attr) {
	value := a.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		if a.Key != "" {
			fields[prefix+a.Key] = value.Any()
		}
		return
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, inner := range value.Group() {
		h.add(fields, prefix, inner)
	}
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := make(watermill.LogFields, len(attrs))
	for _, a := range attrs {
		h.add(fields, h.prefix, a)
	}
	return logHandler{to: h.to.With(fields), prefix: h.prefix}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return logHandler{to: h.to, prefix: h.prefix + name + "."}
}

// loggers returns both sides of what a Config has, or of slog's default. What
// Watermill calls information is detail to us.
func loggers(l watermill.LoggerAdapter) (*slog.Logger, watermill.LoggerAdapter) {
	if l != nil {
		return NewLogger(l), l
	}
	return slog.Default(), watermill.NewSlogLoggerWithLevelMapping(slog.Default(), map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})
}
