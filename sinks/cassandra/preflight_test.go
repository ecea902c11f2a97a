package cassandra

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLimitsFollowTheServersSettings(t *testing.T) {
	for _, tc := range []struct {
		s        settings
		max      int // Config.MaxWriteBytes
		write    int
		chunk    int
		mutation int
	}{
		{settings{}, 0, 1 << 20, 256 << 10, 16 << 20},
		{settings{"max_mutation_size": "16384KiB"}, 0, 1 << 20, 256 << 10, 16 << 20},
		{settings{"max_mutation_size": "512KiB"}, 0, 128 << 10, 128 << 10, 512 << 10},
		{settings{"max_mutation_size": "32MiB"}, 8 << 20, 8 << 20, 256 << 10, 32 << 20},
		{settings{"max_mutation_size": "null", "column_value_size_fail_threshold": "100KiB"}, 0, 100 << 10, 100 << 10, 16 << 20},
		{settings{"max_mutation_size": "1048576B"}, 1000, 1000, 256 << 10, 1 << 20},
	} {
		cfg := &Config{MaxWriteBytes: tc.max, Logger: slog.New(slog.DiscardHandler)}
		got, err := tc.s.server(cfg)
		if err != nil || got.maxWrite != tc.write || got.maxChunk != tc.chunk || got.maxMutation != tc.mutation {
			t.Errorf("%v: got %+v, %v", tc.s, got, err)
		}
	}
}

func TestSettingsThatBreakTheProtocolAreRefused(t *testing.T) {
	cfg := &Config{MaxWriteBytes: 5 << 20, Logger: slog.New(slog.DiscardHandler)}
	for want, s := range map[string]settings{
		"user_timestamps_enabled": {"user_timestamps_enabled": "false"},
		"minimum_timestamp":       {"minimum_timestamp_fail_threshold": "1d"},
		"max_mutation_size":       {"max_mutation_size": "16MiB"},
	} {
		if _, err := s.server(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestPaxosV1IsWarnedOf(t *testing.T) {
	for variant, want := range map[string]bool{"v1": true, "v2": false} {
		var log bytes.Buffer
		cfg := &Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		if _, err := (settings{"paxos_variant": variant}).server(cfg); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "paxos_variant"); got != want {
			t.Errorf("%s: logged %q", variant, &log)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		less bool
	}{{"4.0.13", "4.1", true}, {"4.1.0", "4.1", false}, {"5.0.8", "4.1", false}, {"3.11.4", "4.1", true}, {"4.1-beta1", "4.1", false}, {"10.0", "4.1", false}, {"", "4.1", true}} {
		if versionLess(tc.a, tc.b) != tc.less {
			t.Errorf("%q < %q is not %v", tc.a, tc.b, tc.less)
		}
	}
}

func TestClockSkewCountsOnlyWhatTheRequestLeavesNoDoubtOf(t *testing.T) {
	before := time.UnixMilli(10_000)
	after := before.Add(500 * time.Millisecond)
	for at, want := range map[int64]time.Duration{
		10_000: 0, 10_250: 0, 10_500: 0, 9_000: -time.Second, 12_500: 2 * time.Second,
	} {
		if got := skewBeyond(before, after, time.UnixMilli(at)); got != want {
			t.Errorf("server at %d: got %s, want %s", at, got, want)
		}
	}
}
