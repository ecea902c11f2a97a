package sinktest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// fault is one way to break a sink, and the case that has to notice it.
type fault struct {
	fault    string
	caughtBy string
	wrap     func(*world) func(sink) sink
}

func faults() []fault {
	return slices.Concat(saveFaults(), atomicFaults(), fenceFaults(), stateFaults(), deadLetterFaults(),
		topicFaults(), startFaults(), nameFaults(), closeFaults(), waitFaults(), answerFaults(), otherFaults(), resetFaults(), operatorFaults())
}

func saveFaults() []fault {
	return []fault{
		{"outputs dropped", "save_visible", onSave(func(b *batch) { b.Writes = nil })},
		{"lane data dropped", "save_survives_restart", onSave(func(b *batch) { b.To.Lane = nil })},
		{"lane data cut", "lane_data_whole", onSave(func(b *batch) { b.To.Lane = b.To.Lane[:min(len(b.To.Lane), 255)] })},
		{"writes in reverse order", "save_row_order", onSave(func(b *batch) {
			b.Writes = slices.Clone(b.Writes)
			slices.Reverse(b.Writes)
		})},
		{"deletes first", "save_delete_order", onSave(func(b *batch) {
			b.Writes = slices.Clone(b.Writes)
			slices.SortStableFunc(b.Writes, func(x, y row) int { return cmp.Compare(btoi(y.Delete), btoi(x.Delete)) })
		})},
		{"empty batches ignored", "save_position_only", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				if len(b.Writes)+len(b.State)+len(b.DeadLetters) == 0 {
					return nil
				}
				return c.claim.Save(ctx, b)
			}
		})},
		{"batches that do not move ignored", "save_without_moving", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				if b.From.Position == b.To.Position {
					return nil
				}
				return c.claim.Save(ctx, b)
			}
		})},
		{"big batches cut", "save_big_batch", onSave(func(b *batch) { b.Writes = b.Writes[:min(len(b.Writes), 1000)] })},
		{"a replay taken for new", "save_again_changes_nothing", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			at := c.claim.Progress()
			c.save = func(ctx context.Context, b *batch) error {
				replay := *b
				replay.From = at
				err := c.claim.Save(ctx, &replay)
				if err == nil {
					at = b.To
				}
				return err
			}
		})},
		{"the batch retained", "save_retains_nothing", func(w *world) func(sink) sink {
			// State is kept in memory as it was given, for a restart to find.
			kept := map[string][]byte{}
			return onClaim(func(c *brokenClaim, pipeline string, tp partition, _ sink) {
				c.save = func(ctx context.Context, b *batch) error {
					w.mu.Lock()
					for _, e := range b.State {
						kept[fmt.Sprint(pipeline, tp, e.Operator, e.Window, string(e.Key))] = e.Value
					}
					w.mu.Unlock()
					return c.claim.Save(ctx, b)
				}
				c.load = func(_ context.Context, keys []framework.StateKey) ([][]byte, error) {
					w.mu.Lock()
					defer w.mu.Unlock()
					values := make([][]byte, len(keys))
					for i, k := range keys {
						values[i] = kept[fmt.Sprint(pipeline, tp, k.Operator, k.Window, string(k.Key))]
					}
					return values, nil
				}
			})(w)
		}},
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// inTwoSteps saves a batch as two, the position with the one or the other.
func inTwoSteps(positionFirst bool) func(*world) func(sink) sink {
	return onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
		c.save = func(ctx context.Context, b *batch) error {
			moved, written := *b, *b
			moved.Writes, moved.State, moved.DeadLetters = nil, nil, nil
			if positionFirst {
				written.From = b.To
				if err := c.claim.Save(ctx, &moved); err != nil {
					return err
				}
				return c.claim.Save(ctx, &written)
			}
			written.To = b.From
			if err := c.claim.Save(ctx, &written); err != nil {
				return err
			}
			return c.claim.Save(ctx, &moved)
		}
	})
}

