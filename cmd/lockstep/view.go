package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

// view is what positions and lag have in common: they look at some positions, and at
// Kafka if it is named.
type view struct {
	program *program
	dsn     *string
	wait    *time.Duration
	output  *string
	kafka   *kafkaFlags
	scope   scope

	json    bool
	cluster *cluster // nil: not to be asked
	sink    store
}

func (p *program) addViewFlags(cmd *cobra.Command) *view {
	v := &view{program: p, dsn: sinkFlag(cmd), wait: waitFlag(cmd), output: outputFlag(cmd), kafka: addKafkaFlags(cmd)}
	v.scope.pipelineFlag(cmd, "only this pipeline (default all)")
	v.scope.topicFlag(cmd, "only this topic (default all)")
	v.scope.partitionFlag(cmd, "only these partitions, such as 0,2 (default all)")
	completeNames(cmd, "pipeline", v.dsn, &scope{}, func(p framework.StoredPosition) string { return p.Pipeline })
	completeNames(cmd, "topic", v.dsn, &v.scope, func(p framework.StoredPosition) string { return p.Topic })
	return v
}

// run checks the flags, opens what they name, and does the work.
func (v *view) run(cmd *cobra.Command, work func(context.Context) error) (err error) {
	if v.json, err = wantsJSON(*v.output); err != nil {
		return err
	}
	if err := v.scope.check(); err != nil {
		return err
	}
	db, err := parseSink(*v.dsn, *v.wait, v.program.log)
	if err != nil {
		return err
	}
	if v.cluster, err = v.kafka.parse(*v.wait); err != nil {
		return err
	}
	defer v.cluster.close()
	ctx := cmd.Context()
	if v.sink, err = db.open(ctx); err != nil {
		return failed(err)
	}
	defer v.sink.Close(ctx)
	return failed(work(ctx))
}

// read returns the standings in scope, as they are now.
func (v *view) read(ctx context.Context) ([]standing, error) {
	stored, err := v.sink.Positions(ctx, "")
	if err != nil || len(stored) == 0 && v.scope.pipeline == "" {
		return nil, err
	}
	if stored, err = v.scope.choose(stored); err != nil {
		return nil, err
	}
	return look(ctx, stored, v.cluster, v.kafka.group, v.program.now())
}
