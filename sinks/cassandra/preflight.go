package cassandra

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
)

// The limits of how far a server's clock may be from ours: what they stamp and
// what we stamp is compared, and whoever is ahead wins.
const (
	warnClockSkew = 2 * time.Second
	maxClockSkew  = 30 * time.Second
)

// server is what preflight learned of the cluster.
type server struct {
	version     string
	maxMutation int   // bytes
	maxWrite    int   // bytes of a single write
	maxChunk    int   // bytes of a stage chunk
	unread      error // why its settings are not known: then nothing may be saved
}

// defaultMaxMutation is the server's own default, in bytes.
const defaultMaxMutation = 16 << 20

// maxChunkBytes is the size of a stage chunk where the server allows more.
const maxChunkBytes = 256 << 10

// preflight checks what would otherwise go wrong later: the version, settings
// that refuse what the protocol sends, and the clocks. A user who may not read the
// settings can only read: see server.unread. Settings are those of the
// node that answers; the nodes of a cluster should not differ in them.
func preflight(ctx context.Context, s *gocql.Session, cfg *Config) (server, error) {
	version, err := checkVersions(ctx, s)
	if err != nil {
		return server{}, fmt.Errorf("cassandra: %s: preflight: %w", cfg, err)
	}
	settings, err := readSettings(ctx, s)
	unread := err
	if err != nil && !errors.Is(err, framework.ErrConfig) {
		return server{}, fmt.Errorf("cassandra: %s: preflight: %w", cfg, err)
	}
	facts, err := settings.server(cfg)
	if err != nil {
		return server{}, fmt.Errorf("cassandra: %s: preflight: %w: %w", cfg, framework.ErrConfig, err)
	}
	facts.version, facts.unread = version, unread
	if err := warnOfForgetting(ctx, s, cfg, settings); err != nil {
		return server{}, fmt.Errorf("cassandra: %s: preflight: %w", cfg, err)
	}
	if err := checkClocks(ctx, s, cfg); err != nil {
		return server{}, fmt.Errorf("cassandra: %s: preflight: %w", cfg, err)
	}
	return facts, nil
}

// checkVersions returns the oldest version in the cluster.
func checkVersions(ctx context.Context, s *gocql.Session) (string, error) {
	oldest := ""
	for _, table := range []string{"system.local", "system.peers_v2"} {
		iter := s.Query("SELECT release_version FROM " + table).WithContext(ctx).Consistency(gocql.One).Iter()
		for version := ""; iter.Scan(&version); {
			if oldest == "" || versionLess(version, oldest) {
				oldest = version
			}
		}
		if err := iter.Close(); err != nil {
			var request gocql.RequestError
			if errors.As(err, &request) && request.Code() == gocql.ErrCodeInvalid { // no peers_v2 before 4.0
				return "", errTooOld(oldest)
			}
			return "", fmt.Errorf("%w: reading the versions: %w", framework.ErrUnavailable, err)
		}
	}
	if versionLess(oldest, "4.1") {
		return "", errTooOld(oldest)
	}
	return oldest, nil
}

func errTooOld(version string) error {
	return fmt.Errorf("%w: a node runs Cassandra %s, but 4.1 or newer is required (5.0 is what it is tested with)", framework.ErrConfig, version)
}

// versionLess compares the first two numbers of versions.
func versionLess(a, b string) bool {
	a1, a2 := majorMinor(a)
	b1, b2 := majorMinor(b)
	return a1 < b1 || (a1 == b1 && a2 < b2)
}

func majorMinor(v string) (major, minor int) {
	parts := strings.FieldsFunc(v, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) > 0 {
		major, _ = strconv.Atoi(parts[0])
	}
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}

// settings are the server's settings by name, as system_views.settings shows them.
type settings map[string]string

func readSettings(ctx context.Context, s *gocql.Session) (settings, error) {
	iter := s.Query("SELECT name, value FROM system_views.settings").WithContext(ctx).Consistency(gocql.One).Iter()
	all := settings{}
	var name, value string
	for iter.Scan(&name, &value) {
		all[name] = value
	}
	err := iter.Close()
	switch {
	case err == nil:
		return all, nil
	case refused(err):
		return nil, fmt.Errorf("%w: reading system_views.settings, which say what can be saved: %w; "+
			"GRANT SELECT ON TABLE system_views.settings to the user", framework.ErrConfig, err)
	default:
		return nil, fmt.Errorf("%w: reading system_views.settings: %w", framework.ErrUnavailable, err)
	}
}

// server derives the limits, and refuses settings under which the protocol
// cannot work.
func (s settings) server(cfg *Config) (server, error) {
	if s["user_timestamps_enabled"] == "false" {
		return server{}, errors.New("the server's setting user_timestamps_enabled is false; the sink needs timestamps of its own, so set it to true")
	}
	if v := s["minimum_timestamp_fail_threshold"]; v != "" && v != "null" {
		return server{}, fmt.Errorf("the server's setting minimum_timestamp_fail_threshold is %s; a save that is applied late would be refused, so unset it", v)
	}
	if v := s["paxos_variant"]; v != "" && v != "v2" {
		cfg.Logger.Warn("cassandra: paxos_variant is not v2; v1 is not linearizable while nodes join, leave or move", "paxos_variant", v)
	}
	f := server{maxMutation: defaultMaxMutation}
	if n, ok := s.size("max_mutation_size"); ok {
		f.maxMutation = n
	}
	f.maxChunk = min(maxChunkBytes, f.maxMutation/4)
	return f, s.limitWrite(&f, cfg)
}