func atomicFaults() []fault {
	return []fault{
		{"the position saved before the outputs", "atomic_cancel", inTwoSteps(true)},
		{"the outputs saved before the position", "atomic_cancel", inTwoSteps(false)},
		{"a batch in two, refused in the middle", "atomic_refused", inTwoSteps(true)},
		{"cancelled but said to be saved", "atomic_cancel", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				err := c.claim.Save(ctx, b)
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		})},
		{"saved but said to be not", "atomic_cancel", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				err := c.claim.Save(context.WithoutCancel(ctx), b)
				if ctx.Err() != nil {
					return &framework.SaveError{Outcome: framework.NotSaved, ClaimSpent: true, Err: ctx.Err()}
				}
				return err
			}
		})},
		{"unknown with the claim good", "atomic_cancel", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				if err := c.claim.Save(ctx, b); err != nil {
					return &framework.SaveError{Outcome: framework.Unknown, Err: err}
				}
				return nil
			}
		})},
		{"an error that says nothing", "atomic_cancel", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				if err := c.claim.Save(ctx, b); err != nil {
					return fmt.Errorf("sorry: %v", err)
				}
				return nil
			}
		})},
		{"closed in the middle, half saved", "atomic_close", func(*world) func(sink) sink {
			return func(s sink) sink {
				// Close works at once; a save asks only between its two halves.
				b := &brokenSink{sink: s}
				closed := make(chan struct{})
				var once sync.Once
				b.close = func(ctx context.Context) error {
					once.Do(func() { close(closed) })
					return nil
				}
				b.claim = func(ctx context.Context, pipeline string, tp partition, start position) (claim, error) {
					inner, err := s.Claim(ctx, pipeline, tp, start)
					if err != nil {
						return nil, err
					}
					c := &brokenClaim{claim: inner}
					c.save = func(ctx context.Context, b *batch) error {
						moved, written := *b, *b
						moved.Writes, moved.State, moved.DeadLetters = nil, nil, nil
						written.From = b.To
						if err := inner.Save(ctx, &moved); err != nil {
							return err
						}
						if _, counts := ctx.(*countdown); counts {
							ctx.Err() // one look more: here the sweep closes the sink
							for range 100 {
								runtime.Gosched()
							}
						}
						select {
						case <-closed:
							return &framework.SaveError{Outcome: framework.Unknown, ClaimSpent: true, Err: framework.ErrClosed}
						default:
							return inner.Save(ctx, &written)
						}
					}
					return c, nil
				}
				return b
			}
		}},
		{"too large, cut to what fits", "atomic_too_large", onSave(func(b *batch) { b.Writes = b.Writes[:min(len(b.Writes), 10)] })},
		{"a refusal that spends the claim", "atomic_refused", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				if err := c.claim.Save(ctx, b); err != nil {
					return &framework.SaveError{Outcome: framework.NotSaved, ClaimSpent: true, Err: err}
				}
				return nil
			}
		})},
		{"a cancelled claim that moves", "claim_interrupted", on(func(b *brokenSink, _ *world) {
			b.claim = func(ctx context.Context, pipeline string, tp partition, start position) (claim, error) {
				c, err := b.sink.Claim(context.WithoutCancel(ctx), pipeline, tp, start)
				if err == nil && ctx.Err() != nil {
					from := c.Progress()
					to := from
					to.Position.Offset++
					_ = c.Save(context.WithoutCancel(ctx), &batch{From: from, To: to})
					return nil, ctx.Err()
				}
				return c, err
			}
		})},
	}
}

// stale lets a former owner save, by claiming again behind its back.
func stale(when func(b *batch) bool) func(*world) func(sink) sink {
	return onClaim(func(c *brokenClaim, pipeline string, tp partition, s sink) {
		c.save = func(ctx context.Context, b *batch) error {
			if when(b) {
				again, err := s.Claim(ctx, pipeline, tp, position{})
				if err != nil {
					return err
				}
				return again.Save(ctx, b)
			}
			return c.claim.Save(ctx, b)
		}
	})
}

func always(*batch) bool { return true }

