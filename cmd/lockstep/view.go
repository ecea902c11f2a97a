package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

// view is what the commands have in common that look at some positions, and at Kafka
// if it is named.
type view struct {
	program *program
	dsn     *string
	wait    *time.Duration
	output  *string
	kafka   *kafkaFlags // nil: a matter of the sink alone
	scope   scope
	one     bool // a pipeline has to be named

	json    bool
	cluster *cluster // nil: not to be asked
	sink    store
}

// addViewFlags are for a command that may look at all pipelines.
func (p *program) addViewFlags(cmd *cobra.Command) *view {
	v := &view{program: p, dsn: sinkFlag(cmd), wait: waitFlag(cmd), output: outputFlag(cmd)}
	v.scope.pipelineFlag(cmd, "only this pipeline (default all)")
	v.addPlaceFlags(cmd)
	return v
}

// addPipelineFlags are for a command that looks at one pipeline.
func (p *program) addPipelineFlags(cmd *cobra.Command) *view {
	v := &view{program: p, dsn: sinkFlag(cmd), wait: waitFlag(cmd), output: outputFlag(cmd), one: true}
	v.scope.pipelineFlag(cmd, "the pipeline (required)")
	v.addPlaceFlags(cmd)
	return v
}

func (v *view) addPlaceFlags(cmd *cobra.Command) {
	v.scope.topicFlag(cmd, "only this topic (default all)")
	v.scope.partitionFlag(cmd, "only these partitions, such as 0,2 (default all)")
	completeNames(cmd, "pipeline", v.dsn, &scope{}, func(p framework.StoredPosition) string { return p.Pipeline })
	completeNames(cmd, "topic", v.dsn, &v.scope, func(p framework.StoredPosition) string { return p.Topic })
}

// run checks the flags, opens what they name, and does the work.
func (v *view) run(cmd *cobra.Command, work func(context.Context) error) (err error) {
	if v.json, err = wantsJSON(*v.output); err != nil {
		return err
	}
	check := v.scope.check
	if v.one {
		check = v.scope.requirePipeline
	}
	if err := check(); err != nil {
		return err
	}
	db, err := parseSink(*v.dsn, *v.wait, v.program.log)
	if err != nil {
		return err
	}
	if v.kafka != nil {
		if v.cluster, err = v.kafka.parse(*v.wait); err != nil {
			return err
		}
		defer v.cluster.close()
	}
	ctx := cmd.Context()
	if v.sink, err = db.open(ctx); err != nil {
		return failed(err)
	}
	defer v.sink.Close(context.WithoutCancel(ctx))
	return failed(work(ctx))
}

// stored returns the positions in scope. That there are none at all is no error
// where no pipeline is named.
func (v *view) stored(ctx context.Context) ([]framework.StoredPosition, error) {
	stored, err := v.sink.Positions(ctx, "")
	if err != nil || len(stored) == 0 && v.scope.pipeline == "" {
		return nil, err
	}
	return v.scope.choose(stored)
}

// read returns the standings in scope, as they are now.
func (v *view) read(ctx context.Context) ([]standing, error) {
	stored, err := v.stored(ctx)
	if err != nil {
		return nil, err
	}
	return v.look(ctx, stored)
}
