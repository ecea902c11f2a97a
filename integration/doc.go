// Package integration holds what needs the whole: tests that run the example's
// processes against real servers and kill them, the test that keeps imports
// pointing one way, and below it the servers (servers) and the benchmark (bench).
package integration