func fenceFaults() []fault {
	return []fault{
		{"no claim token", "fence_before_first_save", stale(always)},
		{"the token checked on the first save only", "fence_after_save", stale(func(b *batch) bool { return b.From.Position.Offset > 0 })},
		{"no claim token during a save", "fence_during_save", onClaim(func(c *brokenClaim, pipeline string, tp partition, s sink) {
			c.save = func(ctx context.Context, b *batch) error {
				// Waits, as a slow former owner would, until it is fenced or has
				// waited long enough for a claim to have come.
				for range 1000 {
					runtime.Gosched()
				}
				again, err := s.Claim(ctx, pipeline, tp, position{})
				if err != nil {
					return err
				}
				return again.Save(ctx, b)
			}
		})},
		{"no claim token within a process", "fence_same_process", stale(always)},
		{"empty batches not fenced", "fence_empty_batch", stale(func(b *batch) bool { return len(b.Writes) == 0 })},
		{"a release forgets the token", "fence_after_release", func(w *world) func(sink) sink {
			released := map[string]bool{}
			return onClaim(func(c *brokenClaim, pipeline string, tp partition, s sink) {
				lane := pipeline + tp.String()
				c.release = func(ctx context.Context) error {
					w.mu.Lock()
					defer w.mu.Unlock()
					released[lane] = true
					return c.claim.Release(ctx)
				}
				c.save = func(ctx context.Context, b *batch) error {
					w.mu.Lock()
					free := released[lane]
					w.mu.Unlock()
					if free {
						return stale(always)(w)(s).(*brokenSink).saveAnew(ctx, pipeline, tp, b)
					}
					return c.claim.Save(ctx, b)
				}
			})(w)
		}},
		{"fenced but said to be saved", "fence_before_first_save", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				_ = c.claim.Save(ctx, b)
				return nil
			}
		})},
		{"fenced with the claim good", "fence_before_first_save", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				if err := c.claim.Save(ctx, b); err != nil {
					return &framework.SaveError{Outcome: framework.NotSaved, Err: err}
				}
				return nil
			}
		})},
		{"outputs written before the fence", "fence_after_save", onClaim(func(c *brokenClaim, pipeline string, tp partition, s sink) {
			c.save = func(ctx context.Context, b *batch) error {
				tp.Topic += " outputs"
				outputs, err := s.Claim(ctx, pipeline, tp, position{})
				if err != nil {
					return err
				}
				if err := outputs.Save(ctx, &batch{From: outputs.Progress(), To: outputs.Progress(), Writes: b.Writes}); err != nil {
					return err
				}
				return c.claim.Save(ctx, b)
			}
		})},
		{"a save lost but said to be good", "fence_many_owners", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				if b.From.Position.Offset == 1 {
					return nil
				}
				return c.claim.Save(ctx, b)
			}
		})},
		{"a former owner's release frees the partition", "release_by_former_owner", onClaim(func(c *brokenClaim, pipeline string, tp partition, s sink) {
			c.release = func(ctx context.Context) error {
				current, err := s.Claim(ctx, pipeline, tp, position{})
				if err != nil {
					return err
				}
				return current.Release(ctx)
			}
		})},
		{"a released partition stays taken", "release_then_claim", func(w *world) func(sink) sink {
			return func(s sink) sink {
				b := &brokenSink{sink: s}
				b.claim = func(ctx context.Context, pipeline string, tp partition, start position) (claim, error) {
					lane := fmt.Sprintf("%p %s %s", s, pipeline, tp)
					w.mu.Lock()
					defer w.mu.Unlock()
					if w.claimed[lane] {
						return nil, fmt.Errorf("still claimed: %w", framework.ErrUnavailable)
					}
					w.claimed[lane] = true
					return s.Claim(ctx, pipeline, tp, start)
				}
				return b
			}
		}},
		{"a claim fences other partitions", "claims_apart", on(func(b *brokenSink, _ *world) {
			b.claim = func(ctx context.Context, pipeline string, tp partition, start position) (claim, error) {
				other := tp
				other.Partition ^= 1
				if _, err := b.sink.Claim(ctx, pipeline, other, start); err != nil {
					return nil, err
				}
				return b.sink.Claim(ctx, pipeline, tp, start)
			}
		})},
	}
}

// saveAnew claims once more and saves with that.
func (s *brokenSink) saveAnew(ctx context.Context, pipeline string, tp partition, b *batch) error {
	c, err := s.sink.Claim(ctx, pipeline, tp, position{})
	if err != nil {
		return err
	}
	return c.Save(ctx, b)
}

// onLoad changes the keys of every Load and the values it returns.
func onLoad(keys func([]framework.StateKey), values func([][]byte) [][]byte) func(*world) func(sink) sink {
	return onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
		c.load = func(ctx context.Context, given []framework.StateKey) ([][]byte, error) {
			changed := slices.Clone(given)
			if keys != nil {
				keys(changed)
			}
			got, err := c.claim.Load(ctx, changed)
			if values != nil && err == nil {
				got = values(got)
			}
			return got, err
		}
	})
}

// onStateKeys rewrites state keys wherever they occur.
func onStateKeys(rewrite func(*framework.StateKey)) func(*world) func(sink) sink {
	return onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
		c.load = func(ctx context.Context, given []framework.StateKey) ([][]byte, error) {
			keys := slices.Clone(given)
			for i := range keys {
				rewrite(&keys[i])
			}
			return c.claim.Load(ctx, keys)
		}
		c.save = func(ctx context.Context, b *batch) error {
			changed := *b
			changed.State = slices.Clone(b.State)
			for i := range changed.State {
				rewrite(&changed.State[i].StateKey)
			}
			return c.claim.Save(ctx, &changed)
		}
	})
}

