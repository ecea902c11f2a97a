package sinktest

import (
	"context"
	"maps"
	"sync"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func startCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name: "start_stored_by_claim",
		rule: "Claim stores the start if there is no position yet, so that a restart begins where this start did",
		run: func(e *env[W]) {
			e.wantStart(e.lane(0), offsetstore.At(7), offsetstore.At(7))
			e.wantStart(e.lane(0), offsetstore.At(99), offsetstore.At(7))
		},
	}, {
		name: "start_zero_is_not_none",
		rule: "a stored position of 0 differs from no position: a later start does not replace it",
		run: func(e *env[W]) {
			e.wantStart(e.lane(0), offsetstore.At(0), offsetstore.At(0))
			e.wantStart(e.lane(0), offsetstore.At(99), offsetstore.At(0))
		},
	}, {
		name: "position_whole",
		rule: "a position is kept whole: offset, leader epoch and topic ID, known or not",
		run:  positionWhole[W],
	}, {
		name: "lane_data_whole",
		rule: "the lane's data is kept byte for byte, from nothing to a few hundred bytes",
		run:  laneDataWhole[W],
	}, {
		name: "progress_as_of_claim",
		rule: "Progress is what was saved last as of the claim; it does not follow later saves",
		run: func(e *env[W]) {
			c := e.claim(e.lane(0))
			e.steps(c, e.lane(0), 1, 2)
			if at := c.Progress().Position.Offset; at != 0 {
				e.fatalf("claimed at 0 and saved to 2, Progress says %d", at)
			}
		},
	}}
}

// wantStart claims l with a start, as a new process, and checks where it
// continues.
func (e *env[W]) wantStart(l lane, start, want offsetstore.Position) {
	e.r.Helper()
	c := e.claimOn(e.open(), l, start)
	if got := c.Progress(); got.Position != want || len(got.Lane) != 0 {
		e.fatalf("claimed with start %+v: Progress is %+v, want %+v", start, got, want)
	}
}

var somePositions = []offsetstore.Position{
	{Offset: 0, LeaderEpoch: offsetstore.NoLeaderEpoch},
	{Offset: 0, LeaderEpoch: 0},
	{Offset: 1 << 62, LeaderEpoch: 1<<31 - 1, TopicID: offsetstore.TopicID{0: 1, 15: 255}},
	{Offset: 5, LeaderEpoch: 3, TopicID: offsetstore.TopicID{7: 7}},
	{Offset: 5, LeaderEpoch: offsetstore.NoLeaderEpoch},
}

func positionWhole[W any](e *env[W]) {
	for i, p := range somePositions {
		l := e.lane(int32(i))
		e.wantStart(l, p, p)
		e.wantStart(l, offsetstore.At(99), p)
	}
	l := e.lane(1000)
	at := framework.Progress{Position: offsetstore.At(0)}
	e.wantStart(l, at.Position, at.Position)
	for _, p := range somePositions {
		to := framework.Progress{Position: p}
		e.save(e.claim(l), &framework.Batch[W]{From: at, To: to})
		e.wantStart(l, offsetstore.At(99), p)
		at = to
	}
}

func laneDataWhole[W any](e *env[W]) {
	all := make([]byte, 700)
	for i := range all {
		all[i] = byte(i)
	}
	at := framework.Progress{Position: offsetstore.At(0)}
	for _, data := range [][]byte{{0}, all, nil, []byte("lane")} {
		to := framework.Progress{Position: offsetstore.At(at.Position.Offset + 1), Lane: data}
		e.save(e.claim(e.lane(0)), &framework.Batch[W]{From: at, To: to})
		if got := e.claim(e.lane(0)).Progress(); string(got.Lane) != string(data) || got.Position != to.Position {
			e.fatalf("saved lane data %q at %d, read back %q at %d", data, to.Position.Offset, got.Lane, got.Position.Offset)
		}
		at = to
	}
}

func topicCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name: "topic_stored_once",
		rule: "Topic stores a proposal only if nothing is stored yet, and returns what is stored, whoever asks",
		run: func(e *env[W]) {
			e.wantTopic(e.open(), e.pipeline, "topic", topicStart(1), topicStart(1))
			e.wantTopic(e.open(), e.pipeline, "topic", topicStart(2), topicStart(1))
		},
	}, {
		name: "topic_one_of_many_proposals",
		rule: "when several processes propose at once, all are given the same answer",
		run:  topicOneOfMany[W],
	}, {
		name: "topic_whole",
		rule: "what Topic stores is kept whole, and belongs to one pipeline and one topic",
		run:  topicWhole[W],
	}, {
		name: "topic_interrupted",
		rule: "a Topic call that is cut short stores its proposal whole or not at all",
		run:  topicInterrupted[W],
	}}
}

// topicStart returns one of many distinguishable starts.
func topicStart(n byte) framework.TopicStart {
	return framework.TopicStart{
		ClusterID: "cluster",
		TopicID:   offsetstore.TopicID{0: n},
		Starts:    map[int32]int64{0: 0, 1: int64(n)},
	}
}

func sameTopicStart(a, b framework.TopicStart) bool {
	return a.ClusterID == b.ClusterID && a.TopicID == b.TopicID && maps.Equal(a.Starts, b.Starts)
}

func (e *env[W]) topic(s framework.Sink[W], pipeline, topic string, propose framework.TopicStart) framework.TopicStart {
	e.r.Helper()
	got, err := s.Topic(e.ctx, pipeline, topic, propose)
	if err != nil {
		e.fatalf("Topic returned %v", err)
	}
	return got
}

func (e *env[W]) wantTopic(s framework.Sink[W], pipeline, topic string, propose, want framework.TopicStart) {
	e.r.Helper()
	if got := e.topic(s, pipeline, topic, propose); !sameTopicStart(got, want) {
		e.fatalf("pipeline %q, topic %q: proposed %+v, given %+v, want %+v", pipeline, topic, propose, got, want)
	}
}

func topicOneOfMany[W any](e *env[W]) {
	sinks := []framework.Sink[W]{e.open(), e.open()}
	const proposals = 8
	var wg sync.WaitGroup
	var answers [proposals]framework.TopicStart
	var errs [proposals]error
	for i := range proposals {
		wg.Go(func() {
			answers[i], errs[i] = sinks[i%2].Topic(e.ctx, e.pipeline, "topic", topicStart(byte(i+1)))
		})
	}
	wg.Wait()
	for i := range proposals {
		if errs[i] != nil {
			e.fatalf("Topic returned %v", errs[i])
		}
		if !sameTopicStart(answers[i], answers[0]) {
			e.fatalf("one caller was given %+v, another %+v", answers[0], answers[i])
		}
	}
}

func topicWhole[W any](e *env[W]) {
	many := map[int32]int64{}
	for p := range int32(300) {
		many[p] = int64(p) << 40
	}
	s := e.open()
	for topic, start := range map[string]framework.TopicStart{
		"a":     {ClusterID: "c", TopicID: offsetstore.TopicID{1}, Starts: many},
		"b":     {Starts: map[int32]int64{0: 0}},
		"empty": {ClusterID: "c"},
	} {
		e.wantTopic(s, e.pipeline, topic, start, start)
		e.wantTopic(e.open(), e.pipeline, topic, topicStart(9), start)
	}
	e.wantTopic(s, e.pipeline+"-other", "a", topicStart(2), topicStart(2))

	given := e.topic(s, e.pipeline, "b", topicStart(9))
	given.Starts[0] = 77 // the caller's own from here on
	e.wantTopic(s, e.pipeline, "b", topicStart(9), framework.TopicStart{Starts: map[int32]int64{0: 0}})
}

func topicInterrupted[W any](e *env[W]) {
	s := e.open()
	e.sweepCancel(func(ctx context.Context, round int32) {
		topic := e.key("topic-%d", round)
		answered, err := s.Topic(ctx, e.pipeline, topic, topicStart(1))
		stored := e.topic(s, e.pipeline, topic, topicStart(2))
		switch {
		case err == nil && !sameTopicStart(answered, stored):
			e.fatalf("Topic returned %+v, stored is %+v", answered, stored)
		case !sameTopicStart(stored, topicStart(1)) && !sameTopicStart(stored, topicStart(2)):
			e.fatalf("stored is %+v, which nobody proposed", stored)
		}
	})
}
