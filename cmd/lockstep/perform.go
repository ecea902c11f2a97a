package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
)

// perform makes moves, one partition after the other, and says of each what was
// done; in a dry run it makes none. After an error, or when the command is
// interrupted, the error names the partitions that were left as they are.
func (c *change) perform(ctx context.Context, moves []move, dropState bool) error {
	if !c.apply {
		return c.dryRun(moves, dropState)
	}
	if !c.json {
		fmt.Fprintln(c.out)
	}
	for i, m := range moves {
		if err := c.performOne(ctx, m, dropState); err != nil {
			if rest := moves[i+1:]; len(rest) > 0 {
				return failedWith(err, fmt.Sprintf("; left as they are: %s", places(rest)))
			}
			return err
		}
	}
	return nil
}

func (c *change) dryRun(moves []move, dropState bool) error {
	if c.json {
		for _, m := range moves {
			if err := writeJSON(c.out, moveLineOf(m, dropState, "dry run")); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintf(c.out, "\n%s\n", dryRunNote)
	return nil
}

func (c *change) performOne(ctx context.Context, m move, dropState bool) error {
	if m.none() && !dropState {
		return c.report(m, dropState, "unchanged")
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%s: left as it is: %w", m.stored.TopicPartition, cause)
	}
	r := framework.Reset{
		Pipeline: m.stored.Pipeline, TopicPartition: m.stored.TopicPartition,
		From: m.stored.Position, To: m.to, DropState: dropState,
	}
	if err := c.resetter.Reset(ctx, r); err != nil {
		return whyNotMoved(m, err)
	}
	return c.report(m, dropState, "moved")
}

// whyNotMoved says what is known of a move that returned an error.
func whyNotMoved(m move, err error) error {
	switch tp := m.stored.TopicPartition; {
	case errors.Is(err, framework.ErrUnknown):
		return fmt.Errorf("%s: whether it was moved is not known; `lockstep positions` tells: %w", tp, err)
	case errors.Is(err, framework.ErrRefused):
		return refused(fmt.Errorf("%s: it was not moved, since its position is not %d any more; look again: %w", tp, m.stored.Position.Offset, err))
	default:
		return fmt.Errorf("%s: %w", tp, err)
	}
}

// failedWith adds to the text of an error, and keeps what it is.
func failedWith(err error, text string) error {
	var f *failure
	wrapped := fmt.Errorf("%w%s", err, text)
	if errors.As(err, &f) {
		return &failure{wrapped, f.code}
	}
	return wrapped
}

// report says what was done with one partition.
func (c *change) report(m move, dropState bool, result string) error {
	if c.json {
		return writeJSON(c.out, moveLineOf(m, dropState, result))
	}
	text := fmt.Sprintf("%s: moved from %d to %d%s", m.stored.TopicPartition, m.stored.Position.Offset, m.to.Offset, dropNote(dropState))
	if result == "unchanged" {
		text = fmt.Sprintf("%s: stays at %d", m.stored.TopicPartition, m.to.Offset)
	}
	fmt.Fprintln(c.out, text)
	return nil
}

// moveLine is a move in JSON.
type moveLine struct {
	Pipeline    string `json:"pipeline"`
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	From        int64  `json:"from"`
	To          int64  `json:"to"`
	FromTopicID string `json:"from_topic_id"`
	ToTopicID   string `json:"to_topic_id"`
	LogStart    int64  `json:"log_start"`
	LogEnd      int64  `json:"log_end"`
	Owner       string `json:"owner"`
	DropState   bool   `json:"drop_state"`
	Result      string `json:"result"` // "dry run", "moved" or "unchanged"

	Record *recordLine `json:"record,omitempty"` // the one that is passed over, of skip
}

func moveLineOf(m move, dropState bool, result string) moveLine {
	p := m.stored
	return moveLine{
		p.Pipeline, p.Topic, p.Partition, p.Position.Offset, m.to.Offset,
		p.Position.TopicID.String(), m.to.TopicID.String(), m.log.start, m.log.end, p.Owner, dropState, result, recordLineOf(m.record),
	}
}

// dropNote is what was done beside the move.
func dropNote(drop bool) string {
	if drop {
		return ", totals dropped"
	}
	return ""
}

// places names partitions.
func places(moves []move) string {
	var names []string
	for _, m := range moves {
		names = append(names, m.stored.String())
	}
	return strings.Join(shorten(names), ", ")
}
