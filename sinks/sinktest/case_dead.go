package sinktest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-stream/lockstep/framework"
)

func deadLetterCases[W any]() []testCase[W] {
	needs := need{deadLetters: true}
	return []testCase[W]{{
		name:  "dead_letters_whole",
		rule:  "a dead letter is kept whole: bytes, headers and times to the millisecond, with nil and empty kept apart",
		needs: needs,
		run:   deadLettersWhole[W],
	}, {
		name:  "dead_letters_any_text",
		rule:  "an error's text may hold any bytes; it may be cleaned, but never stands in the way of the save",
		needs: needs,
		run:   deadLettersAnyText[W],
	}, {
		name:  "dead_letters_many",
		rule:  "a batch may hold nothing but dead letters, as many as it had records",
		needs: needs,
		run:   deadLettersMany[W],
	}}
}

// deadLetterDiffers names the first field that differs, with both values, or
// returns "".
func deadLetterDiffers(got, want framework.DeadLetter) string {
	fields := func(d framework.DeadLetter) [][2]string {
		all := [][2]string{
			{"Offset", strconv.FormatInt(d.Offset, 10)}, {"Stage", d.Stage}, {"Error", d.Error}, {"Attempts", strconv.Itoa(d.Attempts)},
			{"FailedAt", milliseconds(d.FailedAt)}, {"Timestamp", milliseconds(d.Timestamp)},
			{"Key", nilOrBytes(d.Key)}, {"Value", nilOrBytes(d.Value)}, {"len(Headers)", strconv.Itoa(len(d.Headers))},
		}
		for i, h := range d.Headers {
			all = append(all, [2]string{fmt.Sprintf("Headers[%d].Key", i), h.Key}, [2]string{fmt.Sprintf("Headers[%d].Value", i), nilOrBytes(h.Value)})
		}
		return all
	}
	wanted := fields(want)
	for i, f := range fields(got) {
		if f != wanted[i] { // the number of headers is compared before they are
			return fmt.Sprintf("%s is %s, want %s", f[0], shortest(f[1], wanted[i][1]), shortest(wanted[i][1], f[1]))
		}
	}
	return ""
}

// milliseconds is a time as far as it must be kept.
func milliseconds(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// nilOrBytes keeps nil apart from empty.
func nilOrBytes(b []byte) string {
	if b == nil {
		return "nil"
	}
	return "bytes " + string(b)
}

// shortest quotes what is left of s from a little before its first difference
// from other.
func shortest(s, other string) string {
	n := 0
	for n < min(len(s), len(other)) && s[n] == other[n] {
		n++
	}
	if n < 40 {
		return shorten(s)
	}
	return fmt.Sprintf("…%s from byte %d on", shorten(s[n-10:]), n-10)
}

func (e *env[W]) wantDeadLetters(l lane, want ...framework.DeadLetter) {
	e.r.Helper()
	got := e.deadLetters(l)
	if len(got) != len(want) {
		e.fatalf("%s of pipeline %q has %d dead letters, want %d", l.tp, l.pipeline, len(got), len(want))
	}
	for i := range want {
		if difference := deadLetterDiffers(got[i], want[i]); difference != "" {
			e.fatalf("dead letter %d: %s", i, difference)
		}
	}
}

// saveDeadLetters saves letters with the step from offset n to n+1.
func (e *env[W]) saveDeadLetters(c framework.Claim[W], from, to int64, letters ...framework.DeadLetter) {
	e.r.Helper()
	b := moveBatch[W](from, to)
	b.DeadLetters = letters
	e.save(c, b)
}

func deadLettersWhole[W any](e *env[W]) {
	at := time.UnixMilli(1_700_000_000_123)
	binary := []byte{0, 1, 0xff, 0xfe, 0}
	letters := []framework.DeadLetter{
		{Offset: 0, Stage: "decode", Error: "not JSON", Attempts: 1, FailedAt: at, Timestamp: at.Add(-time.Hour), Key: nil, Value: []byte("bad")},
		{Offset: 1, Stage: "map to-minute", Error: "füße 鍵", Attempts: 3, FailedAt: at, Timestamp: time.UnixMilli(0), Key: []byte{}, Value: nil},
		// A producer may send any timestamp, such as one in the year 37,655.
		{Offset: 2, Stage: "output", Error: "", Attempts: 0, FailedAt: at, Timestamp: time.UnixMilli(1 << 50), Key: binary, Value: []byte{}},
		{Offset: 1 << 60, Stage: "output", Error: strings.Repeat("long ", 2000), FailedAt: at, Timestamp: at, Key: binary,
			Value: bytes.Repeat(binary, 20_000),
			Headers: []framework.Header{
				{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")},
				{Key: "", Value: []byte("no name")}, {Key: "nil", Value: nil}, {Key: "empty", Value: []byte{}},
				{Key: "\xff", Value: binary},
			}},
	}
	c := e.claim(e.lane(0))
	e.saveDeadLetters(c, 0, 2, letters[:2]...)
	e.saveDeadLetters(c, 2, 1<<61, letters[2:]...)
	e.wantDeadLetters(e.lane(0), letters...)
}

func deadLettersAnyText[W any](e *env[W]) {
	texts := []string{"a\x00b", "a\xffb", "\x00", "\xff"}
	c := e.claim(e.lane(0))
	for i, text := range texts {
		at := int64(i)
		e.saveDeadLetters(c, at, at+1, framework.DeadLetter{Offset: at, Stage: "decode", Error: text, Value: []byte("v")})
	}
	got := e.deadLetters(e.lane(0))
	if len(got) != len(texts) {
		e.fatalf("%d dead letters were saved, %d read back", len(texts), len(got))
	}
	if !strings.HasPrefix(got[0].Error, "a") || !strings.HasPrefix(got[1].Error, "a") {
		e.fatalf("the readable part of the text is lost: %q, %q", got[0].Error, got[1].Error)
	}
}

func deadLettersMany[W any](e *env[W]) {
	letters := make([]framework.DeadLetter, 1000)
	for i := range letters {
		letters[i] = framework.DeadLetter{Offset: int64(i), Stage: "decode", Error: "bad", Attempts: 1, Value: []byte("not JSON")}
	}
	c := e.claim(e.lane(0))
	e.saveDeadLetters(c, 0, 1000, letters...)
	if at := e.claim(e.lane(0)).Progress().Position.Offset; at != 1000 {
		e.fatalf("the position is %d, want 1000", at)
	}
	e.wantDeadLetters(e.lane(0), letters...)
}
