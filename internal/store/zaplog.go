package store

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// What passes from etcd's log in each part of its life. Its routine messages say
// nothing to an operator of muster; what goes wrong at the start is returned as
// an error; and at the end it reports each of its own listeners as failed.
const (
	levelStarting = zapcore.ErrorLevel
	levelRunning  = zapcore.WarnLevel
	levelClosing  = zapcore.FatalLevel
)

// benign are messages about a store that is so new that it has no version yet;
// etcd looks again every four seconds.
var benign = map[string]bool{
	"Failed to detect schema version":  true,
	"failed to update storage version": true,
}

// zapTo makes the logger etcd wants out of the one the rest of the program uses.
func zapTo(log *slog.Logger, level zap.AtomicLevel) *zap.Logger {
	return zap.New(&slogCore{log: log.With("component", "etcd"), AtomicLevel: level})
}

// slogCore is a zap core that writes to slog.
type slogCore struct {
	zap.AtomicLevel
	log *slog.Logger
}

func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	return &slogCore{log: c.log.With(attrs(fields)...), AtomicLevel: c.AtomicLevel}
}

func (c *slogCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) && !benign[e.Message] {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c *slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelWarn
	if e.Level >= zapcore.ErrorLevel {
		level = slog.LevelError
	}
	c.log.Log(context.Background(), level, e.Message, attrs(fields)...)
	return nil
}

func (c *slogCore) Sync() error { return nil }

// attrs turns zap's fields into pairs.
func attrs(fields []zapcore.Field) []any {
	encoder := zapcore.NewMapObjectEncoder()
	pairs := make([]any, 0, len(fields))
	for _, f := range fields {
		f.AddTo(encoder)
		if value, ok := encoder.Fields[f.Key]; ok {
			pairs = append(pairs, slog.Any(f.Key, value))
		}
	}
	return pairs
}
