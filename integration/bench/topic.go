package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lockstep-stream/lockstep/examples/exactlyonce/app"
	"github.com/lockstep-stream/lockstep/examples/exactlyonce/generate"
	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sources/kafka"
)

// newTopic makes a topic of n events, about 120 bytes each, on the partitions of
// the example.
func newTopic(ctx context.Context, o options, n int) (string, error) {
	topic := "bench-" + uuid.NewString()
	p, err := generate.Connect(ctx, o.brokers, topic, time.Minute, o.quiet)
	if err != nil {
		return "", err
	}
	defer p.Close()
	if err := p.CreateTopic(ctx); err != nil {
		return "", err
	}
	g := generate.NewGenerator(1, 1_000_000_000_000, time.Now(), 10*time.Millisecond)
	return topic, p.Produce(ctx, n, 0, g.Next, func(int32, int64, app.Event) {})
}

// runUntil runs a pipeline from the beginning of topic until n records are
// saved, and returns how long it took from nothing to the last save.
func runUntil[W any](ctx context.Context, o options, topic string, n int, p *framework.Pipeline[W], sink framework.Sink[W]) (time.Duration, error) {
	began := time.Now()
	source, err := kafka.New(kafka.Config{Brokers: o.brokers, Topics: []string{topic}, Group: p.Name() + uuid.NewString(), Logger: o.quiet})
	if err != nil {
		return 0, err
	}
	done := newCounter(n)
	runner, err := framework.NewRunner(p, source, sink, framework.Config{Logger: o.quiet, Hooks: framework.Hooks{Saved: done.saved}})
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var took time.Duration
	go func() {
		select {
		case <-done.reached:
			took = time.Since(began)
		case <-ctx.Done():
		}
		stop()
	}()
	if err := runner.Run(ctx); err != nil {
		return 0, err
	}
	if took == 0 {
		return 0, fmt.Errorf("stopped before %d records were saved", n)
	}
	return took, nil
}

// consume reads n records of topic with a bare client and calls each for them.
func consume(ctx context.Context, o options, topic string, n int, each func(*kgo.Record) error) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	for n > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for iter := fetches.RecordIter(); !iter.Done(); n-- {
			if err := each(iter.Next()); err != nil {
				return err
			}
		}
	}
	return nil
}
