package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lockstep-stream/lockstep/framework"
)

// outputFlag adds --output to cmd and returns where its value will be.
func outputFlag(cmd *cobra.Command) *string {
	output := cmd.Flags().String("output", "table", "table, or json: one object a line")
	complete(cmd, "output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return output
}

// wantsJSON parses the value of --output.
func wantsJSON(output string) (bool, error) {
	switch output {
	case "table":
		return false, nil
	case "json":
		return true, nil
	default:
		return false, fmt.Errorf("%w: --output %q: give table or json", framework.ErrConfig, output)
	}
}

// column is one column of a table of Ts.
type column[T any] struct {
	name string
	cell func(T) string
}

// writeTable writes a heading and a line for each row. The last column is as wide
// as it needs to be, whatever stands in it.
func writeTable[T any](out io.Writer, columns []column[T], rows []T) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cell func(column[T]) string) {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = cell(c)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	line(func(c column[T]) string { return c.name })
	for _, r := range rows {
		line(func(c column[T]) string { return oneLine(c.cell(r)) })
	}
	return w.Flush()
}

// oneLine keeps a cell from breaking the table.
func oneLine(cell string) string {
	return strings.NewReplacer("\t", " ", "\n", " ", "\r", " ").Replace(cell)
}

// writeJSON writes one object a line.
func writeJSON[T any](out io.Writer, rows ...T) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for _, r := range rows {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// count writes a number with the singular or plural of what it counts.
func count[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// mostWidth is how wide sentences are written.
const mostWidth = 100

// folded breaks a text into lines that are not too wide.
func folded(text string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width+1+n > mostWidth:
			b.WriteByte('\n')
			width = 0
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}
