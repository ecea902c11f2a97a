package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

func (p *program) totalsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "totals --sink DSN --pipeline NAME [--operator NAME] [--key KEY] [--combine sum|min|max]",
		Short: "Show the totals of reductions by key",
		Long: `Show what the reductions of a pipeline have saved: for each ReduceByKey (OPERATOR)
and key, what each partition's part of the total is. A key that occurs on several
partitions has a part on each, and its total is these parts, reduced: --combine
does that for numbers, if the reduce function adds them up (sum), or keeps the
least (min) or the greatest (max) of them. Which it does, only the program knows.

Each part is as of the partition's own position. While the pipeline runs the parts
are not all as of one moment. Keys and values are shown as the pipeline encodes
them, which is JSON unless it says otherwise; --values reads those of codec.Int64
and codec.Float64. Bytes that are no text are in hexadecimal, and in base64 in
JSON. Everything that is shown is held in memory first. On Cassandra the whole
table of state is read.

` + exitCodes,
		Example: `  lockstep totals --sink sqlite://spending.db --pipeline spending --combine sum
  lockstep totals --sink sqlite://spending.db --pipeline spending --key ann
  lockstep totals --sink cassandra://10.0.0.1/app --pipeline alerts --operator alerts --output json`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	t := &totals{view: p.addPipelineFlags(cmd)}
	cmd.Flags().StringVar(&t.operator, "operator", "", "only the ReduceByKey of this name (default all)")
	cmd.Flags().StringVar(&t.key, "key", "", "only this key: a text, or a key as it is shown")
	cmd.Flags().StringVar(&t.combine, "combine", "", "join the parts of a key: sum, min or max (default: show the parts)")
	cmd.Flags().StringVar(&t.values, "values", "json", "how the values are encoded: json, int64 or float64")
	complete(cmd, "values", cobra.FixedCompletions([]string{"json", "int64", "float64"}, cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "combine", cobra.FixedCompletions([]string{"sum", "min", "max"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		t.byKey = cmd.Flags().Changed("key")
		if t.combine != "" && combiners[t.combine] == nil {
			return fmt.Errorf("%w: --combine %q: give sum, min or max", framework.ErrConfig, t.combine)
		}
		if decoders[t.values] == nil {
			return fmt.Errorf("%w: --values %q: give json, int64 or float64", framework.ErrConfig, t.values)
		}
		t.out, t.errs = cmd.OutOrStdout(), cmd.ErrOrStderr()
		return t.run(cmd, t.show)
	}
	return cmd
}

// totals is the command of that name.
type totals struct {
	*view
	operator, key, combine, values string
	byKey                          bool
	out, errs                      io.Writer
}

func (t *totals) show(ctx context.Context) error {
	parts, err := t.parts(ctx)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		fmt.Fprintln(t.errs, "lockstep: no totals are stored there")
		return nil
	}
	if t.combine != "" {
		if parts, err = combine(parts, combiners[t.combine]); err != nil {
			return err
		}
	}
	if t.json {
		return writeJSON(t.out, t.lines(parts)...)
	}
	return writeTable(t.out, t.columns(parts), parts)
}

// parts returns the entries in scope, ordered by operator, window, key and place.
func (t *totals) parts(ctx context.Context) ([]framework.StoredState, error) {
	lister, err := power[framework.StateLister](t.sink, "list the totals of reductions")
	if err != nil {
		return nil, err
	}
	stored, err := t.stored(ctx)
	if err != nil {
		return nil, err
	}
	var parts []framework.StoredState
	for s, err := range lister.State(ctx, t.scope.pipeline, t.operator) {
		if err != nil {
			return nil, err
		}
		if !t.wants(stored, s) {
			continue
		}
		if s.Value, err = decoders[t.values](s.Value); err != nil {
			return nil, fmt.Errorf("--values %s: operator %q, key %s: %w", t.values, s.Operator, keyText(s.Key), err)
		}
		parts = append(parts, s)
	}
	if len(parts) == 0 && t.operator != "" {
		return nil, t.checkOperator(ctx, lister)
	}
	t.warnOfPending(stored)
	slices.SortFunc(parts, comparePlaces)
	return parts, nil
}

// warnOfPending tells of totals that are saved and cannot be seen yet.
func (t *totals) warnOfPending(stored []framework.StoredPosition) {
	for _, p := range stored {
		if p.Pending {
			fmt.Fprintf(t.errs, "lockstep: the last save of %s may not be visible yet: its owner finishes it, or `lockstep flush`\n", p.TopicPartition)
		}
	}
}

func comparePlaces(a, b framework.StoredState) int {
	return cmp.Or(cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Window, b.Window), bytes.Compare(a.Key, b.Key),
		cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// checkOperator names the operators that there are, unless the one asked for is
// among them.
func (t *totals) checkOperator(ctx context.Context, lister framework.StateLister) error {
	var names []string
	for s, err := range lister.State(ctx, t.scope.pipeline, "") {
		if err != nil || s.Operator == t.operator {
			return err
		}
		if !slices.Contains(names, s.Operator) {
			names = append(names, s.Operator)
		}
	}
	slices.Sort(names)
	there := "there are none of any"
	if len(names) > 0 {
		there = "there are some of " + quoted(names)
	}
	return fmt.Errorf("--operator %q: pipeline %q has stored no totals of it; %s", t.operator, t.scope.pipeline, there)
}

func (t *totals) wants(stored []framework.StoredPosition, s framework.StoredState) bool {
	return (!t.byKey || isKey(t.key, s.Key)) &&
		slices.ContainsFunc(stored, func(p framework.StoredPosition) bool { return p.TopicPartition == s.TopicPartition })
}

// isKey reports whether somebody who types this may mean the key.
func isKey(typed string, key []byte) bool { return typed == string(key) || typed == keyText(key) }

// keyText is a key as it is shown: a text in JSON without its quotes.
func keyText(key []byte) string {
	var text string
	if json.Unmarshal(key, &text) == nil {
		return printable(text)
	}
	return shown(key)
}

// columns leaves out the place where the parts are joined, and the windows where
// there are none.
func (t *totals) columns(parts []framework.StoredState) []column[framework.StoredState] {
	columns := []column[framework.StoredState]{{"OPERATOR", func(s framework.StoredState) string { return s.Operator }}}
	if slices.ContainsFunc(parts, func(s framework.StoredState) bool { return s.Window != 0 }) {
		columns = append(columns, column[framework.StoredState]{"WINDOW", func(s framework.StoredState) string { return strconv.FormatInt(s.Window, 10) }})
	}
	columns = append(columns, column[framework.StoredState]{"KEY", func(s framework.StoredState) string { return keyText(s.Key) }})
	if t.combine == "" {
		columns = append(columns,
			column[framework.StoredState]{"TOPIC", func(s framework.StoredState) string { return s.Topic }},
			column[framework.StoredState]{"PARTITION", func(s framework.StoredState) string { return fmt.Sprint(s.Partition) }},
			column[framework.StoredState]{"PART", func(s framework.StoredState) string { return shown(s.Value) }})
		return columns
	}
	return append(columns, column[framework.StoredState]{"TOTAL", func(s framework.StoredState) string { return shown(s.Value) }})
}

// totalLine is a total, or a part of one, in JSON.
type totalLine struct {
	Operator  string  `json:"operator"`
	Window    int64   `json:"window"` // its start in milliseconds since 1970; 0: none
	Key       encoded `json:"key"`
	Topic     string  `json:"topic,omitempty"` // of a part
	Partition *int32  `json:"partition,omitempty"`
	Value     encoded `json:"value"`
}

func (t *totals) lines(parts []framework.StoredState) []totalLine {
	var lines []totalLine
	for _, s := range parts {
		l := totalLine{Operator: s.Operator, Window: s.Window, Key: encoded(s.Key), Value: encoded(s.Value)}
		if t.combine == "" {
			l.Topic, l.Partition = s.Topic, &s.Partition
		}
		lines = append(lines, l)
	}
	return lines
}

// encoded is what a codec has made: JSON as it is, and other bytes as [octets].
type encoded []byte

// MarshalJSON implements json.Marshaler.
func (e encoded) MarshalJSON() ([]byte, error) {
	if json.Valid(e) {
		return e, nil
	}
	return octets(e).MarshalJSON()
}
