package cassandra

import (
	"fmt"

	"github.com/gocql/gocql"
)

// Consistency is the one knob for how many replicas must agree. It is used for
// everything the sink reads and writes, since mixing the two would allow two
// owners, or outputs that a failover loses. The zero value is [Global].
type Consistency struct{ dc string }

// Global agrees across all data centres: SERIAL and QUORUM. It is the default.
func Global() Consistency { return Consistency{} }

// Local agrees within one data centre: LOCAL_SERIAL and LOCAL_QUORUM. Every
// process of a pipeline must name the same one, and only connects to its nodes.
func Local(dc string) Consistency { return Consistency{dc: dc} }

// DC returns the data centre of a [Local] consistency, else "".
func (c Consistency) DC() string { return c.dc }

// String returns the scope that is stored beside a pipeline's topics: "global"
// or "local:" and the data centre.
func (c Consistency) String() string {
	if c.dc == "" {
		return "global"
	}
	return fmt.Sprintf("local:%s", c.dc)
}

// quorum is for commits, stage, apply and state.
func (c Consistency) quorum() gocql.Consistency {
	if c.dc == "" {
		return gocql.Quorum
	}
	return gocql.LocalQuorum
}

// serial is for the Paxos phase of conditional statements.
func (c Consistency) serial() gocql.SerialConsistency {
	if c.dc == "" {
		return gocql.Serial
	}
	return gocql.LocalSerial
}

// serialRead is for reads that must see every committed conditional statement.
// The driver takes it as an ordinary consistency; its SerialConsistency does
// nothing on a SELECT.
func (c Consistency) serialRead() gocql.Consistency { return gocql.Consistency(c.serial()) }

// monitor is for reads that must not disturb running lanes.
func (c Consistency) monitor() gocql.Consistency {
	if c.dc == "" {
		return gocql.Quorum
	}
	return gocql.LocalOne
}
