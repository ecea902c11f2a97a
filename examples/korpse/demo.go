package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// demoRequests is how many requests the demo produces, to two partitions.
const demoRequests = 1000

// demo runs both jobs on a Kafka in this process. Each is a process of its own that is
// killed once, and started again.
func demo(ctx context.Context, s settings, out io.Writer) error {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, s.topics[0]))
	if err != nil {
		return err
	}
	defer broker.Close()
	truth, err := produce(ctx, broker.ListenAddrs(), s.topics[0])
	if err != nil {
		return err
	}
	show(out, "produced", truth)
	dir, err := os.MkdirTemp("", "korpse-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	args := []string{
		"--brokers", strings.Join(broker.ListenAddrs(), ","), "--topics", s.topics[0], "--until-end",
		"--batch-seconds", strconv.Itoa(int(s.every.Seconds())), "--batch-records", strconv.Itoa(demoRequests / 4), "--default-offset", "earliest",
	}
	printed, err := killedOnce(ctx, out, "print, then store the ranges, and die between the two", args, "--group", "print")
	if err != nil {
		return err
	}
	saved, err := killedOnce(ctx, out, "save counts and positions as one, and die right after it", args, "--group", "save", "--db", filepath.Join(dir, "counts.db"))
	if err != nil {
		return err
	}
	return compare(out, truth, printed, saved)
}

// produce writes requests of which every fifth has failed, and returns how many by
// path.
func produce(ctx context.Context, brokers []string, topic string) (map[string]int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	truth := map[string]int64{}
	var records []*kgo.Record
	for i := range demoRequests {
		path, status := []string{"/cart", "/pay", "/search"}[i%3], 200
		if i%5 == 0 {
			status = 503
			truth[path]++
		}
		records = append(records, kgo.StringRecord(fmt.Sprintf("GET %s %d", path, status)))
	}
	return truth, client.ProduceSync(ctx, records...).FirstErr()
}

// killedOnce runs this program with all args and --crash 2, which must kill it, and then
// without. It returns the sum of all that was printed.
func killedOnce(ctx context.Context, out io.Writer, what string, args []string, more ...string) (map[string]int64, error) {
	args = slices.Concat(args, more)
	fmt.Fprintf(out, "\n%s:\n", what)
	first, err := child(ctx, out, append(args, "--crash", "2"))
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil, errors.New("the process was not killed")
	case !errors.As(err, &exit) || exit.ExitCode() == 1: // 1: it failed by itself
		return nil, err
	}
	fmt.Fprintln(out, "killed, and started again:")
	second, err := child(ctx, out, args)
	for path, n := range second {
		first[path] += n
	}
	return first, err
}

// result is a line of show.
var result = regexp.MustCompile(`(?m)^(?:batch \d+|saved) \((\S+),(\d+)\)$`)

// child runs this program, and returns the sum of the results that it prints.
func child(ctx context.Context, out io.Writer, args []string) (map[string]int64, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var printed, said bytes.Buffer
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(out, &printed), &said
	err = cmd.Run()
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w\n%s", err, &said)
	}
	sums := map[string]int64{}
	for _, m := range result.FindAllStringSubmatch(printed.String(), -1) {
		n, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return nil, err
		}
		sums[m[1]] += n
	}
	return sums, err
}

// compare says what the two came to. It is an error if either broke its promise.
func compare(out io.Writer, truth, printed, saved map[string]int64) error {
	fmt.Fprintf(out, "\nat least once: %d requests failed, %d were printed, %d of them twice\n", sum(truth), sum(printed), sum(printed)-sum(truth))
	fmt.Fprintf(out, "exactly once: %d requests failed, %d are saved\n", sum(truth), sum(saved))
	for path, n := range truth {
		if printed[path] < n {
			return fmt.Errorf("%s: %d failures, and only %d printed", path, n, printed[path])
		}
	}
	if !maps.Equal(truth, saved) {
		return fmt.Errorf("produced %v, saved %v", truth, saved)
	}
	return nil
}

func sum(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}
