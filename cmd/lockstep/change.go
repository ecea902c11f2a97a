package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

// change is what the commands that move positions have in common: one topic of a
// pipeline, Kafka, a dry run unless --apply is given, and the care for owners.
type change struct {
	program *program
	dsn     *string
	wait    *time.Duration
	output  *string
	kafka   *kafkaFlags
	scope   scope
	fence   bool
	apply   bool

	json      bool
	cluster   *cluster
	sink      store
	resetter  framework.Resetter
	out, errs io.Writer
}

func (p *program) addChangeFlags(cmd *cobra.Command) *change {
	c := &change{program: p, dsn: sinkFlag(cmd), wait: waitFlag(cmd), output: outputFlag(cmd), kafka: addKafkaFlags(cmd)}
	c.scope.pipelineFlag(cmd, "the pipeline (required)")
	c.scope.topicFlag(cmd, "the topic (default the only one of the pipeline)")
	cmd.Flags().BoolVar(&c.fence, "fence", false, "take partitions from a living owner")
	cmd.Flags().BoolVar(&c.apply, "apply", false, "do it, instead of showing what would be done")
	completeNames(cmd, "pipeline", c.dsn, &scope{}, func(p framework.StoredPosition) string { return p.Pipeline })
	completeNames(cmd, "topic", c.dsn, &c.scope, func(p framework.StoredPosition) string { return p.Topic })
	return c
}

// run checks the flags, opens what they name, and does the work with the positions
// in scope.
func (c *change) run(cmd *cobra.Command, work func(context.Context, []framework.StoredPosition) error) (err error) {
	c.out, c.errs = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if c.json, err = wantsJSON(*c.output); err != nil {
		return err
	}
	if err := c.scope.requirePipeline(); err != nil {
		return err
	}
	db, err := parseSink(*c.dsn, *c.wait, c.program.log)
	if err != nil {
		return err
	}
	if c.cluster, err = c.kafka.require(*c.wait); err != nil {
		return err
	}
	defer c.cluster.close()
	ctx := cmd.Context()
	if c.sink, err = db.open(ctx); err != nil {
		return failed(err)
	}
	defer c.sink.Close(context.WithoutCancel(ctx))
	return failed(c.work(ctx, work))
}

func (c *change) work(ctx context.Context, work func(context.Context, []framework.StoredPosition) error) (err error) {
	if c.resetter, err = power[framework.Resetter](c.sink, "move positions"); err != nil {
		return err
	}
	stored, err := c.sink.Positions(ctx, "")
	if err != nil {
		return err
	}
	if stored, err = c.scope.chooseOneTopic(stored); err != nil {
		return err
	}
	return work(ctx, stored)
}

// topic asks Kafka for the topic of the positions, which has to exist.
func (c *change) topic(ctx context.Context, name string) (topicLog, error) {
	logs, err := c.cluster.logs(ctx, []string{name})
	if err != nil {
		return topicLog{}, err
	}
	if log, ok := logs[name]; ok {
		return log, nil
	}
	names, err := c.cluster.topicNames(ctx)
	if err != nil {
		return topicLog{}, err
	}
	if len(names) == 0 {
		return topicLog{}, fmt.Errorf("topic %q is not in Kafka, which has no topics; is --brokers right?", name)
	}
	return topicLog{}, fmt.Errorf("topic %q is not in Kafka; there are %s", name, quoted(names))
}

// dryRunNote ends what a dry run says.
const dryRunNote = "dry run: nothing was changed; --apply does it"
