// Package integration holds what needs the whole: tests that run pipelines and
// the example's processes against real servers while these fail, the test that
// keeps imports pointing one way, and below it the servers (servers), a proxy that
// breaks connections to them (proxy), whole runs in virtual time (simulation,
// positions), and the benchmark (bench).
package integration
