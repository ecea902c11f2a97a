package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

// leastInterval keeps --watch from asking without a pause.
const leastInterval = 100 * time.Millisecond

func (p *program) lagCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lag --sink DSN --brokers HOST:PORT,… [--pipeline NAME] [--watch]",
		Short: "Show how far the saved positions are behind the logs",
		Long: `Show how far the saved positions are behind the ends of the logs. LAG counts
offsets up to the end as a reader of committed records sees it. Offsets are no
records: gaps that compaction leaves and the markers of transactions have
offsets, too, so a pipeline that has read everything may keep a small lag in a
topic that is written to by transactions.

GROUP is what the consumer group has committed, a mirror that ordinary lag tools
read. AGE is the time since the last save. CONDITION says what keeps a position
from being read from; "lockstep positions --help" lists the conditions.

With --watch it is shown again and again, with the RATE in offsets a second since
the time before, until the command is interrupted. On Cassandra each time reads
the whole ledger: an --interval below ten seconds is for small ones.
` + kafkaHelp + `

` + exitCodes + `
A --watch that is interrupted is a success.`,
		Example: `  lockstep lag --sink sqlite://app.db --brokers 127.0.0.1:9092
  lockstep lag --sink cassandra://10.0.0.1/app --brokers 10.0.0.2:9092 --watch --interval 10s
  lockstep lag --sink sqlite://app.db --brokers 127.0.0.1:9092 --output json | jq .lag`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	v := p.addViewFlags(cmd)
	v.kafka = addKafkaFlags(cmd)
	watch := cmd.Flags().Bool("watch", false, "show it again and again, until interrupted")
	interval := cmd.Flags().Duration("interval", 2*time.Second, "the pause between two times of --watch")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !v.kafka.given() {
			return errNoBrokers
		}
		if *interval < leastInterval {
			return fmt.Errorf("%w: --interval %s: give %s or more", framework.ErrConfig, *interval, leastInterval)
		}
		return v.run(cmd, func(ctx context.Context) error {
			l := &lagReport{view: v, out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr()}
			if !*watch {
				return l.once(ctx)
			}
			return l.watch(ctx, *interval)
		})
	}
	return cmd
}

// lagReport shows the lag, once or again and again.
type lagReport struct {
	*view
	out, errs io.Writer
	watching  bool
	at        time.Time        // of the last time
	before    map[string]int64 // the positions then, by pipeline and partition
}

func (l *lagReport) once(ctx context.Context) error {
	all, err := l.read(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(l.errs, "lockstep: no positions are stored")
		return nil
	}
	defer l.remember(all)
	if l.json {
		return writeJSON(l.out, lines(all)...)
	}
	return writeTable(l.out, l.columns(all), all)
}

func (l *lagReport) remember(all []standing) {
	l.at, l.before = l.program.now(), map[string]int64{}
	for _, s := range all {
		l.before[placeOf(s)] = s.Position.Offset
	}
}

func placeOf(s standing) string { return s.Pipeline + " " + s.String() }

// rate is how fast a position has moved since the time before.
func (l *lagReport) rate(s standing) string {
	before, ok := l.before[placeOf(s)]
	elapsed := l.program.now().Sub(l.at).Seconds()
	if !ok || elapsed <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f/s", float64(s.Position.Offset-before)/elapsed)
}

func (l *lagReport) columns(all []standing) []column[standing] {
	columns := append(append([]column[standing]{}, placeColumns...), logColumns...)
	if l.watching {
		columns = append(columns, column[standing]{"RATE", l.rate})
	}
	columns = append(columns, column[standing]{"AGE", ageCell})
	return append(columns, rareColumns(all)...)
}

// watch goes on after an error, unless it is the first thing that happens: a server
// may be started again while somebody looks.
func (l *lagReport) watch(ctx context.Context, interval time.Duration) error {
	l.watching = true
	for first := true; ; first = false {
		err := l.round(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // whatever it was, it was interrupted
		}
		switch {
		case err != nil && (first || errors.Is(err, framework.ErrConfig)):
			return err
		case err != nil:
			fmt.Fprintln(l.errs, "lockstep:", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

func (l *lagReport) round(ctx context.Context) error {
	if !l.json {
		fmt.Fprintln(l.out, l.program.now().Format(time.DateTime))
	}
	return l.once(ctx)
}
