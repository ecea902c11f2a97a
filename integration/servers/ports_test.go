package servers

import "testing"

func TestFreePortStaysBelowOutgoingConnections(t *testing.T) {
	ports, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range ports {
		if port < firstPort || port >= lastPort || !portIsFree(port) {
			t.Errorf("port %d is outside %d-%d or taken", port, firstPort, lastPort)
		}
	}
}
