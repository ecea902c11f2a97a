//go:build integration && tls

package main

import (
	"strings"
	"testing"

	"github.com/lockstep-stream/lockstep/integration/servers"
)

// The topic does not exist there: that it is said proves that Kafka was asked.
func TestTheCommandLogsInToKafka(t *testing.T) {
	b := processed(t)
	ask := func(more ...string) (int, string) {
		code, stdout, stderr := lockstep(t, append([]string{"lag", "--sink", b.dsn, "--wait", "0", "--group", "operate-secure"}, more...)...)
		return code, stdout + stderr
	}
	t.Setenv(passwordVariable, servers.KafkaPassword)
	for _, args := range [][]string{
		{"--brokers", servers.KafkaTLS(t), "--tls-ca", servers.Authority(t)},
		{"--brokers", servers.KafkaSASL(t), "--sasl", "PLAIN", "--user", servers.KafkaUser},
		{"--brokers", servers.KafkaSASLTLS(t), "--tls-ca", servers.Authority(t), "--sasl", "SCRAM-SHA-256", "--user", servers.KafkaUser},
		{"--brokers", servers.KafkaSASLTLS(t), "--tls-ca", servers.Authority(t), "--sasl", "SCRAM-SHA-512", "--user", servers.KafkaUser},
	} {
		if code, said := ask(args...); code != exitOK || !strings.Contains(said, "topic is gone") {
			t.Errorf("%q: exit %d, %s", args, code, said)
		}
	}
	if code, said := ask("--brokers", servers.KafkaTLS(t), "--tls"); code != exitFailed || !strings.Contains(said, "certificate") {
		t.Errorf("without the authority: exit %d, %s", code, said)
	}
	t.Setenv(passwordVariable, "wrong-secret")
	code, said := ask("--brokers", servers.KafkaSASL(t), "--sasl", "PLAIN", "--user", servers.KafkaUser)
	if code != exitFailed || !strings.Contains(said, "SASL_AUTHENTICATION_FAILED") || strings.Contains(said, "wrong-secret") {
		t.Errorf("with a wrong password: exit %d, %s", code, said)
	}
}
