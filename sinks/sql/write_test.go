package sql_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/sinks/sql"
)

type spent struct {
	Customer string  `db:"customer,key"`
	Cents    float64 `db:"cents"`
	Note     *string `db:"note"`
}

func TestAWriteShowsWhatItDoes(t *testing.T) {
	table := sql.NewTable[spent]("spent")
	for want, w := range map[string]sql.Write{
		"upsert spent(customer=a, cents=3, note=NULL)": table.Upsert(spent{Customer: "a", Cents: 3}),
		"insert spent(customer=, cents=0, note=NULL)":  table.Insert(spent{}),
		"delete spent(customer=a)":                     table.Delete(spent{Customer: "a", Cents: 3}),
		"empty write":                                  {},
	} {
		if got := fmt.Sprint(w); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := table.Upsert(spent{Customer: strings.Repeat("a", 10_000)}).String(); len(got) > 200 {
		t.Errorf("a long value gives %d bytes", len(got))
	}
	if got := table.Upsert(spent{Cents: math.NaN()}).String(); !strings.Contains(got, "upsert that is refused") || !strings.Contains(got, "NaN") {
		t.Errorf("got %q, want the reason", got)
	}
}

// TestAWriteIsCheckedWithoutADatabase wants of a write by itself what a sink
// says of it.
func TestAWriteIsCheckedWithoutADatabase(t *testing.T) {
	table := sql.NewTable[spent]("spent")
	for name, test := range map[string]struct {
		w    sql.Write
		want error
	}{
		"good":      {table.Upsert(spent{Customer: "a"}), nil},
		"empty":     {sql.Write{}, framework.ErrRefused},
		"NaN":       {table.Upsert(spent{Cents: math.NaN()}), framework.ErrRefused},
		"too large": {table.Upsert(spent{Customer: strings.Repeat("a", 17<<20)}), framework.ErrTooLarge},
		"no key": {sql.NewTable[struct {
			A string `db:"a"`
		}]("t").Upsert(struct {
			A string `db:"a"`
		}{}), framework.ErrConfig},
	} {
		size, err := test.w.Check()
		if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) || (size > 0) != (err == nil) {
			t.Errorf("%s: %d bytes, %v; want %v", name, size, err, test.want)
		}
	}
}
