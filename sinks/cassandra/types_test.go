package cassandra

import (
	"strings"
	"testing"
)

func TestTypesAreSpelledAsTheServerSpellsThem(t *testing.T) {
	for in, want := range map[string]string{
		"text":                                  "text",
		" VarChar ":                             "text",
		"BIGINT":                                "bigint",
		"list<text>":                            "list<text>",
		"frozen<list<frozen<map<int,  text>>>>": "frozen<list<map<int, text>>>",
		"map<text,frozen<set<uuid>>>":           "map<text, frozen<set<uuid>>>",
		"tuple<int, tuple<text, blob>>":         "frozen<tuple<int, tuple<text, blob>>>",
		"set<tuple<int>>":                       "set<frozen<tuple<int>>>",
		"frozen<Address>":                       "frozen<address>",
		`frozen<"Address">`:                     `frozen<"Address">`,
		`"address"`:                             "address",
	} {
		got, err := parseType(in)
		if err != nil || got.String() != want {
			t.Errorf("%q: got %v, %v, want %s", in, got, err, want)
			continue
		}
		again, err := parseType(got.String())
		if err != nil || again.String() != want {
			t.Errorf("%q is not stable: %v, %v", want, again, err)
		}
	}
}

func TestTypesThatDoNotExistAreRefused(t *testing.T) {
	for _, in := range []string{"", " ", "list<>", "list<int", "list<int>>", "list<int,int>", "map<int>", "frozen<int>", "frozen<>",
		"vector<float, 3>", "'org.apache.Custom'", "a b", `"`, `""`, "int,", strings.Repeat("list<", 100) + "int" + strings.Repeat(">", 100)} {
		if got, err := parseType(in); err == nil {
			t.Errorf("%q: got %s, want an error", in, got)
		} else if !strings.Contains(err.Error(), "type ") {
			t.Errorf("%q: %v does not name the type", in, err)
		}
	}
}

func FuzzParseType(f *testing.F) {
	f.Add(`map<text, frozen<list<frozen<tuple<int, "Ab">>>>>`)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseType(s)
		if err != nil {
			return
		}
		again, err := parseType(got.String())
		if err != nil || again.String() != got.String() {
			t.Errorf("%q: %s, then %v, %v", s, got, again, err)
		}
	})
}
