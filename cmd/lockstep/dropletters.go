package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

func (p *program) dropLettersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drop --sink DSN --pipeline NAME (--partition N --offset N,… | --all) [--apply]",
		Short: "Remove dead letters with which somebody has dealt",
		Long: `Remove dead letters: those of some offsets of a partition, or all in scope.
Without --apply it only lists them. What is removed is what was listed: a record
that has failed again meanwhile, after a reset, keeps its new letter. Running
pipelines are not disturbed, and their counts stay as they are.

` + exitCodes,
		Example: `  lockstep dead-letters drop --sink sqlite://app.db --pipeline spending --partition 1 --offset 17,19 --apply
  lockstep dead-letters drop --sink sqlite://app.db --pipeline spending --all`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	d := &dropLetters{view: p.addPipelineFlags(cmd)}
	cmd.Flags().Int64SliceVar(&d.offsets, "offset", nil, "the records' offsets, such as 17,19")
	cmd.Flags().BoolVar(&d.all, "all", false, "all dead letters in scope")
	cmd.Flags().BoolVar(&d.apply, "apply", false, "do it, instead of showing what would be done")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := d.check(); err != nil {
			return fmt.Errorf("%w: %w", framework.ErrConfig, err)
		}
		d.out, d.errs = cmd.OutOrStdout(), cmd.ErrOrStderr()
		return d.run(cmd, d.drop)
	}
	return cmd
}

// dropLetters is the command dead-letters drop.
type dropLetters struct {
	*view
	offsets    []int64
	all, apply bool
	out, errs  io.Writer
}

func (d *dropLetters) check() error {
	switch {
	case d.all == (len(d.offsets) > 0):
		return fmt.Errorf("give either --offset or --all")
	case !d.all && len(d.scope.partitions) != 1:
		return fmt.Errorf("--offset is for one partition; give --partition N")
	case slices.ContainsFunc(d.offsets, func(n int64) bool { return n < 0 }):
		return fmt.Errorf("--offset: give 0 or more")
	}
	return nil
}

func (d *dropLetters) drop(ctx context.Context) error {
	dropper, err := power[framework.DeadLetterDropper](d.sink, "drop dead letters")
	if err != nil {
		return err
	}
	letters, err := d.letters(ctx)
	if err == nil && !d.all {
		letters, err = at(letters, d.offsets)
	}
	if err != nil {
		return err
	}
	if len(letters) == 0 {
		fmt.Fprintln(d.errs, "lockstep: there are no dead letters")
		return nil
	}
	if err := d.show(letters); err != nil || !d.apply {
		return err
	}
	return d.dropAll(ctx, dropper, letters)
}

// show lists what is, or would be, removed.
func (d *dropLetters) show(letters []letter) error {
	if d.json {
		return writeJSON(d.out, letterLines(letters)...)
	}
	if err := writeTable(d.out, letterColumns, letters); err != nil {
		return err
	}
	if !d.apply {
		fmt.Fprintf(d.out, "\n%s\n", dryRunNote)
	}
	return nil
}

// dropAll removes letters, a partition at a time.
func (d *dropLetters) dropAll(ctx context.Context, dropper framework.DeadLetterDropper, letters []letter) error {
	dropped := 0
	for len(letters) > 0 {
		of := letters[0].of
		end := slices.IndexFunc(letters, func(l letter) bool { return l.of.TopicPartition != of.TopicPartition })
		if end < 0 {
			end = len(letters)
		}
		var these []framework.DeadLetter
		for _, l := range letters[:end] {
			these = append(these, l.DeadLetter)
		}
		if err := dropper.DropDeadLetters(ctx, of.Pipeline, of.TopicPartition, these); err != nil {
			return fmt.Errorf("%s were dropped before: %w", count(dropped, "dead letter"), err)
		}
		dropped, letters = dropped+end, letters[end:]
	}
	fmt.Fprintf(d.errs, "lockstep: %s dropped\n", count(dropped, "dead letter"))
	return nil
}
