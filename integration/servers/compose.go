package servers

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// composeFile lies beside the module's go.mod.
const composeFile = "docker-compose.yml"

// compose is the host with Docker: services of docker-compose.yml under a
// project of their own, so that they never meet those a developer has up.
type compose struct {
	file    string
	project string
	env     []string // what differs from the file's defaults
	ports   map[string]int
	guard   *guard
}

// composePorts names the variable that moves each service's port.
var composePorts = map[string]string{
	"kafka":          "LOCKSTEP_KAFKA_PORT",
	"cassandra":      "LOCKSTEP_CASSANDRA_PORT",
	"cassandra-auth": "LOCKSTEP_CASSANDRA_AUTH_PORT",
	"postgres":       "LOCKSTEP_POSTGRES_PORT",
}

// dockerAnswers tells whether an engine and compose are there.
func dockerAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	engine, err := exec.CommandContext(ctx, "docker", "info", "--format", "{{.ServerVersion}}").Output()
	if err != nil || len(bytes.TrimSpace(engine)) == 0 {
		return false
	}
	return exec.CommandContext(ctx, "docker", "compose", "version").Run() == nil
}

func newCompose(o Options) (*compose, error) {
	file, err := findUp(composeFile)
	if err != nil {
		return nil, err
	}
	c := &compose{file: file, project: "lockstep-" + strings.ToLower(rand.Text()[:10]), ports: map[string]int{}}
	if err := c.choosePorts(); err != nil {
		return nil, err
	}
	c.guard, err = newGuard(append([]string{"docker"}, c.args(c.downArgs()...)...)...)
	if err != nil {
		return nil, err
	}
	o.Logger.Info("using docker compose", "file", file, "project", c.project)
	return c, nil
}

// findUp looks for the file name in the working directory and above.
func findUp(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if path := filepath.Join(dir, name); exists(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("servers: no %s here or above: run inside a checkout, or set Options.Packages", name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (c *compose) choosePorts() error {
	for service, variable := range composePorts {
		port, err := freePort()
		if err != nil {
			return err
		}
		c.ports[service] = port
		c.env = append(c.env, variable+"="+strconv.Itoa(port))
	}
	return nil
}

func (c *compose) kafka(context.Context) (launch, error) {
	l, err := c.service("kafka")
	tool := c.args("exec", "-T", "kafka", "/opt/kafka/bin/kafka-consumer-groups.sh")
	l.env = append(l.env, groupsTool(append([]string{"docker"}, tool...)...))
	return l, err
}

// cassandra is durable in any case: the file says so.
func (c *compose) cassandra(_ context.Context, kind cassandraKind) ([]launch, error) {
	if kind.nodes > 1 {
		return nil, errors.New("servers: containers have one Cassandra node: set Options.Packages")
	}
	l, err := c.service(kind.name())
	return []launch{l}, err
}

func (c *compose) postgres(context.Context) (launch, error) { return c.service("postgres") }

func (c *compose) service(name string) (launch, error) {
	return launch{backend: &container{compose: c, service: name}, addr: address(loopback, c.ports[name])}, nil
}

// close removes the project's containers, networks and volumes.
func (c *compose) close(ctx context.Context) error {
	return errors.Join(c.run(ctx, c.downArgs()...), c.guard.release())
}

func (c *compose) downArgs() []string {
	return []string{"down", "--volumes", "--remove-orphans", "--timeout", "0"}
}

func (c *compose) run(ctx context.Context, args ...string) error {
	out, err := c.command(ctx, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("docker compose %s: %w\nend of its output:\n%s", strings.Join(args, " "), err, lastLines(out, 10))
	}
	return nil
}

func (c *compose) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "docker", c.args(args...)...)
	cmd.Env = append(os.Environ(), c.env...)
	return cmd
}

// args has all profiles on, so that every service is known.
func (c *compose) args(args ...string) []string {
	return append([]string{"compose", "--file", c.file, "--project-name", c.project, "--profile", "auth", "--profile", "postgres"}, args...)
}
