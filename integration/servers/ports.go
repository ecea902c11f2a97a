package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Servers listen below the range from which systems take the ports of outgoing
// connections, so that nobody takes a stopped server's port before it returns.
const (
	loopback  = "127.0.0.1"
	firstPort = 10000
	lastPort  = 32000
	portTries = 100
)

// freePort returns a port on loopback that nobody listened on a moment ago.
func freePort() (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if portIsFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("servers: %d ports tried between %d and %d on %s and none was free", portTries, firstPort, lastPort, loopback)
}

func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		ports[i] = port
	}
	return ports, nil
}

func portIsFree(port int) bool {
	l, err := net.Listen("tcp4", address(loopback, port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
