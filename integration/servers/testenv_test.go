package servers

import (
	"fmt"
	"strings"
	"testing"
)

// failure is a test that only notes how it failed.
type failure struct{ text string }

func (*failure) Helper()                             {}
func (f *failure) Fatalf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

func TestMissingServersFailWithWhatToDo(t *testing.T) {
	for _, c := range []struct {
		ask  func(TB) string
		name string
		flag string
	}{
		{Kafka, EnvKafka, " -kafka "},
		{Cassandra, EnvCassandra, " -cassandra "},
		{CassandraAuth, EnvCassandraAuth, " -cassandra-auth "},
		{Postgres, EnvPostgres, " -postgres "},
		{func(t TB) string { return KafkaConsumerGroups(t).Path }, envKafkaGroups, " -kafka "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(c.name, "")
			var f failure
			c.ask(&f)
			if !strings.Contains(f.text, c.name) || !strings.Contains(f.text, c.flag) || !strings.Contains(f.text, "make test") {
				t.Errorf("the failure does not help: %q", f.text)
			}
		})
	}
}

func TestEnvIsWhatTestsRead(t *testing.T) {
	set := Set{Kafka: &Service{addr: "k:1"}, CassandraAuth: &Service{addr: "a:2"}}
	for _, v := range set.Env() {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	if Kafka(t) != "k:1" || CassandraAuth(t) != "a:2" || len(set.Env()) != 2 {
		t.Errorf("got %v", set.Env())
	}
}