func stateFaults() []fault {
	return []fault{
		{"state ignored", "state_follows_saves", onSave(func(b *batch) { b.State = nil })},
		{"state ignored, seen in every step", "save_survives_restart", onSave(func(b *batch) { b.State = nil })},
		{"state saved only with outputs", "state_only", onSave(func(b *batch) {
			if len(b.Writes) == 0 {
				b.State = nil
			}
		})},
		{"values in another order", "state_order", onLoad(func(keys []framework.StateKey) {
			slices.SortFunc(keys, func(a, b framework.StateKey) int { return bytes.Compare(a.Key, b.Key) })
		}, nil)},
		{"empty for none", "state_order", onLoad(nil, func(values [][]byte) [][]byte {
			for i, v := range values {
				values[i] = append([]byte{}, v...)
			}
			return values
		})},
		{"none left out", "state_order", onLoad(nil, func(values [][]byte) [][]byte {
			return slices.DeleteFunc(values, func(v []byte) bool { return v == nil })
		})},
		{"removals ignored", "state_nil_removes", onSave(func(b *batch) {
			b.State = slices.DeleteFunc(slices.Clone(b.State), func(e framework.StateEntry) bool { return e.Value == nil })
		})},
		{"an empty value removes", "state_nil_removes", onSave(func(b *batch) {
			b.State = slices.Clone(b.State)
			for i := range b.State {
				if len(b.State[i].Value) == 0 {
					b.State[i].Value = nil
				}
			}
		})},
		{"windows ignored", "state_windows", onStateKeys(func(k *framework.StateKey) { k.Window = 0 })},
		{"operators in lower case", "state_keys_kept_apart", onStateKeys(func(k *framework.StateKey) { k.Operator = strings.ToLower(k.Operator) })},
		{"keys end at NUL", "state_keys_kept_apart", onStateKeys(func(k *framework.StateKey) { k.Key, _, _ = bytes.Cut(k.Key, []byte{0}) })},
		{"long keys cut", "state_large", onStateKeys(func(k *framework.StateKey) {
			if len(k.Key) > 4096 {
				k.Key = nil
			}
		})},
		{"only so many keys loaded", "state_large", onLoad(nil, func(values [][]byte) [][]byte {
			for i := 1000; i < len(values); i++ {
				values[i] = nil
			}
			return values
		})},
		{"a load refused during a save", "state_load_during_save", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			var saving sync.Mutex
			c.save = func(ctx context.Context, b *batch) error {
				saving.Lock()
				defer saving.Unlock()
				for range 1000 {
					runtime.Gosched()
				}
				return c.claim.Save(ctx, b)
			}
			c.load = func(ctx context.Context, keys []framework.StateKey) ([][]byte, error) {
				for range 20 {
					if !saving.TryLock() {
						return nil, framework.ErrUnavailable
					}
					saving.Unlock()
					runtime.Gosched()
				}
				return c.claim.Load(ctx, keys)
			}
		})},
	}
}

// onDeadLetters changes every dead letter before it is saved.
func onDeadLetters(change func(d *framework.DeadLetter)) func(*world) func(sink) sink {
	return onSave(func(b *batch) {
		b.DeadLetters = slices.Clone(b.DeadLetters)
		for i := range b.DeadLetters {
			change(&b.DeadLetters[i])
		}
	})
}

func deadLetterFaults() []fault {
	return []fault{
		{"dead letters dropped", "save_visible", onSave(func(b *batch) { b.DeadLetters = nil })},
		{"dead letters cut at 100", "dead_letters_many", onSave(func(b *batch) { b.DeadLetters = b.DeadLetters[:min(len(b.DeadLetters), 100)] })},
		{"nil keys made empty", "dead_letters_whole", onDeadLetters(func(d *framework.DeadLetter) { d.Key = append([]byte{}, d.Key...) })},
		{"empty values made nil", "dead_letters_whole", onDeadLetters(func(d *framework.DeadLetter) { d.Value = append([]byte(nil), d.Value...) })},
		{"headers dropped", "dead_letters_whole", onDeadLetters(func(d *framework.DeadLetter) { d.Headers = nil })},
		{"header names cleaned", "dead_letters_whole", onDeadLetters(func(d *framework.DeadLetter) {
			d.Headers = slices.Clone(d.Headers)
			for i := range d.Headers {
				d.Headers[i].Key = strings.ToValidUTF8(d.Headers[i].Key, "?")
			}
		})},
		{"long values cut", "dead_letters_whole", onDeadLetters(func(d *framework.DeadLetter) { d.Value = d.Value[:min(len(d.Value), 65535)] })},
		{"times cut to seconds", "dead_letters_whole", onDeadLetters(func(d *framework.DeadLetter) { d.FailedAt = d.FailedAt.Truncate(1e9) })},
		{"times beyond JSON lost", "dead_letters_whole", onDeadLetters(func(d *framework.DeadLetter) {
			if d.Timestamp.Year() > 9999 {
				d.Timestamp = time.Time{}
			}
		})},
		{"odd text refused", "dead_letters_any_text", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				for _, d := range b.DeadLetters {
					if strings.ContainsRune(d.Error, 0) {
						return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrRefused}
					}
				}
				return c.claim.Save(ctx, b)
			}
		})},
	}
}

