package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

func (p *program) showLetterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show --sink DSN --pipeline NAME --partition N --offset N [--output table|json]",
		Short: "Show one dead letter whole: the record, and why it failed",
		Long: `Show one dead letter whole: the record's key, value and headers as they were in
Kafka, and the error in full. Bytes that are no text are in hexadecimal, and in
base64 in JSON.

` + exitCodes,
		Example: `  lockstep dead-letters show --sink sqlite://app.db --pipeline spending --partition 1 --offset 17
  lockstep dead-letters show --sink sqlite://app.db --pipeline spending --partition 1 --offset 17 --output json | jq -r .record.value.text`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	v := p.addPipelineFlags(cmd)
	offset := cmd.Flags().Int64("offset", -1, "the record's offset (required)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(v.scope.partitions) != 1 || *offset < 0 {
			return fmt.Errorf("%w: give one --partition and the --offset, 0 or more, of the record", framework.ErrConfig)
		}
		return v.run(cmd, func(ctx context.Context) error {
			all, err := v.letters(ctx)
			if err != nil {
				return err
			}
			found, err := at(all, []int64{*offset})
			if err != nil {
				return err
			}
			if v.json {
				return writeJSON(cmd.OutOrStdout(), letterLines(found)...)
			}
			for _, l := range found {
				showLetter(cmd.OutOrStdout(), l)
			}
			return nil
		})
	}
	return cmd
}

// at returns the letters of the offsets; the error tells which there are.
func at(all []letter, offsets []int64) ([]letter, error) {
	var found []letter
	for _, offset := range offsets {
		before := len(found)
		for _, l := range all {
			if l.Offset == offset {
				found = append(found, l)
			}
		}
		if len(found) == before {
			return nil, fmt.Errorf("there is no dead letter of offset %d; %s", offset, whereLettersAre(all))
		}
	}
	return found, nil
}

func whereLettersAre(all []letter) string {
	if len(all) == 0 {
		return "there are none in that partition"
	}
	var places []string
	for _, l := range all {
		if place := fmt.Sprint(l.Offset); !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return "there are some of " + strings.Join(shorten(places), ", ")
}

func showLetter(out io.Writer, l letter) {
	for _, line := range [][2]string{
		{"pipeline", l.of.Pipeline},
		{"record", fmt.Sprintf("%s@%d", l.of.TopicPartition, l.Offset)},
		{"time", timeCell(l.Timestamp)},
		{"stage", printable(l.Stage)},
		{"failed", fmt.Sprintf("%s, after %s", timeCell(l.FailedAt), count(l.Attempts, "attempt"))},
		{"error", printable(l.Error)},
		{"key", shown(l.Key)},
	} {
		fmt.Fprintf(out, "%-9s %s\n", line[0], line[1])
	}
	for _, h := range l.Headers {
		fmt.Fprintf(out, "%-9s %s: %s\n", "header", shown([]byte(h.Key)), shown(h.Value))
	}
	fmt.Fprintf(out, "%-9s %s\n", "value", shown(l.Value))
}
