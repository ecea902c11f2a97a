package servers

import (
	"testing"
	"time"
)

func TestOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"nothing to start": {},
		"too many nodes":   {Cassandra: true, CassandraNodes: 10},
		"negative timeout": {Kafka: true, StartTimeout: -time.Second},
	} {
		if _, err := Start(t.Context(), o); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
}
