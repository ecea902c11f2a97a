package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
)

// minJava is the oldest Java on which both servers run.
const minJava = 17

// javaPackages are Debian's and Ubuntu's, the one that Cassandra is tested with
// first; a release has one or the other.
var javaPackages = []string{"openjdk-17-jre-headless", "openjdk-21-jre-headless"}

// installing keeps two goroutines from running apt-get at once.
var installing sync.Mutex

// findJava returns the path of a java that is new enough, and installs one
// where it can.
func findJava(ctx context.Context, log *slog.Logger) (string, error) {
	installing.Lock()
	defer installing.Unlock()
	java, err := usableJava(ctx)
	if err == nil {
		return java, nil
	}
	if err := aptInstall(ctx, log, os.Geteuid(), javaPackages...); err != nil {
		return "", fmt.Errorf("servers: Java %d or later is needed (%w): install a JRE, or set JAVA_HOME to one", minJava, err)
	}
	return usableJava(ctx)
}

// findMaven returns the path of mvn, and installs it where it can.
func findMaven(ctx context.Context, log *slog.Logger) (string, error) {
	installing.Lock()
	defer installing.Unlock()
	if mvn, err := exec.LookPath("mvn"); err == nil {
		return mvn, nil
	}
	if err := aptInstall(ctx, log, os.Geteuid(), "maven"); err != nil {
		return "", fmt.Errorf("servers: Maven is needed to download the servers (%w): install it so that mvn is in PATH", err)
	}
	return exec.LookPath("mvn")
}

// usableJava looks in JAVA_HOME, in PATH and where Debian puts a Java that is
// not the default one.
func usableJava(ctx context.Context) (string, error) {
	for _, java := range javaCandidates() {
		out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
		if err == nil && javaMajor(string(out)) >= minJava {
			return java, nil
		}
	}
	return "", fmt.Errorf("no java of version %d or later in JAVA_HOME or PATH", minJava)
}

func javaCandidates() []string {
	var found []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		found = append(found, filepath.Join(home, "bin", "java"))
	}
	if java, err := exec.LookPath("java"); err == nil {
		found = append(found, java)
	}
	debian, _ := filepath.Glob("/usr/lib/jvm/java-*-openjdk-*/bin/java") // the pattern is well formed
	return append(found, debian...)
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// javaMajor reads the major version from what java -version prints, 0 if there
// is none. Java 8 calls itself 1.8, and counts as 1 here.
func javaMajor(printed string) int {
	m := javaVersion.FindStringSubmatch(printed)
	if m == nil {
		return 0
	}
	major, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return major
}

// aptInstall installs, if user is root, the first of the packages that this
// release has.
func aptInstall(ctx context.Context, log *slog.Logger, user int, packages ...string) error {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("it is missing, and this is no Debian or Ubuntu to install it on")
	}
	if user != 0 {
		return errors.New("it is missing, and only root can install it")
	}
	if err := runApt(ctx, apt, "update"); err != nil {
		return err
	}
	var failed error
	for _, p := range packages {
		log.Info("installing", "package", p)
		err := runApt(ctx, apt, "install", "--yes", "--no-install-recommends", p)
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func runApt(ctx context.Context, apt string, args ...string) error {
	cmd := exec.CommandContext(ctx, apt, append([]string{"-q"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get %v: %w\nend of its output:\n%s", args, err, lastLines(out, 10))
	}
	return nil
}
