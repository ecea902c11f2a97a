package kafka

import (
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Mechanism is the closed set of ways to log in.
type Mechanism uint8

// The mechanisms. The zero value is not one of them, so that the choice is
// always made in the open.
const (
	// Plain sends the password as it is: only over TLS.
	Plain Mechanism = iota + 1
	// ScramSHA256 proves the password without sending it.
	ScramSHA256
	// ScramSHA512 is ScramSHA256 with the longer hash.
	ScramSHA512
)

// String returns the name Kafka has for the mechanism.
func (m Mechanism) String() string {
	switch m {
	case Plain:
		return "PLAIN"
	case ScramSHA256:
		return "SCRAM-SHA-256"
	case ScramSHA512:
		return "SCRAM-SHA-512"
	default:
		return "unknown"
	}
}

// ParseMechanism returns the mechanism that has the name, as Kafka writes it.
func ParseMechanism(name string) (Mechanism, error) {
	for m := Plain; m <= ScramSHA512; m++ {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, configError("SASL.Mechanism %q is not known; use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", name)
}

// SASL is a login. It never appears in logs or errors beyond the mechanism and
// the user.
type SASL struct {
	Mechanism Mechanism
	User      string
	Password  string
}

func (s *SASL) validate() error {
	switch {
	case s == nil:
		return nil
	case s.Mechanism < Plain || s.Mechanism > ScramSHA512:
		return configError("SASL.Mechanism is %d; use Plain, ScramSHA256 or ScramSHA512", s.Mechanism)
	case s.User == "":
		return configError("SASL.User is \"\"; give the name to log in with")
	case s.Password == "":
		return configError("SASL.Password is \"\"; give the password of %q", s.User)
	}
	return nil
}

func (s *SASL) mechanism() sasl.Mechanism {
	switch s.Mechanism {
	case ScramSHA256:
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism()
	case ScramSHA512:
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism()
	default:
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()
	}
}

// String hides the password from anything that prints a Config.
func (s SASL) String() string { return s.Mechanism.String() + " as " + s.User }

// GoString hides the password from %#v.
func (s SASL) GoString() string { return s.String() }
