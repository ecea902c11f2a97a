package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

func (p *program) deadLettersCommand() *cobra.Command {
	cmd := group("dead-letters", "List, show and drop the records that a pipeline could not process", `List, show and drop the records that a pipeline has given up by its failure policy
and saved whole, in the same commit as the position behind them.`)
	cmd.AddCommand(p.listLettersCommand(), p.showLetterCommand(), p.dropLettersCommand())
	return cmd
}

func (p *program) listLettersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list --sink DSN [--pipeline NAME] [--topic NAME] [--partition N,…] [--output table|json]",
		Short: "List dead letters: where, when and why",
		Long: `List the dead letters of each partition in scope, with the record's place, where
and when it failed, and why. Running pipelines are not disturbed. On Cassandra
each partition reads the whole table of dead letters.

` + exitCodes + `
That there are none is no error.`,
		Example: `  lockstep dead-letters list --sink sqlite://app.db
  lockstep dead-letters list --sink cassandra://10.0.0.1/app --pipeline spending --output json`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	v := p.addViewFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return v.run(cmd, func(ctx context.Context) error {
			letters, err := v.letters(ctx)
			switch {
			case err != nil:
				return err
			case len(letters) == 0:
				fmt.Fprintln(cmd.ErrOrStderr(), "lockstep: there are no dead letters")
				return nil
			case v.json:
				return writeJSON(cmd.OutOrStdout(), letterLines(letters)...)
			}
			return writeTable(cmd.OutOrStdout(), letterColumns, letters)
		})
	}
	return cmd
}

// letter is a dead letter and where it is.
type letter struct {
	framework.DeadLetter
	of framework.StoredPosition
}

// letters returns the dead letters in scope, in order.
func (v *view) letters(ctx context.Context) ([]letter, error) {
	lister, err := power[framework.DeadLetterLister](v.sink, "list dead letters")
	if err != nil {
		return nil, err
	}
	stored, err := v.stored(ctx)
	if err != nil {
		return nil, err
	}
	var all []letter
	for _, p := range stored {
		letters, err := lister.DeadLetters(ctx, p.Pipeline, p.TopicPartition)
		if err != nil {
			return nil, err
		}
		for _, d := range letters {
			all = append(all, letter{d, p})
		}
	}
	return all, nil
}

// mostError is how much of an error a table shows, in characters.
const mostError = 80

var letterColumns = []column[letter]{
	{"PIPELINE", func(l letter) string { return l.of.Pipeline }},
	{"TOPIC", func(l letter) string { return l.of.Topic }},
	{"PARTITION", func(l letter) string { return fmt.Sprint(l.of.Partition) }},
	{"OFFSET", func(l letter) string { return fmt.Sprint(l.Offset) }},
	{"STAGE", func(l letter) string { return printable(l.Stage) }},
	{"ATTEMPTS", func(l letter) string { return fmt.Sprint(l.Attempts) }},
	{"FAILED", func(l letter) string { return timeCell(l.FailedAt) }},
	{"ERROR", func(l letter) string { return cut(printable(l.Error), mostError) }},
}

// letterLine is a dead letter in JSON.
type letterLine struct {
	Pipeline  string     `json:"pipeline"`
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Stage     string     `json:"stage"`
	Error     string     `json:"error"`
	Attempts  int        `json:"attempts"`
	FailedAt  string     `json:"failed_at"`
	Record    recordLine `json:"record"`
}

func letterLines(letters []letter) []letterLine {
	var lines []letterLine
	for _, l := range letters {
		r := recordLine{l.Offset, timeCell(l.Timestamp), l.Key, l.Value, []headerLine{}}
		for _, h := range l.Headers {
			r.Headers = append(r.Headers, headerLine{h.Key, h.Value})
		}
		lines = append(lines, letterLine{
			l.of.Pipeline, l.of.Topic, l.of.Partition, l.Stage, l.Error, l.Attempts, timeCell(l.FailedAt), r,
		})
	}
	return lines
}
