package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// scope is what a command is about: a pipeline, one of its topics, some of that
// one's partitions. What is left out means all of them.
type scope struct {
	pipeline   string
	topic      string
	partitions []int32
}

// pipelineFlag, topicFlag and partitionFlag add one flag each.
func (s *scope) pipelineFlag(cmd *cobra.Command, help string) {
	cmd.Flags().StringVar(&s.pipeline, "pipeline", "", help)
}

func (s *scope) topicFlag(cmd *cobra.Command, help string) {
	cmd.Flags().StringVar(&s.topic, "topic", "", help)
}

func (s *scope) partitionFlag(cmd *cobra.Command, help string) {
	cmd.Flags().Int32SliceVar(&s.partitions, "partition", nil, help)
}

// requirePipeline refuses a scope of all pipelines.
func (s *scope) requirePipeline() error {
	if s.pipeline == "" {
		return fmt.Errorf("%w: --pipeline is missing; `lockstep positions` lists the pipelines", framework.ErrConfig)
	}
	return s.check()
}

// check refuses what no pipeline could have.
func (s *scope) check() error {
	if s.topic != "" {
		if _, err := offsetstore.ParseTopics("--topic", s.topic); err != nil {
			return fmt.Errorf("%w: %w", framework.ErrConfig, err)
		}
	}
	for i, p := range s.partitions {
		if p < 0 {
			return fmt.Errorf("%w: --partition %d: give 0 or more", framework.ErrConfig, p)
		}
		if slices.Contains(s.partitions[:i], p) {
			return fmt.Errorf("%w: --partition %d is given twice", framework.ErrConfig, p)
		}
	}
	return nil
}

// choose returns those of stored that are in scope, in their order. The error names
// what there is instead.
func (s *scope) choose(stored []framework.StoredPosition) ([]framework.StoredPosition, error) {
	if s.pipeline != "" {
		all := stored
		if stored = keep(stored, func(p framework.StoredPosition) bool { return p.Pipeline == s.pipeline }); len(stored) == 0 {
			return nil, fmt.Errorf("--pipeline %q: it has no positions; %s", s.pipeline, whoHas(all))
		}
	}
	if s.topic != "" {
		all := stored
		if stored = keep(stored, func(p framework.StoredPosition) bool { return p.Topic == s.topic }); len(stored) == 0 {
			return nil, fmt.Errorf("--topic %q: there are no positions in it, but in %s", s.topic, quoted(topicsOf(all)))
		}
	}
	return s.choosePartitions(stored)
}

func (s *scope) choosePartitions(stored []framework.StoredPosition) ([]framework.StoredPosition, error) {
	for _, n := range s.partitions {
		if !slices.ContainsFunc(stored, func(p framework.StoredPosition) bool { return p.Partition == n }) {
			return nil, fmt.Errorf("--partition %d: there is no position in it, but in %s", n, placesOf(stored))
		}
	}
	return keep(stored, func(p framework.StoredPosition) bool {
		return len(s.partitions) == 0 || slices.Contains(s.partitions, p.Partition)
	}), nil
}

// chooseOneTopic is choose for a command that works on one topic. Where the pipeline
// has positions in one only, it need not be named.
func (s *scope) chooseOneTopic(stored []framework.StoredPosition) ([]framework.StoredPosition, error) {
	chosen, err := (&scope{s.pipeline, s.topic, nil}).choose(stored)
	if err != nil {
		return nil, err
	}
	if topics := topicsOf(chosen); len(topics) > 1 {
		return nil, fmt.Errorf("--topic is missing: pipeline %q has positions in %s", s.pipeline, quoted(topics))
	}
	return s.choosePartitions(chosen)
}

func keep(stored []framework.StoredPosition, which func(framework.StoredPosition) bool) []framework.StoredPosition {
	var kept []framework.StoredPosition
	for _, p := range stored {
		if which(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// whoHas names the pipelines that have positions.
func whoHas(stored []framework.StoredPosition) string {
	if len(stored) == 0 {
		return "no pipeline has any"
	}
	return "there are some of " + quoted(distinct(stored, func(p framework.StoredPosition) string { return p.Pipeline }))
}

func topicsOf(stored []framework.StoredPosition) []string {
	return distinct(stored, func(p framework.StoredPosition) string { return p.Topic })
}

func placesOf(stored []framework.StoredPosition) string {
	places := distinct(stored, func(p framework.StoredPosition) string { return p.String() })
	return strings.Join(shorten(places), ", ")
}

// distinct returns the different names of positions, which are in their order.
func distinct(stored []framework.StoredPosition, name func(framework.StoredPosition) string) []string {
	var names []string
	for _, p := range stored {
		if n := name(p); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

func quoted(names []string) string {
	var all []string
	for _, n := range names {
		all = append(all, strconv.Quote(n))
	}
	return strings.Join(shorten(all), ", ")
}

// shorten keeps an error from listing hundreds of names.
func shorten(names []string) []string {
	const most = 20
	if len(names) <= most {
		return names
	}
	return append(names[:most:most], fmt.Sprintf("and %d more", len(names)-most))
}
