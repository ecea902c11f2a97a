package servers

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"text/template"
)

// kafkaBundle has the version of the image in docker-compose.yml.
var kafkaBundle = bundle{
	name: "kafka", version: "4.1.0",
	artifacts: []artifact{
		{"org.apache.kafka", "kafka_2.13", "4.1.0"},
		{"org.apache.kafka", "kafka-tools", "4.1.0"},
		{"org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"},
	},
}

//go:embed config/kafka.properties.tmpl
var kafkaPropertiesText string

//go:embed config/kafka-log4j2.properties
var kafkaLogging []byte

var kafkaProperties = template.Must(template.New("kafka.properties").Parse(kafkaPropertiesText))

// kafkaBroker is one broker, its own controller, in the directory Dir.
type kafkaBroker struct {
	Dir, Host                  string
	BrokerPort, ControllerPort int

	TLS         *certificates // nil: the plain listener alone
	TLSPort     int           // TLS, no login
	SASLPort    int           // login, no TLS
	SASLTLSPort int           // both
}

// LoginListeners, User and Password are for the template.
func (b kafkaBroker) LoginListeners() []string { return []string{"sasl_plaintext", "sasl_ssl"} }
func (b kafkaBroker) User() string             { return KafkaUser }
func (b kafkaBroker) Password() string         { return KafkaPassword }

// kafka prepares a broker with an empty, formatted log.
func (p *packages) kafka(ctx context.Context) (launch, error) {
	jars, err := kafkaBundle.fetch(ctx, p.log)
	if err != nil {
		return launch{}, err
	}
	broker, err := p.newBroker()
	if err != nil {
		return launch{}, err
	}
	if err := broker.prepare(ctx, p.java, jars); err != nil {
		return launch{}, err
	}
	return launch{
		backend: p.process(broker.Dir, broker.serverArgs(jars)...),
		addr:    address(broker.Host, broker.BrokerPort),
		env:     append(broker.env(), p.groupsTool(jars)),
	}, nil
}

// groupsTool is what kafka-consumer-groups.sh runs.
func (p *packages) groupsTool(jars string) string {
	return groupsTool(p.java, "-cp", filepath.Join(jars, "*"), fastStart, "-Djava.net.preferIPv4Stack=true", "-XX:-UsePerfData",
		"org.apache.kafka.tools.consumer.group.ConsumerGroupCommand")
}

func (p *packages) newBroker() (kafkaBroker, error) {
	dir, err := p.serverDir("kafka")
	if err != nil {
		return kafkaBroker{}, err
	}
	ports, err := freePorts(5)
	if err != nil {
		return kafkaBroker{}, err
	}
	return kafkaBroker{
		Dir: dir, Host: loopback, BrokerPort: ports[0], ControllerPort: ports[1],
		TLS: p.tls, TLSPort: ports[2], SASLPort: ports[3], SASLTLSPort: ports[4],
	}, nil
}

// env tells where the other listeners are, if there are any.
func (b kafkaBroker) env() []string {
	if b.TLS == nil {
		return nil
	}
	return []string{
		envKafkaTLS + "=" + address(b.Host, b.TLSPort),
		envKafkaSASL + "=" + address(b.Host, b.SASLPort),
		envKafkaSASLTLS + "=" + address(b.Host, b.SASLTLSPort),
		envAuthority + "=" + b.TLS.Authority,
	}
}

func (b kafkaBroker) prepare(ctx context.Context, java, jars string) error {
	if err := writeFrom(kafkaProperties, b, b.properties()); err != nil {
		return err
	}
	if err := os.WriteFile(b.logging(), kafkaLogging, 0o644); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, java, b.formatArgs(jars)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("servers: cannot format Kafka's log: %w\nend of its output:\n%s", err, lastLines(out, tailLines))
	}
	return nil
}

func (b kafkaBroker) properties() string { return filepath.Join(b.Dir, "kafka.properties") }
func (b kafkaBroker) logging() string    { return filepath.Join(b.Dir, "log4j2.properties") }

func (b kafkaBroker) serverArgs(jars string) []string {
	return append(b.javaArgs(jars), "-Xms512m", "-Xmx1g", "-XX:+ExitOnOutOfMemoryError", "kafka.Kafka", b.properties())
}

func (b kafkaBroker) formatArgs(jars string) []string {
	args := append(b.javaArgs(jars), fastStart,
		"kafka.tools.StorageTool", "format", "--standalone", "--cluster-id", clusterID(), "--config", b.properties())
	if b.TLS == nil {
		return args
	}
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} { // its users are kept in the log
		args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, KafkaUser, KafkaPassword))
	}
	return args
}

func (b kafkaBroker) javaArgs(jars string) []string {
	return []string{
		"-cp", filepath.Join(jars, "*"),
		"-Dlog4j2.configurationFile=" + b.logging(),
		"-Djava.io.tmpdir=" + filepath.Join(b.Dir, "tmp"),
		"-Djava.net.preferIPv4Stack=true",
		"-XX:-UsePerfData",
	}
}

// clusterID returns a new random one in Kafka's form: 16 bytes in URL-safe
// base 64, not beginning with a dash, which would read as a flag.
func clusterID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	id[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(id[:])
}