func topicFaults() []fault {
	// store keeps every proposal, under a name made by key.
	store := func(overwrite bool, key func(pipeline, topic string) string) func(*world) func(sink) sink {
		return on(func(b *brokenSink, w *world) {
			b.topic = func(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
				if err := b.Health(ctx); err != nil {
					return framework.TopicStart{}, err
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				k := key(pipeline, topic)
				if _, ok := w.topics[k]; !ok || overwrite {
					w.topics[k] = propose
				}
				return w.topics[k], nil
			}
		})
	}
	return []fault{
		{"Topic overwritten", "topic_stored_once", store(true, func(p, t string) string { return p + "\x00" + t })},
		{"Topic answers with the proposal", "topic_one_of_many_proposals", store(true, func(p, t string) string { return p + "\x00" + t })},
		{"Topic found by topic alone", "topic_whole", store(false, func(_, t string) string { return t })},
		{"the caller's map kept", "topic_whole", store(false, func(p, t string) string { return p + "\x00" + t })},
		{"Topic found without regard to case", "topics_apart", store(false, func(p, t string) string { return strings.ToLower(p) + "\x00" + strings.ToLower(t) })},
		{"cluster ID dropped", "topic_whole", on(func(b *brokenSink, _ *world) {
			b.topic = func(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
				propose.ClusterID = ""
				return b.sink.Topic(ctx, pipeline, topic, propose)
			}
		})},
		{"half a topic stored when cancelled", "topic_interrupted", on(func(b *brokenSink, _ *world) {
			b.topic = func(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
				half := propose
				half.Starts = maps.Clone(propose.Starts)
				delete(half.Starts, 1)
				if ctx.Err() != nil {
					return b.sink.Topic(context.WithoutCancel(ctx), pipeline, topic, half)
				}
				return b.sink.Topic(ctx, pipeline, topic, propose)
			}
		})},
	}
}

func startFaults() []fault {
	// forget makes a claim that has not saved yet begin at its own start.
	forget := func(when func(stored framework.Progress) bool) func(*world) func(sink) sink {
		return on(func(b *brokenSink, _ *world) {
			b.claim = func(ctx context.Context, pipeline string, tp partition, start position) (claim, error) {
				inner, err := b.sink.Claim(ctx, pipeline, tp, start)
				if err != nil || !when(inner.Progress()) {
					return inner, err
				}
				return &brokenClaim{claim: inner, progress: func() framework.Progress { return framework.Progress{Position: start} }}, nil
			}
		})
	}
	onStart := func(change func(p *position)) func(*world) func(sink) sink {
		return on(func(b *brokenSink, _ *world) {
			b.claim = func(ctx context.Context, pipeline string, tp partition, start position) (claim, error) {
				change(&start)
				return b.sink.Claim(ctx, pipeline, tp, start)
			}
		})
	}
	return []fault{
		{"the start not stored", "start_stored_by_claim", forget(func(p framework.Progress) bool { return p.Lane == nil })},
		{"zero taken for none", "start_zero_is_not_none", forget(func(p framework.Progress) bool { return p.Position.Offset == 0 })},
		{"the topic ID dropped", "position_whole", onStart(func(p *position) { p.TopicID = offsetstore.TopicID{} })},
		{"the leader epoch dropped on save", "position_whole", onSave(func(b *batch) { b.To.Position.LeaderEpoch = offsetstore.NoLeaderEpoch })},
		{"an unknown epoch taken for 0", "position_whole", onStart(func(p *position) { p.LeaderEpoch = max(p.LeaderEpoch, 0) })},
		{"Progress follows the saves", "progress_as_of_claim", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			at := c.claim.Progress()
			c.progress = func() framework.Progress { return at }
			c.save = func(ctx context.Context, b *batch) error {
				at = b.To
				return c.claim.Save(ctx, b)
			}
		})},
	}
}

func nameFaults() []fault {
	return []fault{
		{"dashes removed", "names_never_rewritten", onNames(func(p string, tp partition) (string, partition) {
			// From the name under test only, as the suite's own prefix has one.
			head, tail, _ := strings.Cut(p, "-")
			tp.Topic = strings.ReplaceAll(tp.Topic, "-", "")
			return head + "-" + strings.ReplaceAll(tail, "-", ""), tp
		})},
		{"names in lower case", "names_never_rewritten", onNames(func(p string, tp partition) (string, partition) {
			tp.Topic = strings.ToLower(tp.Topic)
			return strings.ToLower(p), tp
		})},
		{"trailing blanks cut", "names_never_rewritten", onNames(func(p string, tp partition) (string, partition) {
			tp.Topic = strings.TrimRight(tp.Topic, " ")
			return strings.TrimRight(p, " "), tp
		})},
		{"the topic left out of the key", "lanes_apart", onNames(func(p string, tp partition) (string, partition) {
			tp.Topic = "t"
			return p, tp
		})},
		{"long names cut", "lanes_apart", onNames(func(p string, tp partition) (string, partition) {
			tp.Topic = tp.Topic[:min(len(tp.Topic), 200)] + "x"
			return p[:min(len(p), 64)], tp
		})},
		{"names joined without a boundary", "lanes_apart", onNames(func(p string, tp partition) (string, partition) {
			return "", partition{Topic: fmt.Sprintf("%s.%s%d", p, tp.Topic, tp.Partition)}
		})},
	}
}

func closeFaults() []fault {
	return []fault{
		{"an error of the second Close", "close_twice", on(func(b *brokenSink, _ *world) {
			closed := false
			b.close = func(ctx context.Context) error {
				if closed {
					return framework.ErrClosed
				}
				closed = true
				return b.sink.Close(ctx)
			}
		})},
		{"a Close whose context has ended does nothing", "close_with_ended_context", on(func(b *brokenSink, _ *world) {
			b.close = func(ctx context.Context) error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return b.sink.Close(ctx)
			}
		})},
		{"usable after Close", "use_after_close", on(func(b *brokenSink, _ *world) {
			b.close = func(context.Context) error { return nil }
		})},
		{"closed with the claim good", "use_after_close", spares(framework.ErrClosed)},
		{"a Release after Close that fails otherwise", "use_after_close", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.release = func(ctx context.Context) error {
				if err := c.claim.Release(ctx); err != nil {
					return framework.ErrUnavailable
				}
				return nil
			}
		})},
	}
}

