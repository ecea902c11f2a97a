package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

func (p *program) positionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "positions --sink DSN [--pipeline NAME] [--brokers HOST:PORT,…] [--output table|json]",
		Short: "List the saved positions: the next offset to read, by partition",
		Long: `List what the sink has saved for each pipeline, topic and partition: the next
offset to read, and the counts of records that were saved with it. Running
pipelines are not disturbed; on Cassandra one call reads the whole ledger, so
call it every ten seconds at most.

NEXT is the next offset to read, EPOCH the leader epoch of the record before it.
READ = PASSED + FILTERED + SKIPPED + DEAD. LOST counts offsets that a start rule
passed over, because the log had dropped them. AGE is the time since the last
save. STATE pending means that a save is durable and is not yet known to be
visible in full; the partition's owner, or the next one, sees to it, and so does
"lockstep flush". OWNER is left out where no partition has one; a process that
was killed stays the owner until somebody else is.

With --brokers Kafka is asked, too. GROUP is what the consumer group has
committed, a mirror of NEXT that decides nothing. LOG is the first offset that
the log holds and its end, LAG how many offsets are left to read. CONDITION says
what keeps a position from being read from: it is below the log's start, above
its end, or of a topic that is gone or was made again. "lockstep reset" moves it.
` + kafkaHelp + `

` + exitCodes + `
A database in which nothing is stored is no error. Where Kafka cannot be asked the
rest is shown all the same, and the exit code is 1.`,
		Example: `  lockstep positions --sink sqlite://app.db
  lockstep positions --sink cassandra://10.0.0.1/app --brokers 10.0.0.2:9092
  lockstep positions --sink cassandra://10.0.0.1/app --pipeline spending --output json`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	v := p.addViewFlags(cmd)
	v.kafka = addKafkaFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return v.run(cmd, func(ctx context.Context) error {
			all, err := v.read(ctx)
			if len(all) == 0 {
				if err == nil {
					fmt.Fprintln(cmd.ErrOrStderr(), "lockstep: no positions are stored")
				}
				return err
			}
			asked := v.cluster != nil && err == nil
			return errors.Join(v.writePositions(cmd.OutOrStdout(), all, asked), err)
		})
	}
	return cmd
}

func (v *view) writePositions(out io.Writer, all []standing, asked bool) error {
	if v.json {
		return writeJSON(out, lines(all)...)
	}
	return writeTable(out, positionColumns(all, asked), all)
}

// readPositions reads the positions of a pipeline, of all if its name is empty.
func readPositions(ctx context.Context, db database, pipeline string) ([]framework.StoredPosition, error) {
	sink, err := db.open(ctx)
	if err != nil {
		return nil, err
	}
	defer sink.Close(ctx)
	return sink.Positions(ctx, pipeline)
}

// positionColumns leaves out what no position has: the table is wide enough for a
// terminal then.
func positionColumns(all []standing, asked bool) []column[standing] {
	columns := slices.Clone(placeColumns)
	columns = append(columns, column[standing]{"EPOCH", epochCell})
	if asked {
		columns = append(columns, logColumns...)
	}
	for _, c := range []struct {
		name string
		of   func(framework.Counters) int64
	}{
		{"READ", func(c framework.Counters) int64 { return c.Read }},
		{"PASSED", func(c framework.Counters) int64 { return c.Passed }},
		{"FILTERED", func(c framework.Counters) int64 { return c.Filtered }},
		{"SKIPPED", func(c framework.Counters) int64 { return c.Skipped }},
		{"DEAD", func(c framework.Counters) int64 { return c.DeadLettered }},
		{"LOST", func(c framework.Counters) int64 { return c.Lost }},
	} {
		columns = append(columns, column[standing]{c.name, func(s standing) string { return fmt.Sprint(c.of(s.counters)) }})
	}
	columns = append(columns, column[standing]{"AGE", ageCell}, column[standing]{"STATE", stateCell})
	return append(columns, rareColumns(all)...)
}

// placeColumns say where a position is.
var placeColumns = []column[standing]{
	{"PIPELINE", func(s standing) string { return s.Pipeline }},
	{"TOPIC", func(s standing) string { return s.Topic }},
	{"PARTITION", func(s standing) string { return fmt.Sprint(s.Partition) }},
	{"NEXT", func(s standing) string { return fmt.Sprint(s.Position.Offset) }},
}

// logColumns say what Kafka knows.
var logColumns = []column[standing]{{"GROUP", groupCell}, {"LOG", logCell}, {"LAG", lagCell}}

// rareColumns are those that are shown only where some position has something in
// them.
func rareColumns(all []standing) []column[standing] {
	var columns []column[standing]
	for _, c := range []column[standing]{
		{"CONDITION", func(s standing) string { return s.condition }},
		{"OWNER", func(s standing) string { return s.Owner }},
	} {
		if slices.ContainsFunc(all, func(s standing) bool { return c.cell(s) != "" }) {
			columns = append(columns, column[standing]{c.name, func(s standing) string { return orDash(c.cell(s)) }})
		}
	}
	return columns
}

// line is a position in JSON.
type line struct {
	Pipeline    string     `json:"pipeline"`
	Topic       string     `json:"topic"`
	Partition   int32      `json:"partition"`
	NextOffset  int64      `json:"next_offset"`
	LeaderEpoch *int32     `json:"leader_epoch"` // null: not known
	TopicID     string     `json:"topic_id"`
	Counters    counters   `json:"counters"`
	SavedAt     *time.Time `json:"saved_at"` // null: never
	AgeSeconds  *float64   `json:"age_seconds"`
	Owner       string     `json:"owner"`
	Pending     bool       `json:"pending"`
	*logLine               // with --brokers
}

// logLine is what Kafka says of a position, in JSON.
type logLine struct {
	GroupOffset *int64 `json:"group_offset"` // null: nothing committed
	LogStart    *int64 `json:"log_start"`    // null: there is no such partition
	LogEnd      *int64 `json:"log_end"`
	Lag         *int64 `json:"lag"`
	Condition   string `json:"condition"`
}

// counters are a [framework.Counters] in JSON: its fields, in its order.
type counters struct {
	Read         int64 `json:"read"`
	Passed       int64 `json:"passed"`
	Filtered     int64 `json:"filtered"`
	Skipped      int64 `json:"skipped"`
	DeadLettered int64 `json:"dead_lettered"`
	AlreadySaved int64 `json:"already_saved"`
	Lost         int64 `json:"lost"`
}

func lines(all []standing) []line {
	var ls []line
	for _, s := range all {
		l := line{
			Pipeline: s.Pipeline, Topic: s.Topic, Partition: s.Partition, NextOffset: s.Position.Offset,
			TopicID: s.Position.TopicID.String(), Counters: counters(s.counters), Owner: s.Owner, Pending: s.Pending, logLine: s.logLine(),
		}
		if epochCell(s) != "-" {
			l.LeaderEpoch = &s.Position.LeaderEpoch
		}
		if !s.SavedAt.IsZero() {
			age := max(s.age, 0).Seconds()
			l.SavedAt, l.AgeSeconds = &s.SavedAt, &age
		}
		ls = append(ls, l)
	}
	return ls
}

func (s standing) logLine() *logLine {
	if s.log == nil && s.condition == "" {
		return nil // Kafka was not asked
	}
	l := &logLine{GroupOffset: s.group, Condition: s.condition}
	if s.log != nil {
		lag := s.lag()
		l.LogStart, l.LogEnd, l.Lag = &s.log.start, &s.log.end, &lag
	}
	return l
}
