package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
	"github.com/lockstep-stream/lockstep/sources/kafka"
)

// kafkaFlags name the Kafka to ask, and how.
type kafkaFlags struct {
	brokers, group, authority, mechanism, user string
	tls                                        bool
}

// passwordVariable holds the password to log in to Kafka with: a flag would be seen
// by whoever lists the processes.
const passwordVariable = "LOCKSTEP_KAFKA_PASSWORD"

// kafkaHelp is the part of --help about them.
const kafkaHelp = `With --sasl the password is read from ` + passwordVariable + `.`

func addKafkaFlags(cmd *cobra.Command) *kafkaFlags {
	f := &kafkaFlags{}
	flags := cmd.Flags()
	flags.StringVar(&f.brokers, "brokers", "", "Kafka brokers, as host:port separated by commas (default what "+brokersVariable+" says)")
	flags.StringVar(&f.group, "group", "", "the consumer group of the pipeline (default the pipeline's name)")
	flags.BoolVar(&f.tls, "tls", false, "speak TLS with Kafka")
	flags.StringVar(&f.authority, "tls-ca", "", "a PEM file with the authority that signed the brokers' certificates; implies --tls")
	flags.StringVar(&f.mechanism, "sasl", "", "log in to Kafka by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	flags.StringVar(&f.user, "user", "", "the user to log in to Kafka as")
	complete(cmd, "sasl", cobra.FixedCompletions([]string{kafka.Plain.String(), kafka.ScramSHA256.String(), kafka.ScramSHA512.String()}, cobra.ShellCompDirectiveNoFileComp))
	return f
}

// cluster asks a Kafka cluster.
type cluster struct {
	client *kgo.Client
	admin  *kadm.Client
	opts   []kgo.Opt
	wait   time.Duration // how long what fails for reasons that pass is tried
}

// parse checks the flags and returns what to ask with, which connects to nothing
// yet; nil without --brokers. It must be closed.
func (f *kafkaFlags) parse(wait time.Duration) (*cluster, error) {
	if !f.given() {
		return nil, f.unused()
	}
	brokers, err := offsetstore.ParseBrokers("--brokers", f.brokers)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", framework.ErrConfig, err)
	}
	opts := []kgo.Opt{kgo.SeedBrokers(brokers...), kgo.ClientID("lockstep-command"), kgo.DisableClientMetrics(), patience(wait)}
	for _, option := range []func() (kgo.Opt, error){f.tlsOption, f.saslOption} {
		o, err := option()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", framework.ErrConfig, err)
		}
		if o != nil {
			opts = append(opts, o)
		}
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: --brokers: %w", framework.ErrConfig, err)
	}
	return &cluster{client, kadm.NewClient(client), opts, wait}, nil
}

// require is parse for a command that cannot do without Kafka.
func (f *kafkaFlags) require(wait time.Duration) (*cluster, error) {
	if !f.given() {
		return nil, errNoBrokers
	}
	return f.parse(wait)
}

var errNoBrokers = fmt.Errorf("%w: --brokers is missing; give Kafka's, such as --brokers 127.0.0.1:9092, or set %s", framework.ErrConfig, brokersVariable)

// given reports whether there is a Kafka to ask.
func (f *kafkaFlags) given() bool {
	f.brokers = cmp.Or(f.brokers, os.Getenv(brokersVariable))
	return f.brokers != ""
}

// unused refuses what says how to ask Kafka, where it is not to be asked.
func (f *kafkaFlags) unused() error {
	for name, given := range map[string]bool{
		"group": f.group != "", "tls": f.tls, "tls-ca": f.authority != "", "sasl": f.mechanism != "", "user": f.user != "",
	} {
		if given {
			return fmt.Errorf("%w: --%s is given without --brokers", framework.ErrConfig, name)
		}
	}
	return nil
}

// patience is how long a request that fails for reasons that pass is repeated.
func patience(wait time.Duration) kgo.Opt {
	if wait == 0 {
		return kgo.RequestRetries(0)
	}
	return kgo.RetryTimeout(wait)
}

func (f *kafkaFlags) tlsOption() (kgo.Opt, error) {
	if f.authority == "" {
		if f.tls {
			return kgo.DialTLS(), nil
		}
		return nil, nil
	}
	pem, err := os.ReadFile(f.authority)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca %q: %w", f.authority, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-ca %q: it holds no certificate in PEM", f.authority)
	}
	return kgo.DialTLSConfig(&tls.Config{RootCAs: pool}), nil
}

func (f *kafkaFlags) saslOption() (kgo.Opt, error) {
	if f.mechanism == "" {
		if f.user != "" {
			return nil, fmt.Errorf("--user is given without --sasl")
		}
		return nil, nil
	}
	m, err := kafka.ParseMechanism(f.mechanism)
	if err != nil {
		return nil, fmt.Errorf("--sasl %q: give PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", f.mechanism)
	}
	password := os.Getenv(passwordVariable)
	if f.user == "" || password == "" {
		return nil, fmt.Errorf("--sasl %s: give --user, and the password in %s", f.mechanism, passwordVariable)
	}
	return kgo.SASL(login(m, f.user, password)), nil
}

func login(m kafka.Mechanism, user, password string) sasl.Mechanism {
	switch m {
	case kafka.ScramSHA256:
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case kafka.ScramSHA512:
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	default:
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	}
}

// retryPause is the pause between two tries.
const retryPause = 200 * time.Millisecond

// retry asks again while a group's coordinator is not there: a new cluster, or one
// that loses a broker, needs a moment for it, and the client does not wait for that.
func (c *cluster) retry(ctx context.Context, ask func() error) error {
	for began := time.Now(); ; {
		err := ask()
		if err == nil || !kerr.IsRetriable(err) || time.Since(began)+retryPause > c.wait {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryPause):
		}
	}
}

// close ends the connections; c may be nil.
func (c *cluster) close() {
	if c != nil {
		c.client.Close()
	}
}
