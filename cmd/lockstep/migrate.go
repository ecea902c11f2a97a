package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

func (p *program) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate --sink DSN [--schema FILE]...",
		Short: "Create what the sink needs in its database, and tables of your own",
		Long: `Create the sink's own tables, and the keyspace where there is one, unless they
exist. Files given by --schema are run afterwards, in order; their statements
must be idempotent (IF NOT EXISTS). The command may be repeated, and run by
several machines at once.

` + exitCodes,
		Example:               `  lockstep migrate --sink 'cassandra://10.0.0.1/app?replication=3' --schema tables.cql`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	dsn, wait := sinkFlag(cmd), waitFlag(cmd)
	files := cmd.Flags().StringArray("schema", nil, "a file with statements that create tables of yours; may be repeated")
	_ = cmd.MarkFlagFilename("schema", "sql", "cql") // fails only without that flag
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		db, err := parseSink(*dsn, *wait, p.log)
		if err != nil {
			return err
		}
		schema, err := readAll(*files)
		if err != nil {
			return err
		}
		if err := db.migrate(cmd.Context(), nil); err != nil {
			return failed(err)
		}
		for i, text := range schema {
			// One at a time, so that the file at fault can be named.
			if err := db.migrate(cmd.Context(), []string{text}); err != nil {
				return failed(fmt.Errorf("--schema %s: %w", (*files)[i], err))
			}
		}
		fmt.Fprintln(cmd.OutOrStdout(), "the database is ready")
		return nil
	}
	return cmd
}

func readAll(files []string) ([]string, error) {
	var texts []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--schema %q: %w: %w", name, framework.ErrConfig, err)
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}