// limitWrite sets the limit of a single write.
func (s settings) limitWrite(f *server, cfg *Config) error {
	ceiling := f.maxMutation / 4
	f.maxWrite = min(defaultMaxWrite, ceiling)
	if cfg.MaxWriteBytes > ceiling {
		return fmt.Errorf("Config.MaxWriteBytes is %d, but at most a quarter of the server's max_mutation_size of %d is possible, %d", cfg.MaxWriteBytes, f.maxMutation, ceiling)
	}
	if cfg.MaxWriteBytes > 0 {
		f.maxWrite = cfg.MaxWriteBytes
	}
	// A guardrail would refuse the value after the commit, for ever.
	for _, name := range []string{"column_value_size_fail_threshold", "collection_size_fail_threshold"} {
		if n, ok := s.size(name); ok {
			f.maxWrite = min(f.maxWrite, n)
			f.maxChunk = min(f.maxChunk, n)
		}
	}
	return nil
}

// size reads a size such as 16MiB, in bytes.
func (s settings) size(name string) (int, bool) {
	v := strings.TrimSpace(s[name])
	digits := strings.TrimRight(v, "BKMGib")
	n, err := strconv.Atoi(digits)
	shift, known := map[string]int{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30}[v[len(digits):]]
	if err != nil || !known || n <= 0 {
		return 0, false
	}
	return n << shift, true
}

// clockSamples bounds how many answers are compared; with no more nodes than
// that, about every node gives one.
const clockSamples = 16

func checkClocks(ctx context.Context, s *gocql.Session, cfg *Config) error {
	var worst time.Duration
	for range clockSamples {
		skew, err := clockSkew(ctx, s)
		if err != nil {
			return fmt.Errorf("%w: reading a server's clock: %w", framework.ErrUnavailable, err)
		}
		if skew.Abs() > worst.Abs() {
			worst = skew
		}
	}
	if worst.Abs() > maxClockSkew {
		return fmt.Errorf("%w: a server's clock differs from ours by %s, more than %s; writes would win or lose by the clock: synchronise the clocks", framework.ErrConfig, worst, maxClockSkew)
	}
	if worst.Abs() > warnClockSkew {
		cfg.Logger.Warn("cassandra: a server's clock differs from ours", "difference", worst, "refused_above", maxClockSkew)
	}
	return nil
}

// clockSkew returns how far a server's clock is ahead of ours, as far as the
// duration of the request leaves no doubt.
func clockSkew(ctx context.Context, s *gocql.Session) (time.Duration, error) {
	var ms int64
	before := time.Now()
	err := s.Query("SELECT toUnixTimestamp(now()) FROM system.local").WithContext(ctx).Consistency(gocql.One).Scan(&ms)
	if err != nil {
		return 0, err
	}
	return skewBeyond(before, time.Now(), time.UnixMilli(ms)), nil
}

// skewBeyond returns how far server lies outside [before, after].
func skewBeyond(before, after, server time.Time) time.Duration {
	switch {
	case server.Before(before.Truncate(time.Millisecond)):
		return server.Sub(before)
	case server.After(after):
		return server.Sub(after)
	default:
		return 0
	}
}

// canary writes and deletes what a save would: a row with a timestamp of its own
// in the state, and one with the stage's. It finds missing permissions and
// guardrails before the first record does. The sink's tables must exist.
func canary(ctx context.Context, s *gocql.Session, cfg *Config) error {
	id, err := gocql.RandomUUID()
	if err != nil {
		return fmt.Errorf("cassandra: canary: %w", err)
	}
	now := time.Now().UnixMicro()
	state := "(pipeline, op, topic, partition, gen, win, bucket, key, v) VALUES ('', 'canary', '', 0, 0, 0, 0, ?, ?) USING TIMESTAMP ?"
	steps := []struct {
		table, before, after string
		args                 []any
	}{
		{stateTable, "INSERT INTO ", state, []any{id[:], id[:], now}},
		{stateTable, "DELETE FROM ", "USING TIMESTAMP ? WHERE pipeline='' AND op='canary' AND topic='' AND partition=0 AND gen=0 AND win=0 AND bucket=0 AND key=?", []any{now + 1, id[:]}},
		{stageTable, "INSERT INTO ", "(pipeline, topic, partition, claim, seq, chunk, data) VALUES ('', 'canary', 0, ?, 0, 0, ?) USING TIMESTAMP 1", []any{id, id[:]}},
		{stageTable, "DELETE FROM ", "USING TIMESTAMP 2 WHERE pipeline='' AND topic='canary' AND partition=0 AND claim=? AND seq=0", []any{id}},
	}
	for _, st := range steps {
		cql := st.before + quoteIdentifier(cfg.Keyspace) + "." + quoteIdentifier(st.table) + " " + st.after
		if err := s.Query(cql, st.args...).WithContext(ctx).Exec(); err != nil {
			return fmt.Errorf("cassandra: %s: a trial write to %s failed: %w: %w", cfg, st.table, canaryReason(err), err)
		}
	}
	return nil
}

// canaryReason tells a refusal from a cluster that cannot answer now.
func canaryReason(err error) error {
	if refused(err) {
		return framework.ErrConfig
	}
	return framework.ErrUnavailable
}
