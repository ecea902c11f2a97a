// Package proxy stands between a client and a real server and breaks what passes:
// for tests of what a program does when the network or the server fails.
//
// [CQL], [Kafka] and [TCP] listen on a free port of loopback and pass everything
// on to one server until told otherwise:
//
//   - [Proxy.On] is asked about every request, and returns what happens to it: the
//     request is lost, or its answer, or the connection breaks before or after the
//     server has done its work, or the answer is another one ([Replace], [Forge]),
//     or the request arrives when nobody waits for it any more ([Later]).
//   - [Proxy.Stall] holds everything back in both directions, and [Proxy.Resume]
//     lets it through: a peer that is there and says nothing. [Proxy.Delay] makes
//     everything late.
//   - [Proxy.Cut] breaks all connections, [Proxy.Refuse] new ones, too.
//
// A proxy of CQL knows the statement of each request, prepared or not, so that
// one statement can be aimed at.
//
// # Reaching a server through it
//
// A Cassandra driver that is given [Proxy.Addr] keeps the port for all nodes it
// discovers; with the single node on loopback that leads back here. A Kafka client
// dials what the brokers advertise: give it [Proxy.Dial], which ignores the
// address. With several servers use one proxy for each.
//
// # Caveats
//
// CQL is understood in the native protocol's versions 3 and 4, without
// compression. Anything else breaks the connection, and [Proxy.Close] says so.
package proxy
