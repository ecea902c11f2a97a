package offsetstore

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ListError says what is wrong with a list that an operator typed.
type ListError struct {
	Setting string // the name of the flag or field
	Input   string // the whole list as given
	Entry   string // the entry at fault, "" if it is the list as a whole
	Problem string // what is wrong, and what to write instead
}

// Error names the setting, the entry and the problem.
func (e *ListError) Error() string {
	if e.Entry == "" {
		return fmt.Sprintf("%s %q: %s", e.Setting, e.Input, e.Problem)
	}
	return fmt.Sprintf("%s %q: entry %q: %s", e.Setting, e.Input, e.Entry, e.Problem)
}

// ParseBrokers parses a list of Kafka brokers, host:port separated by commas.
// Blanks around entries and empty entries are ignored, repeated entries are
// kept once. An IPv6 address stands in brackets. setting names the flag or
// field in errors, which are of type *ListError. There is no default port.
func ParseBrokers(setting, list string) ([]string, error) {
	brokers, err := parseList(setting, list, "no brokers; give host:port, separated by commas", brokerProblem)
	for i := repeated(brokers); i >= 0; i = repeated(brokers) {
		brokers = slices.Delete(brokers, i, i+1)
	}
	return brokers, err
}

// ParseTopics parses a list of topic names separated by commas. Blanks around
// entries and empty entries are ignored; a repeated entry is an error. Names
// are case sensitive, and checked against Kafka's rules. setting names the
// flag or field in errors, which are of type *ListError.
func ParseTopics(setting, list string) ([]string, error) {
	topics, err := parseList(setting, list, "no topics; give topic names, separated by commas", topicProblem)
	if err != nil {
		return nil, err
	}
	if i := repeated(topics); i >= 0 {
		return nil, &ListError{Setting: setting, Input: list, Entry: topics[i], Problem: "listed twice; one of them may be a typing error"}
	}
	return topics, nil
}

func parseList(setting, list, empty string, problem func(string) string) ([]string, error) {
	var entries []string
	for part := range strings.SplitSeq(list, ",") {
		entry := strings.TrimSpace(part)
		if entry == "" {
			continue
		}
		if p := problem(entry); p != "" {
			return nil, &ListError{Setting: setting, Input: list, Entry: entry, Problem: p}
		}
		entries = append(entries, entry)
	}
	if len(entries) == 0 {
		return nil, &ListError{Setting: setting, Input: list, Problem: empty}
	}
	return entries, nil
}

// repeated returns the index of the first entry that stands before it already,
// or -1.
func repeated(entries []string) int {
	for i := range entries {
		if slices.Contains(entries[:i], entries[i]) {
			return i
		}
	}
	return -1
}

func brokerProblem(entry string) string {
	if scheme, _, ok := strings.Cut(entry, "://"); ok {
		return fmt.Sprintf("remove the scheme %s://, a broker is host:port", scheme)
	}
	if p := separatorProblem(entry); p != "" {
		return p
	}
	host, port, err := net.SplitHostPort(entry)
	switch {
	case err != nil && strings.Count(entry, ":") > 1:
		return "an IPv6 address needs brackets and a port, as in [::1]:9092"
	case err != nil:
		return "port missing; write host:port, as in " + entry + ":9092"
	case host == "":
		return "host missing; write host:port"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "the port must be a number from 1 to 65535"
	}
	return hostProblem(host)
}

// hostName admits what resolvers do; underscores are common inside container
// networks.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`)

func hostProblem(host string) string {
	if net.ParseIP(strings.SplitN(host, "%", 2)[0]) != nil || hostName.MatchString(host) {
		return ""
	}
	return "not a host name or address"
}

func separatorProblem(entry string) string {
	if strings.ContainsAny(entry, " \t\r\n;|") {
		return "separate entries with commas; blanks, ; and | belong to no name"
	}
	return ""
}

// maxTopicLength is Kafka's own limit: a name becomes a file name.
const maxTopicLength = 249

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

func topicProblem(entry string) string {
	if p := separatorProblem(entry); p != "" {
		return p
	}
	switch {
	case entry == "." || entry == "..":
		return "not a topic name"
	case len(entry) > maxTopicLength:
		return fmt.Sprintf("%d characters; a topic name has at most %d", len(entry), maxTopicLength)
	case !topicName.MatchString(entry):
		return "a topic name consists of letters, digits, '.', '_' and '-'"
	}
	return ""
}
