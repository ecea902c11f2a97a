package sinktest

import (
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

func isolationCases[W any]() []testCase[W] {
	return []testCase[W]{{
		name: "names_never_rewritten",
		rule: `names are kept byte for byte: "a-b", "ab", "a_b" and "A-B" are four pipelines, and so with topics`,
		run: func(e *env[W]) {
			names := []string{"a-b", "ab", "a_b", "a.b", "A-B", "a b", "ab ", " ab", "a/b", "a'b", "a%b", "äb", "ab/topic"}
			var lanes []lane
			for _, name := range names {
				lanes = append(lanes,
					lane{e.pipeline + name, offsetstore.TopicPartition{Topic: "topic"}},
					lane{e.pipeline, offsetstore.TopicPartition{Topic: name}})
			}
			e.wantApart(lanes)
		},
	}, {
		name: "lanes_apart",
		rule: "each (pipeline, topic, partition) has a position, lane data, state and dead letters of its own",
		run: func(e *env[W]) {
			var lanes []lane
			for _, pipeline := range []string{e.pipeline, e.pipeline + "1", e.pipeline + ".t"} {
				for _, topic := range []string{"t", "t1", "t.t", strings.Repeat("x", 249)} {
					for _, partition := range []int32{0, 1, 11} {
						lanes = append(lanes, lane{pipeline, offsetstore.TopicPartition{Topic: topic, Partition: partition}})
					}
				}
			}
			longest := e.pipeline + strings.Repeat("p", 100-len(e.pipeline))
			lanes = append(lanes, lane{longest, offsetstore.TopicPartition{Topic: strings.Repeat("x", 249)}})
			e.wantApart(lanes)
		},
	}, {
		name: "topics_apart",
		rule: "what Topic stores is found by pipeline and topic, both byte for byte",
		run: func(e *env[W]) {
			s := e.open()
			names := []string{"a-b", "ab", "a_b", "a.b", "A-B", "ab "}
			for pass := range 2 {
				for i, name := range names {
					propose := topicStart(byte(10 + i + 100*pass))
					e.wantTopic(s, e.pipeline+name, "topic", propose, topicStart(byte(10+i)))
					propose = topicStart(byte(50 + i + 100*pass))
					e.wantTopic(s, e.pipeline, name, propose, topicStart(byte(50+i)))
				}
			}
		},
	}, {
		name:  "claims_apart",
		rule:  "a Claim fences the earlier owners of its own partition and pipeline only",
		needs: need{exactlyOnce: true},
		run: func(e *env[W]) {
			l := e.lane(0)
			c := e.claim(l)
			e.claim(e.lane(1))
			e.claim(lane{e.pipeline + "-other", l.tp})
			e.claim(lane{e.pipeline, offsetstore.TopicPartition{Topic: "other"}})
			e.steps(c, l, 1, 1)
			e.wantSteps(l, 1)
		},
	}}
}

// wantApart gives every lane a different number of steps, and checks all of them
// when all have taken theirs.
func (e *env[W]) wantApart(lanes []lane) {
	e.r.Helper()
	s := e.open()
	claims := make([]framework.Claim[W], len(lanes))
	for i, l := range lanes {
		claims[i] = e.claimOn(s, l, offsetstore.At(0))
		e.wantStepsOf(claims[i], l, 0)
	}
	for i, l := range lanes {
		e.steps(claims[i], l, 1, int64(1+i%5))
	}
	s = e.open()
	for i, l := range lanes {
		e.wantStepsOf(e.claimOn(s, l, offsetstore.At(0)), l, int64(1+i%5))
	}
}
