// Command lockstep is the operator's tool: it shows what pipelines have saved and
// how far they are behind, moves positions, passes over a record that stops a
// pipeline, finishes what a dead owner left, reads totals and dead letters, and
// prepares databases. `lockstep help` lists its commands.
//
// Every command names the database by --sink, a data source name such as
// cassandra://10.0.0.1:9042/app or sqlite:///var/lib/app.db; those that compare with
// Kafka, or move a position in it, name that by --brokers. The environment may say
// both, as LOCKSTEP_SINK and LOCKSTEP_BROKERS. A sink is asked for what
// a command needs by the optional interfaces of package framework, and the command
// says which one it misses.
//
// # Changes
//
// What changes something (reset, skip, dead-letters drop) shows what it would do,
// and does it with --apply. Each partition is changed by one compare-and-set, so
// that a command which is interrupted, or meets a running pipeline, leaves every
// partition either as it was or as it should be, and says which. A partition with a
// living owner is left alone unless --fence says otherwise.
//
// # Exit codes
//
// 0 is success. 1 is work that failed, which includes a server that cannot be
// reached, a database that is missing or not prepared, and a name that does not
// exist in it. 2 is a wrong command line, which is found out before anything is
// connected to. 3 is a change that was refused, since something is not as it has to
// be for that: a living owner, a position that has moved, an offset that the log
// does not hold.
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
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3
)

// exitCodes are said by --help.
const exitCodes = `Exit codes: 0 success; 1 the work failed, which includes a server that cannot be
reached, a database that is missing or not prepared, and a name that does not
exist in it; 2 the command line is wrong, which is found out before anything is
connected to; 3 a change was refused, since something is not as it has to be: a
living owner, a position that has moved, an offset that the log does not hold.`

// program is what all commands share.
type program struct {
	log *slog.Logger
	now func() time.Time
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := &program{slog.New(slog.NewTextHandler(stderr, nil)), time.Now}
	return p.run(ctx, args, stdout, stderr)
}

func (p *program) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := p.root()
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
		return failed.code
	}
	fmt.Fprintln(stderr, "lockstep: --help tells commands and flags")
	return exitUsage
}

func unknownCommand(at *cobra.Command, name string) error {
	if alike := at.SuggestionsFor(name); len(alike) > 0 {
		return fmt.Errorf("unknown command %q; is it %s?", name, strings.Join(alike, " or "))
	}
	help := strings.TrimSpace("help " + strings.TrimPrefix(at.CommandPath(), "lockstep"))
	return fmt.Errorf("unknown command %q; `lockstep %s` lists the commands", name, strings.Join(strings.Fields(help), " "))
}

func (p *program) root() *cobra.Command {
	cmd := group("lockstep", "Look at what Lockstep pipelines have saved, and put it right", `Look at what Lockstep pipelines have saved, and put it right. The database is
named by --sink, Kafka by --brokers; LOCKSTEP_SINK and LOCKSTEP_BROKERS stand for
them where they are left out. What changes something shows first what it would do,
and does it with --apply. "lockstep completion" makes the names complete in a shell.`)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.AddCommand(p.positionsCommand(), p.lagCommand(), p.resetCommand(), p.skipCommand(),
		p.deadLettersCommand(), p.totalsCommand(), p.flushCommand(), p.migrateCommand())
	return cmd
}

// group is a command that only has others.
func group(use, short, long string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long + "\n\n" + exitCodes,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// For typing errors.
		SuggestionsMinimumDistance: 2,
	}
}
