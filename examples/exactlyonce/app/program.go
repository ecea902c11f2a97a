package app

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// Main is the main function of the example's programs. The first SIGINT or
// SIGTERM ends the context, so that work in flight is finished; the second
// kills. It exits with 2 when the settings are at fault and with 1 for any other
// error.
func Main(run func(ctx context.Context, args []string) error) {
	os.Exit(exitCode(os.Stderr, runWithSignals(run)))
}

func runWithSignals(run func(ctx context.Context, args []string) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// Once it has ended, signals do again what they do by default.
	defer context.AfterFunc(ctx, stop)()
	return run(ctx, os.Args[1:])
}

func exitCode(w io.Writer, err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(w, "stopped")
		return 1
	case errors.Is(err, framework.ErrConfig):
		fmt.Fprintln(w, "error:", err)
		return 2
	default:
		fmt.Fprintln(w, "error:", err)
		return 1
	}
}

// ParseFlags parses args, which must be flags only. What is wrong with them is
// in the error, which matches [framework.ErrConfig], and not printed; help is
// printed to w.
func ParseFlags(flags *flag.FlagSet, args []string, w io.Writer) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return errors.Join(err, printHelp(flags, w))
	case err != nil:
		return fmt.Errorf("%w: %s (--help lists the flags)", framework.ErrConfig, twoDashes.Replace(err.Error()))
	case flags.NArg() > 0:
		return fmt.Errorf("%w: unexpected argument %q: all settings are flags (--help lists them)", framework.ErrConfig, flags.Arg(0))
	}
	return nil
}

// twoDashes spells flags in what package flag says of them as all other texts do.
var twoDashes = strings.NewReplacer("for -", "for --", "for flag -", "for flag --", "needs an argument: -", "needs an argument: --", "not defined: -", "not defined: --")

// printHelp writes what package flag says, with the flags spelt as in all other
// texts: it takes one dash or two.
func printHelp(flags *flag.FlagSet, w io.Writer) error {
	var text bytes.Buffer
	flags.SetOutput(&text)
	flags.Usage()
	_, err := io.WriteString(w, strings.ReplaceAll(text.String(), "\n  -", "\n  --"))
	return err
}

// Brokers parses the value of --brokers. The error matches
// [framework.ErrConfig].
func Brokers(list string) ([]string, error) {
	brokers, err := offsetstore.ParseBrokers("--brokers", list)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", framework.ErrConfig, err)
	}
	return brokers, nil
}

// OneTopic parses the value of --topic, which must be one topic. The error
// matches [framework.ErrConfig].
func OneTopic(name string) (string, error) {
	topics, err := offsetstore.ParseTopics("--topic", name)
	if err != nil {
		return "", fmt.Errorf("%w: %w", framework.ErrConfig, err)
	}
	if len(topics) > 1 {
		return "", fmt.Errorf("%w: --topic %q: give one topic", framework.ErrConfig, name)
	}
	return topics[0], nil
}
