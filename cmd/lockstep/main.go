// Command lockstep is the operator's tool: it looks at what sinks have stored
// and prepares databases. `lockstep help` lists its commands.
//
// Every command names the database by --sink, a data source name such as
// cassandra://10.0.0.1:9042/app or sqlite:///var/lib/app.db. It exits with 0 on
// success, 1 when the work failed, which includes a database that is missing, not
// reachable or not prepared, and 2 when the command line is wrong, which is found
// out before anything is connected to.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// exitCodes are said by --help.
const exitCodes = `Exit codes: 0 success; 1 the work failed, which includes a database that is
missing, not reachable or not prepared; 2 the command line is wrong, which is
found out before anything is connected to.`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := root(slog.New(slog.NewTextHandler(stderr, nil)))
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SetFlagErrorFunc(func(at *cobra.Command, err error) error {
		if at == cmd && !strings.HasPrefix(args[0], "-") {
			return unknownCommand(cmd, args[0]) // its flags are not what is wrong
		}
		return err
	})
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "lockstep:", err)
	var failed *failure
	if errors.As(err, &failed) {
		return exitFailed
	}
	fmt.Fprintln(stderr, "lockstep: --help tells commands and flags")
	return exitUsage
}

// failure marks an error of the work itself; others are of the command line.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err}
}

func unknownCommand(root *cobra.Command, name string) error {
	if alike := root.SuggestionsFor(name); len(alike) > 0 {
		return fmt.Errorf("unknown command %q; is it %s?", name, strings.Join(alike, " or "))
	}
	return fmt.Errorf("unknown command %q; `lockstep help` lists the commands", name)
}

func root(log *slog.Logger) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lockstep",
		Short: "Look at what Lockstep pipelines have saved, and prepare databases",
		Long: `Look at what Lockstep pipelines have saved, and prepare databases. The database
is named by --sink.

` + exitCodes,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(positionsCommand(log), migrateCommand(log))
	return cmd
}
