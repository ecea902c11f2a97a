package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report collects lines and counts the bounds that were missed.
type report struct {
	out    io.Writer
	lines  []string
	missed int
}

func (r *report) linef(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// line adds a line, whose format ends with the bound, and judges got by the bound
// unless that is 0.
func (r *report) line(bound, got float64, format string, args ...any) {
	if bound == 0 {
		r.linef("%s", fmt.Sprintf(format[:strings.LastIndex(format, "\tbound")], args...))
		return
	}
	r.verdict(got >= bound, format, append(args, bound)...)
}

// verdict adds a line with the outcome of a bound.
func (r *report) verdict(ok bool, format string, args ...any) {
	mark := "ok"
	if !ok {
		mark = "MISSED"
		r.missed++
	}
	r.linef(format+"\t%s", append(args, mark)...)
}

func (r *report) print() {
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	for _, l := range r.lines {
		fmt.Fprintln(w, l)
	}
	_ = w.Flush() // to a terminal or pipe: nothing to do about it
}

// side is one way to do a job; it returns how long the job took.
type side struct {
	name  string
	bound float64 // the least that counts: of the first side a rate, of the others a ratio to it; 0: none
	run   func() (time.Duration, error)
}

// compare runs the sides in turns, once without counting and then in rounds, and
// reports rates and ratios to the first.
func compare(r *report, what string, n, rounds int, sides []side) error {
	took := make([][]time.Duration, len(sides))
	for round := range rounds + 1 {
		for i, s := range sides {
			d, err := s.run()
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if round == 0 {
				continue // the servers are new, and compile themselves while they work
			}
			took[i] = append(took[i], d)
			fmt.Fprintf(r.out, "%s\t%s\t%.0f/s\n", what, s.name, rate(n, d))
		}
	}
	base := rate(n, median(took[0]))
	r.line(sides[0].bound, base, "%s\t%s\t%.0f/s\t\tbound %.0f/s", what, sides[0].name, base)
	for i, s := range sides[1:] {
		own := rate(n, median(took[i+1]))
		r.line(s.bound, own/base, "%s\t%s\t%.0f/s\tratio %.2f\tbound %.2f", what, s.name, own, own/base)
	}
	return nil
}

func rate(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}