// spares says after one kind of error that the claim is still good.
func spares(kind error) func(*world) func(sink) sink {
	return onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
		c.save = func(ctx context.Context, b *batch) error {
			err := c.claim.Save(ctx, b)
			if errors.Is(err, kind) {
				return &framework.SaveError{Outcome: framework.NotSaved, Err: err}
			}
			return err
		}
	})
}

func waitFaults() []fault {
	// claimAfter and saveAfter wait before they do what they should.
	claimAfter := func(await func(ctx context.Context, w *world, pipeline, topic string) error) func(*world) func(sink) sink {
		return on(func(b *brokenSink, w *world) {
			b.claim = func(ctx context.Context, pipeline string, tp partition, start position) (claim, error) {
				if err := await(ctx, w, pipeline, tp.Topic); err != nil {
					return nil, err
				}
				return b.sink.Claim(ctx, pipeline, tp, start)
			}
		})
	}
	saveAfter := func(await func(ctx context.Context, w *world, pipeline, topic string) error) func(*world) func(sink) sink {
		return func(w *world) func(sink) sink {
			return onClaim(func(c *brokenClaim, pipeline string, tp partition, _ sink) {
				c.save = func(ctx context.Context, b *batch) error {
					if err := await(ctx, w, pipeline, tp.Topic); err != nil {
						return &framework.SaveError{Outcome: framework.NotSaved, Err: err}
					}
					return c.claim.Save(ctx, b)
				}
			})(w)
		}
	}
	forEver := func(ctx context.Context, w *world, pipeline, topic string) error {
		return w.await(context.WithoutCancel(ctx), pipeline, topic) // as flock(2) does
	}
	whateverIsClosed := func(ctx context.Context, w *world, pipeline, topic string) error {
		return w.await(ctx, pipeline, topic)
	}
	return []fault{
		{"a claim waits for a lock for ever", "wait_ends_with_context", claimAfter(forEver)},
		{"a save waits for a lock for ever", "wait_ends_with_context", saveAfter(forEver)},
		{"a claim waits for a lock after Close", "wait_ends_with_close", claimAfter(whateverIsClosed)},
		{"a save waits for a lock after Close", "wait_ends_with_close", saveAfter(whateverIsClosed)},
		{"Close waits for calls that nothing ends", "wait_ends_with_close", on(func(b *brokenSink, w *world) {
			var calls sync.RWMutex
			b.topic = func(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
				calls.RLock()
				defer calls.RUnlock()
				if err := w.await(ctx, pipeline, topic); err != nil {
					return framework.TopicStart{}, err
				}
				return b.sink.Topic(ctx, pipeline, topic, propose)
			}
			b.close = func(ctx context.Context) error {
				for !calls.TryLock() {
					time.Sleep(time.Millisecond)
				}
				defer calls.Unlock()
				return b.sink.Close(ctx)
			}
		})},
	}
}

func answerFaults() []fault {
	key := func(pipeline, topic string) string { return pipeline + "\x00" + topic }
	onTopic := func(answer func(w *world, pipeline, topic string, propose, stored framework.TopicStart) framework.TopicStart) func(*world) func(sink) sink {
		return on(func(b *brokenSink, w *world) {
			b.topic = func(ctx context.Context, pipeline, topic string, propose framework.TopicStart) (framework.TopicStart, error) {
				stored, err := b.sink.Topic(ctx, pipeline, topic, propose)
				if err != nil {
					return stored, err
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				return answer(w, pipeline, topic, propose, stored), nil
			}
		})
	}
	return []fault{
		{"Topic answers with the proposal's own map", "topic_is_the_callers", onTopic(
			func(_ *world, _, _ string, propose, stored framework.TopicStart) framework.TopicStart {
				if sameTopicStart(propose, stored) {
					return propose
				}
				return stored
			})},
		{"Topic keeps the proposal's map", "topic_is_the_callers", onTopic(
			func(w *world, pipeline, topic string, propose, _ framework.TopicStart) framework.TopicStart {
				if _, ok := w.topics[key(pipeline, topic)]; !ok {
					w.topics[key(pipeline, topic)] = propose
				}
				answer := w.topics[key(pipeline, topic)]
				answer.Starts = maps.Clone(answer.Starts)
				return answer
			})},
		{"Topic answers from a cache with one map for all", "topic_is_the_callers", onTopic(
			func(w *world, pipeline, topic string, _, stored framework.TopicStart) framework.TopicStart {
				if _, ok := w.topics[key(pipeline, topic)]; !ok {
					w.topics[key(pipeline, topic)] = stored
				}
				return w.topics[key(pipeline, topic)]
			})},
		{"Progress answers with the claim's own bytes", "progress_is_the_callers", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			at := c.claim.Progress()
			c.progress = func() framework.Progress { return at }
		})},
		{"Load answers from a cache", "values_are_the_callers", func(*world) func(sink) sink {
			return onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
				cached := map[string][][]byte{}
				c.load = func(ctx context.Context, keys []framework.StateKey) (values [][]byte, err error) {
					if values = cached[fmt.Sprint(keys)]; values == nil {
						values, err = c.claim.Load(ctx, keys)
						cached[fmt.Sprint(keys)] = values
					}
					return values, err
				}
			})(nil)
		}},
		{"Positions answers from a cache", "positions_are_the_callers", on(func(b *brokenSink, _ *world) {
			cached := map[string][]framework.StoredPosition{}
			b.positions = func(ctx context.Context, pipeline string) (ps []framework.StoredPosition, err error) {
				if ps = cached[pipeline]; ps == nil {
					ps, err = b.sink.(framework.PositionLister).Positions(ctx, pipeline)
					cached[pipeline] = ps
				}
				return slices.Clone(ps), err
			}
		})},
	}
}

