package cassandra

import "testing"

func TestCopiesAreCountedInAllDataCentres(t *testing.T) {
	for want, replication := range map[int]map[string]string{
		1: {"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "1"},
		3: {"class": "org.apache.cassandra.locator.NetworkTopologyStrategy", "here": "3/1"},
		4: {"class": "org.apache.cassandra.locator.NetworkTopologyStrategy", "here": "3", "there": "1"},
		0: {"class": "org.apache.cassandra.locator.LocalStrategy"},
	} {
		if got := copiesIn(replication); got != want {
			t.Errorf("%v: %d copies, want %d", replication, got, want)
		}
	}
}
