package servers

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// The superuser of a server started by [Options.Postgres], and the database that
// is there to connect to. It checks passwords.
const (
	PostgresUser     = "lockstep"
	PostgresPassword = "lockstep-secret"
	PostgresDatabase = "postgres"
)

// postgresPackages are Debian's and Ubuntu's. They also set up a server of the
// system's own, which is left alone.
var postgresPackages = []string{"postgresql"}

// postgresServer is one server with its cluster of databases below Dir.
type postgresServer struct {
	Dir, Host string
	Port      int
	Bin       string // the directory of its programs
	As        *syscall.Credential
	Fast      bool
}

// postgres prepares a server with an empty cluster.
func (p *packages) postgres(ctx context.Context) (launch, error) {
	bin, err := findPostgres(ctx, p.log)
	if err != nil {
		return launch{}, err
	}
	server, err := p.newPostgres(bin)
	if err != nil {
		return launch{}, err
	}
	if err := server.prepare(ctx); err != nil {
		return launch{}, err
	}
	proc := &process{
		path: filepath.Join(bin, "postgres"), args: server.serverArgs(), dir: server.Dir, log: filepath.Join(server.Dir, "server.log"),
		as: server.As,
		// Its "fast" shutdown, which does not wait for clients, and its "immediate"
		// one, which is a crash that leaves no shared memory behind.
		stopWith: syscall.SIGINT, killWith: syscall.SIGQUIT,
	}
	return launch{backend: p.keep(proc), addr: address(server.Host, server.Port)}, nil
}

func (p *packages) newPostgres(bin string) (postgresServer, error) {
	s := postgresServer{Host: loopback, Bin: bin, Fast: p.fast}
	var err error
	if s.Dir, err = p.serverDir("postgres"); err != nil {
		return s, err
	}
	if s.Port, err = freePort(); err != nil {
		return s, err
	}
	if os.Geteuid() != 0 {
		return s, nil
	}
	if s.As, err = unprivileged(); err != nil {
		return s, err
	}
	return s, s.handOver(p.dir)
}

// unprivileged is the user that the server runs as where we are root, which
// PostgreSQL refuses to be.
func unprivileged() (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("servers: PostgreSQL does not run as root, and no other user is known: %w", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		return nil, fmt.Errorf("servers: user %s has the ids %q and %q", u.Username, u.Uid, u.Gid)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// handOver gives the server's directory to its user, who has to get there
// through the directory above.
func (s postgresServer) handOver(above string) error {
	if err := os.Chmod(above, 0o711); err != nil {
		return err
	}
	return os.Chown(s.Dir, int(s.As.Uid), int(s.As.Gid))
}

func (s postgresServer) data() string { return filepath.Join(s.Dir, "data") }

// prepare makes the cluster. Text sorts byte by byte in it.
func (s postgresServer) prepare(ctx context.Context) error {
	password := filepath.Join(s.Dir, "password")
	if err := os.WriteFile(password, []byte(PostgresPassword+"\n"), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.Bin, "initdb"), "--pgdata="+s.data(), "--username="+PostgresUser, "--pwfile="+password,
		"--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync")
	cmd.Dir = s.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.As}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("servers: initdb failed: %w\nend of its output:\n%s", err, lastLines(out, tailLines))
	}
	return nil
}

// serverArgs keeps the server to loopback, and everything it makes to its
// directory.
func (s postgresServer) serverArgs() []string {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.Port)}
	settings := []string{"listen_addresses=" + s.Host, "unix_socket_directories=", "dynamic_shared_memory_type=mmap", "log_line_prefix=%m [%p] "}
	if s.Fast {
		settings = append(settings, "fsync=off")
	}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// findPostgres returns the directory of PostgreSQL's programs, and installs them
// where it can.
func findPostgres(ctx context.Context, log *slog.Logger) (string, error) {
	installing.Lock()
	defer installing.Unlock()
	if bin := postgresBin(); bin != "" {
		return bin, nil
	}
	if err := aptInstall(ctx, log, os.Geteuid(), postgresPackages...); err != nil {
		return "", fmt.Errorf("servers: PostgreSQL's server is needed (%w): install it so that initdb is in PATH", err)
	}
	if bin := postgresBin(); bin != "" {
		return bin, nil
	}
	return "", fmt.Errorf("servers: PostgreSQL was installed, and no initdb is in PATH or %s", debianPostgres)
}

// debianPostgres is where Debian puts the programs, which are not in PATH.
const debianPostgres = "/usr/lib/postgresql/*/bin"

// postgresBin looks in PATH and where Debian puts the programs, "" if there are
// none.
func postgresBin() string {
	candidates, _ := filepath.Glob(filepath.Join(debianPostgres, "initdb")) // the pattern is well formed
	if initdb, err := exec.LookPath("initdb"); err == nil {
		candidates = append([]string{initdb}, candidates...)
	}
	for _, initdb := range candidates {
		real, err := filepath.EvalSymlinks(initdb)
		if err == nil && exists(filepath.Join(filepath.Dir(real), "postgres")) {
			return filepath.Dir(real)
		}
	}
	return ""
}
