package offsetstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kafka's own numbers for the ends of a log, which some tools take where a time in
// milliseconds could stand.
const (
	MagicEarliest = -2
	MagicLatest   = -1
)

// ParseStart parses where to begin: "earliest" or -2, "latest" or -1, a time as
// milliseconds since 1970 or in RFC 3339, or "offset:n". setting names the flag or
// field in errors, which are of type *ListError.
func ParseStart(setting, text string) (StartRule, error) {
	rule, problem := parseStart(strings.TrimSpace(text))
	if problem != "" {
		return StartRule{}, &ListError{Setting: setting, Input: text, Problem: problem}
	}
	return rule, nil
}

// ParseStartRules parses rules separated by commas: one for everything, as
// [ParseStart] takes it, and others for a topic or a partition, as in
//
//	latest, orders=earliest, orders/3=2024-05-01T00:00:00Z
//
// An empty list begins everything at earliest. Blanks around entries and empty
// entries are ignored; two rules for the same are an error. A topic's name is
// checked against Kafka's rules.
func ParseStartRules(setting, list string) (StartRules, error) {
	rules := StartRules{Topics: map[string]StartRule{}, Partitions: map[TopicPartition]StartRule{}}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(list, ",") {
		entry := strings.TrimSpace(part)
		if entry == "" {
			continue
		}
		where, text, of := strings.Cut(entry, "=")
		if !of {
			where, text = "", entry
		}
		where = strings.TrimSpace(where)
		problem := rules.add(where, strings.TrimSpace(text), of)
		if problem == "" && seen[where] {
			problem = "there is another rule for the same"
		}
		if problem != "" {
			return StartRules{}, &ListError{Setting: setting, Input: list, Entry: entry, Problem: problem}
		}
		seen[where] = true
	}
	return rules, nil
}

// add puts one rule where it belongs, or says what is wrong with it.
func (s *StartRules) add(where, text string, named bool) (problem string) {
	rule, problem := parseStart(text)
	if problem != "" {
		return problem
	}
	if !named {
		s.Default = rule
		return ""
	}
	topic, number, one := strings.Cut(where, "/")
	if problem := topicProblem(topic); problem != "" {
		return problem
	}
	if !one {
		s.Topics[topic] = rule
		return ""
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 0 {
		return fmt.Sprintf("%q is no partition's number", number)
	}
	s.Partitions[TopicPartition{topic, int32(n)}] = rule
	return ""
}

// startForms is what can be said of a start.
const startForms = `give "earliest" (-2), "latest" (-1), a time as milliseconds since 1970 or as 2024-05-01T00:00:00Z, or "offset:n"`

func parseStart(text string) (_ StartRule, problem string) {
	switch text {
	case "earliest", strconv.Itoa(MagicEarliest):
		return Earliest(), ""
	case "latest", strconv.Itoa(MagicLatest):
		return Latest(), ""
	}
	if number, ok := strings.CutPrefix(text, "offset:"); ok {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 {
			return StartRule{}, fmt.Sprintf("%q is no offset; give 0 or more", number)
		}
		return Exact(n), ""
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		if ms < 0 {
			return StartRule{}, fmt.Sprintf("%d is before 1970; %s", ms, startForms)
		}
		return Since(time.UnixMilli(ms)), ""
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return Since(t), ""
	}
	return StartRule{}, startForms
}
