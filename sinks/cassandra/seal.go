package cassandra

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
)

// sealedFormat is the first format of the ledger in which the column sum also
// covers the row's other columns. It holds the checksum of the content, then the
// seal. Before, it was the former alone.
const sealedFormat = 2

// sealTag begins what is hashed, so that the hash is of nothing else.
const sealTag = "lockstep ledger 2"

// seal is the checksum of what the row of lane says of its progress: a column that
// was edited by hand no longer fits it. It leaves out claim, epoch, owner and
// applied, which change without a save, and saved_at, which decides nothing.
func (r *ledgerRow) seal(lane laneKey, content []byte) []byte {
	b := appendBytes([]byte(sealTag), []byte(lane.pipeline))
	b = appendBytes(b, []byte(lane.topic))
	for _, n := range []int64{
		int64(lane.partition), r.seq, r.position.Offset, int64(r.position.LeaderEpoch),
		r.highTS, r.gen, int64(r.chunks), int64(r.bytes),
	} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, r.saveClaim[:]...)
	b = append(b, r.position.TopicID[:]...)
	b = appendBytes(b, r.lane)
	sum := sha256.Sum256(appendBytes(b, content))
	return sum[:]
}

// sealed returns the value of the column sum for the row with this content.
func (r *ledgerRow) sealed(lane laneKey, content []byte) []byte {
	return append(bytes.Clone(content), r.seal(lane, content)...)
}

// contentSum is the checksum of the last save's content.
func (r *ledgerRow) contentSum() []byte {
	if r.format < sealedFormat {
		return r.sum
	}
	return r.sum[:min(len(r.sum), sha256.Size)]
}

// checkSeal refuses a row that was edited by hand.
func (r *ledgerRow) checkSeal(lane laneKey) error {
	if r.format < sealedFormat || bytes.Equal(r.sum, r.sealed(lane, r.contentSum())) {
		return nil
	}
	return fmt.Errorf("%w: %s: the ledger row was changed from outside: next_offset (%d), leader_epoch (%d), topic_id (%v), seq (%d), "+
		"high_ts, gen, save_claim, chunks, bytes, lane or sum does not fit the checksum in sum; put back what was there, and move positions by Reset only",
		framework.ErrCorrupt, lane, r.position.Offset, r.position.LeaderEpoch, r.position.TopicID, r.seq)
}

// noContent is the checksum of a save without writes.
var noContent = blobSum(nil)

// freshGen returns the generation of the state of a lane that claim creates. It is
// as random as the claim: a row that was removed and made again must not find the
// state that its predecessor has left.
func freshGen(claim gocql.UUID) int64 {
	// Halved twice, so that resets can count on from it.
	return int64(binary.BigEndian.Uint64(claim[:8]) >> 2)
}
