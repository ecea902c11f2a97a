package main

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

// complete has a shell complete the value of a flag of cmd.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, f) // fails only without that flag, and then nothing is to be completed
}

// completionWait bounds how long a shell waits for names.
const completionWait = 2 * time.Second

// completeNames completes a flag by a name of the positions that are stored in the
// database of --sink, once that is given.
func completeNames(cmd *cobra.Command, flag string, dsn *string, s *scope, name func(framework.StoredPosition) string) {
	complete(cmd, flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionWait)
		defer cancel()
		db, err := parseSink(*dsn, completionWait, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		stored, err := readPositions(ctx, db, s.pipeline)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := distinct(stored, name)
		slices.Sort(names)
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}
