package offsetstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

func TestStartsAsOperatorsTypeThem(t *testing.T) {
	for text, want := range map[string]offsetstore.StartRule{
		"earliest":             offsetstore.Earliest(),
		"-2":                   offsetstore.Earliest(),
		" latest ":             offsetstore.Latest(),
		"-1":                   offsetstore.Latest(),
		"0":                    offsetstore.Since(time.UnixMilli(0)),
		"1700000000000":        offsetstore.Since(time.UnixMilli(1_700_000_000_000)),
		"2024-05-01T00:00:00Z": offsetstore.Since(time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)),
		"offset:0":             offsetstore.Exact(0),
		"offset:17":            offsetstore.Exact(17),
	} {
		if got, err := offsetstore.ParseStart("-start", text); err != nil || got.String() != want.String() {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for text, wrong := range map[string]string{
		"":            "earliest",
		"smallest":    "earliest",
		"-3":          "before 1970",
		"offset:-1":   "0 or more",
		"offset:":     "0 or more",
		"2024-05-01":  "2024-05-01T00:00:00Z",
		"1.5":         "milliseconds",
		"-1700000000": "before 1970",
	} {
		var le *offsetstore.ListError
		if _, err := offsetstore.ParseStart("-start", text); !errors.As(err, &le) || !strings.Contains(err.Error(), wrong) || !strings.Contains(err.Error(), "-start") {
			t.Errorf("%q: got %v, want a *ListError naming -start and %q", text, err, wrong)
		}
	}
}

func TestStartRulesAsOperatorsTypeThem(t *testing.T) {
	rules, err := offsetstore.ParseStartRules("-start", " latest, orders = earliest,orders/3=offset:5 ,")
	if err != nil {
		t.Fatal(err)
	}
	for tp, want := range map[offsetstore.TopicPartition]offsetstore.StartRule{
		{Topic: "other"}:                offsetstore.Latest(),
		{Topic: "orders", Partition: 1}: offsetstore.Earliest(),
		{Topic: "orders", Partition: 3}: offsetstore.Exact(5),
	} {
		if got := rules.For(tp); got != want {
			t.Errorf("%s: %v, want %v", tp, got, want)
		}
	}
	if rules, err := offsetstore.ParseStartRules("-start", " , "); err != nil || rules.Default != offsetstore.Earliest() {
		t.Errorf("nothing: %v, %v; want earliest", rules, err)
	}
	for list, wrong := range map[string]string{
		"latest, earliest":     "another rule",
		"a=latest,a=latest":    "another rule",
		"a/1=latest,a/1=-2":    "another rule",
		"a/x=latest":           "partition",
		"a/-1=latest":          "partition",
		"a/99999999999=latest": "partition",
		"in/2/3=latest":        "partition",
		"=latest":              "topic name",
		"a b=latest":           "commas",
		"a=":                   "earliest",
		"a=latest b=latest":    "earliest",
	} {
		if _, err := offsetstore.ParseStartRules("-start", list); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: got %v, want %q", list, err, wrong)
		}
	}
}

func TestTimesThatKafkaTakesForTheEndsOfTheLogAreRefused(t *testing.T) {
	for _, ms := range []int64{-1, -2, -100} {
		rules := offsetstore.StartRules{Default: offsetstore.Since(time.UnixMilli(ms))}
		if err := rules.Validate(); err == nil || !strings.Contains(err.Error(), "Earliest or Latest") {
			t.Errorf("%d ms: got %v, want what to use instead", ms, err)
		}
	}
}

func FuzzStartRules(f *testing.F) {
	f.Add("latest, a=earliest, a/3=offset:5, b=1700000000000")
	f.Fuzz(func(t *testing.T, list string) {
		rules, err := offsetstore.ParseStartRules("-start", list)
		if err != nil {
			return
		}
		if err := rules.Validate(); err != nil {
			t.Fatalf("%q was parsed to rules that are refused: %v", list, err)
		}
	})
}