func otherFaults() []fault {
	onPositions := func(change func([]framework.StoredPosition) []framework.StoredPosition) func(*world) func(sink) sink {
		return on(func(b *brokenSink, _ *world) {
			b.positions = func(ctx context.Context, pipeline string) ([]framework.StoredPosition, error) {
				ps, err := b.sink.(framework.PositionLister).Positions(ctx, pipeline)
				return change(ps), err
			}
		})
	}
	return []fault{
		{"a smaller guarantee than declared", "guarantee_as_declared", on(func(b *brokenSink, _ *world) {
			b.guarantee = func() framework.Guarantee {
				return framework.Guarantee{Level: framework.AtLeastOnce, State: true, DeadLetters: true}
			}
		})},
		{"a size of zero", "check_size", on(func(b *brokenSink, _ *world) {
			b.check = func(w row) (int, error) {
				_, err := b.sink.Check(w)
				return 0, err
			}
		})},
		{"Check accepts what Save refuses", "check_keeps_its_word", onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
			c.save = func(ctx context.Context, b *batch) error {
				for _, w := range b.Writes {
					if len(w.Key) > 65535 {
						return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrRefused}
					}
				}
				return c.claim.Save(ctx, b)
			}
		})},
		{"rows changed on the way", "check_keeps_its_word", onSave(func(b *batch) {
			b.Writes = slices.Clone(b.Writes)
			for i := range b.Writes {
				if v, ok := b.Writes[i].Value.(string); ok {
					b.Writes[i].Value = strings.ReplaceAll(v, "\x00", "")
				}
			}
		})},
		{"locked when many save at once", "concurrent_lanes", func(w *world) func(sink) sink {
			var busy sync.Mutex
			return onClaim(func(c *brokenClaim, _ string, _ partition, _ sink) {
				c.save = func(ctx context.Context, b *batch) error {
					if !busy.TryLock() {
						return &framework.SaveError{Outcome: framework.NotSaved, Err: framework.ErrUnavailable}
					}
					defer busy.Unlock()
					for range 100 {
						runtime.Gosched()
					}
					return c.claim.Save(ctx, b)
				}
			})(w)
		}},
		{"positions in the order of their names as text", "positions_listed", onPositions(func(ps []framework.StoredPosition) []framework.StoredPosition {
			slices.SortFunc(ps, func(a, b framework.StoredPosition) int {
				return cmp.Or(strings.Compare(a.Pipeline, b.Pipeline), strings.Compare(a.String(), b.String()))
			})
			return ps
		})},
		{"the owner listed after a release", "positions_listed", onPositions(func(ps []framework.StoredPosition) []framework.StoredPosition {
			for i := range ps {
				ps[i].Owner = "somebody"
			}
			return ps
		})},
		{"dead letters in the order of saving, the last first", "dead_letters_listed", on(func(b *brokenSink, _ *world) {
			b.letters = func(ctx context.Context, pipeline string, tp partition) ([]framework.DeadLetter, error) {
				ds, err := b.sink.(framework.DeadLetterLister).DeadLetters(ctx, pipeline, tp)
				slices.Reverse(ds)
				return ds, err
			}
		})},
		{"listing claims", "positions_disturb_nobody", on(func(b *brokenSink, _ *world) {
			b.positions = func(ctx context.Context, pipeline string) ([]framework.StoredPosition, error) {
				ps, err := b.sink.(framework.PositionLister).Positions(ctx, pipeline)
				for _, p := range ps {
					if _, err := b.sink.Claim(ctx, p.Pipeline, p.TopicPartition, position{}); err != nil {
						return nil, err
					}
				}
				return ps, err
			}
		})},
		{"a second Migrate fails", "migrate_again", on(func(b *brokenSink, w *world) {
			b.migrate = func(context.Context) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.claimed["migrated"] {
					return framework.ErrConfig
				}
				w.claimed["migrated"] = true
				return nil
			}
		})},
		{"unhealthy", "health", on(func(b *brokenSink, _ *world) {
			b.health = func(context.Context) error { return framework.ErrUnavailable }
		})},
	}
}

