package offsetstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/offsetstore"
)

type listCase struct {
	in    string
	want  []string
	wrong string // part of the error
}

func TestBrokerLists(t *testing.T) {
	two := []string{"h1:9092", "h2:9092"}
	check(t, offsetstore.ParseBrokers, []listCase{
		{in: "h1:9092, h2:9092,", want: two},
		{in: " h1:9092 ,, h2:9092 ", want: two},
		{in: "\th1:9092\n,\nh2:9092\t", want: two},
		{in: "h1:9092,h1:9092", want: []string{"h1:9092"}},
		{in: "[::1]:9092", want: []string{"[::1]:9092"}},
		{in: "kafka_1.local:9092", want: []string{"kafka_1.local:9092"}},
		{in: "h1:9092 h2:9092", wrong: "commas"},
		{in: "h1:9092;h2:9092", wrong: "commas"},
		{in: "h1", wrong: "port missing"},
		{in: "h1:", wrong: `"h1:"`},
		{in: "h1:abc", wrong: `"h1:abc"`},
		{in: "h1:0", wrong: `"h1:0"`},
		{in: "h1:99999", wrong: `"h1:99999"`},
		{in: ":9092", wrong: "host missing"},
		{in: "::1:9092", wrong: "brackets"},
		{in: "h1/x:9092", wrong: "host name"},
		{in: "kafka://h1:9092", wrong: "kafka://"},
		{in: "", wrong: "no brokers"},
		{in: ",", wrong: "no brokers"},
		{in: " , ", wrong: "no brokers"},
	})
}

func TestTopicLists(t *testing.T) {
	check(t, offsetstore.ParseTopics, []listCase{
		{in: " in , in2 ,", want: []string{"in", "in2"}},
		{in: "in,in", wrong: "listed twice"},
		{in: "In,in", want: []string{"In", "in"}},
		{in: strings.Repeat("x", 249), want: []string{strings.Repeat("x", 249)}},
		{in: "in in2", wrong: "commas"},
		{in: "in/2", wrong: `"in/2"`},
		{in: "..", wrong: `".."`},
		{in: strings.Repeat("x", 250), wrong: "250 characters"},
		{in: "", wrong: "no topics"},
	})
}

func check(t *testing.T, parse func(string, string) ([]string, error), cases []listCase) {
	t.Helper()
	for _, c := range cases {
		got, err := parse("-list", c.in)
		if c.wrong == "" {
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q: got %q, %v; want %q", c.in, got, err, c.want)
			}
			continue
		}
		var le *offsetstore.ListError
		if !errors.As(err, &le) || !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), "-list") {
			t.Errorf("%q: error %v; want a *ListError naming -list and %q", c.in, err, c.wrong)
		}
	}
}

// What is accepted parses to itself.
func FuzzLists(f *testing.F) {
	f.Add("h1:9092, h2:9092,")
	f.Add("[::1]:1;x")
	f.Add("orders, payments.v2_1 -")
	f.Fuzz(func(t *testing.T, in string) {
		for setting, parse := range map[string]func(setting, list string) ([]string, error){
			"-brokers": offsetstore.ParseBrokers, "-topics": offsetstore.ParseTopics,
		} {
			got, err := parse(setting, in)
			if err != nil {
				continue
			}
			again, err := parse(setting, strings.Join(got, ","))
			if err != nil || len(got) == 0 || !slices.Equal(got, again) {
				t.Fatalf("%s %q parsed to %q, which parses to %q, %v", setting, in, got, again, err)
			}
		}
	})
}