func resetFaults() []fault {
	onReset := func(change func(r *framework.Reset, stored framework.StoredPosition)) func(*world) func(sink) sink {
		return on(func(b *brokenSink, _ *world) {
			b.reset = func(ctx context.Context, r framework.Reset) error {
				ps, err := b.sink.(framework.PositionLister).Positions(ctx, r.Pipeline)
				for _, p := range ps {
					if p.TopicPartition == r.TopicPartition {
						change(&r, p)
					}
				}
				if err != nil {
					return err
				}
				return b.sink.(framework.Resetter).Reset(ctx, r)
			}
		})
	}
	return []fault{
		{"a reset of the offset only", "reset_moves_the_position", onReset(func(r *framework.Reset, p framework.StoredPosition) {
			r.To.LeaderEpoch, r.To.TopicID = p.Position.LeaderEpoch, p.Position.TopicID
		})},
		{"a reset that compares the offset only", "reset_compares", onReset(func(r *framework.Reset, p framework.StoredPosition) {
			r.From.LeaderEpoch, r.From.TopicID = p.Position.LeaderEpoch, p.Position.TopicID
		})},
		{"a reset that always drops the state", "reset_moves_the_position", onReset(func(r *framework.Reset, _ framework.StoredPosition) { r.DropState = true })},
		{"a reset that never drops the state", "reset_drops_state", onReset(func(r *framework.Reset, _ framework.StoredPosition) { r.DropState = false })},
		{"a reset to where the lane is does nothing", "reset_fences", on(func(b *brokenSink, _ *world) {
			b.reset = func(ctx context.Context, r framework.Reset) error {
				if r.From == r.To {
					return nil
				}
				return b.sink.(framework.Resetter).Reset(ctx, r)
			}
		})},
	}
}

func operatorFaults() []fault {
	onState := func(change func(s framework.StoredState) (framework.StoredState, bool)) func(*world) func(sink) sink {
		return on(func(b *brokenSink, _ *world) {
			b.state = func(ctx context.Context, pipeline, operator string) iter.Seq2[framework.StoredState, error] {
				return func(yield func(framework.StoredState, error) bool) {
					for s, err := range b.sink.(framework.StateLister).State(ctx, pipeline, operator) {
						if changed, ok := change(s); ok && !yield(changed, err) {
							return
						}
					}
				}
			}
		})
	}
	onDrop := func(change func(ds []framework.DeadLetter) []framework.DeadLetter) func(*world) func(sink) sink {
		return on(func(b *brokenSink, _ *world) {
			b.drop = func(ctx context.Context, pipeline string, tp partition, ds []framework.DeadLetter) error {
				stored, err := b.DeadLetters(ctx, pipeline, tp)
				given := change(slices.Clone(ds))
				for i := range given { // by offset and stage alone
					for _, d := range stored {
						if d.Offset == given[i].Offset && given[i].FailedAt.IsZero() {
							given[i] = d
						}
					}
				}
				return errors.Join(err, b.sink.(framework.DeadLetterDropper).DropDeadLetters(ctx, pipeline, tp, given))
			}
		})
	}
	return []fault{
		{"letters are never dropped", "dead_letters_dropped", onDrop(func([]framework.DeadLetter) []framework.DeadLetter { return nil })},
		{"newer letters are dropped, too", "dead_letters_dropped", onDrop(func(ds []framework.DeadLetter) []framework.DeadLetter {
			for i := range ds {
				ds[i].FailedAt = time.Time{}
			}
			return ds
		})},
		{"a listing of state without the operator's name", "state_listed", onState(func(s framework.StoredState) (framework.StoredState, bool) {
			s.Operator = ""
			return s, true
		})},
		{"a listing of state without empty values", "state_listed", onState(func(s framework.StoredState) (framework.StoredState, bool) { return s, len(s.Value) > 0 })},
		{"a listing of all operators whichever is asked for", "state_listed", on(func(b *brokenSink, _ *world) {
			b.state = func(ctx context.Context, pipeline, _ string) iter.Seq2[framework.StoredState, error] {
				return b.sink.(framework.StateLister).State(ctx, pipeline, "")
			}
		})},
		{"a closed sink lists nothing, without an error", "state_listing_stops", on(func(b *brokenSink, _ *world) {
			b.state = func(ctx context.Context, pipeline, operator string) iter.Seq2[framework.StoredState, error] {
				return func(yield func(framework.StoredState, error) bool) {
					for s, err := range b.sink.(framework.StateLister).State(ctx, pipeline, operator) {
						if err != nil || !yield(s, nil) {
							return
						}
					}
				}
			}
		})},
		{"Flush claims", "flush_claims_nothing", on(func(b *brokenSink, _ *world) {
			b.flush = func(ctx context.Context, pipeline string, tp partition) error {
				ps, err := b.Positions(ctx, pipeline)
				if len(ps) == 0 {
					return errors.Join(err, framework.ErrRefused)
				}
				_, err = b.sink.Claim(ctx, pipeline, tp, position{})
				return err
			}
		})},
	}
}
