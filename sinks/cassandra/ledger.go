package cassandra

import (
	"errors"
	"fmt"
	"time"

	"github.com/gocql/gocql"

	"github.com/lockstep-stream/lockstep/framework"
	"github.com/lockstep-stream/lockstep/offsetstore"
)

// ledgerFormat is the version of the ledger row and of the blob it points to. A
// row of a later version is never touched; one of an earlier version is read, and
// becomes one of this version with the next save.
const (
	ledgerFormat = 2
	oldestFormat = 1
)

// laneKey names one lane: the primary key of its ledger row.
type laneKey struct {
	pipeline  string
	topic     string
	partition int32
}

// String is how messages name the lane.
func (k laneKey) String() string {
	return fmt.Sprintf("pipeline %q: %s/%d", k.pipeline, k.topic, k.partition)
}

// validate refuses names that Cassandra cannot hold in a key.
func (k laneKey) validate() error {
	if err := validateName("pipeline", k.pipeline); err != nil {
		return err
	}
	if err := validateName("topic", k.topic); err != nil {
		return err
	}
	if k.partition < 0 {
		return fmt.Errorf("%w: %s: the partition is negative", framework.ErrConfig, k)
	}
	return nil
}

// ledgerRow is the ledger row of a lane: who owns it, and its last save.
type ledgerRow struct {
	format    int
	epoch     int64      // counts the claims
	claim     gocql.UUID // the owner's token; only its statements take effect
	owner     string
	seq       int64 // number of the last save
	applied   int64 // number of the last save known to be applied
	position  offsetstore.Position
	highTS    int64      // highest write timestamp used so far, microseconds
	gen       int64      // generation of the lane's state
	saveClaim gocql.UUID // token under which the last save was made
	chunks    int        // stage rows of the last save; 0: body holds it
	bytes     int        // encoded size of the last save
	sum       []byte     // its checksum
	body      []byte
	lane      []byte // the lane's own data, opaque
	savedAt   time.Time
}

// pending reports whether the last save may still have to be applied.
func (r *ledgerRow) pending() bool { return r.applied < r.seq }

// stageKey is where the chunks of the last save are, if it has any.
func (r *ledgerRow) stageKey(lane laneKey) stageKey { return stageKey{lane, r.saveClaim, r.seq} }

// progress is what the row says of where to continue.
func (r *ledgerRow) progress() framework.Progress {
	return framework.Progress{Position: r.position, Lane: nilIfEmpty(r.lane)}
}

// check refuses a row that no version of this code could have written.
func (r *ledgerRow) check(lane laneKey) error {
	err := r.checkNumbers()
	switch {
	case errors.Is(err, framework.ErrCorrupt):
		return fmt.Errorf("%w; the row was changed or removed from outside: restore it and the tables from one backup, or begin anew under another pipeline name", err)
	case err != nil:
		return err
	}
	return r.checkSeal(lane)
}

func (r *ledgerRow) checkNumbers() error {
	switch {
	case r.format > ledgerFormat:
		return fmt.Errorf("%w: ledger format %d was written by a newer version of the program, this one knows %d",
			framework.ErrConfig, r.format, ledgerFormat)
	case r.format < oldestFormat:
		return fmt.Errorf("%w: ledger format %d", framework.ErrCorrupt, r.format)
	case r.epoch < 1 || r.seq < 0 || r.applied < 0 || r.applied > r.seq:
		return fmt.Errorf("%w: ledger says epoch %d, save %d, applied %d", framework.ErrCorrupt, r.epoch, r.seq, r.applied)
	case r.position.Offset < 0:
		return fmt.Errorf("%w: ledger says position %d (-1: next_offset, leader_epoch or topic_id is null)", framework.ErrCorrupt, r.position.Offset)
	case r.claim == gocql.UUID{}:
		return fmt.Errorf("%w: ledger says no claim", framework.ErrCorrupt)
	}
	return nil
}

// column names of the ledger, besides its key.
const (
	colFormat      = "format"
	colEpoch       = "epoch"
	colClaim       = "claim"
	colOwner       = "owner"
	colSeq         = "seq"
	colApplied     = "applied"
	colNextOffset  = "next_offset"
	colLeaderEpoch = "leader_epoch"
	colTopicID     = "topic_id"
	colHighTS      = "high_ts"
	colGen         = "gen"
	colSaveClaim   = "save_claim"
	colChunks      = "chunks"
	colBytes       = "bytes"
	colSum         = "sum"
	colBody        = "body"
	colLane        = "lane"
	colSavedAt     = "saved_at"
)

// setting is one column with a value: an assignment, or a condition.
type setting struct {
	column string
	value  any
}

// conditional is one conditional statement on a ledger row, the only kind of
// statement that ever changes one. It never writes null and never deletes.
// It is fixed when made: sending it again sends the same bytes.
type conditional struct {
	lane   laneKey
	create bool // INSERT … IF NOT EXISTS; otherwise UPDATE … IF when
	set    []setting
	when   []setting
}

// createStatement makes a lane's ledger row, owned by claim.
func createStatement(lane laneKey, claim gocql.UUID, owner string, start offsetstore.Position) conditional {
	row := ledgerRow{position: start, gen: freshGen(claim)}
	return conditional{lane: lane, create: true, set: []setting{
		{colFormat, ledgerFormat}, {colEpoch, int64(1)}, {colClaim, claim}, {colOwner, owner},
		{colSeq, int64(0)}, {colApplied, int64(0)},
		{colNextOffset, start.Offset}, {colLeaderEpoch, start.LeaderEpoch}, {colTopicID, gocql.UUID(start.TopicID)},
		{colHighTS, int64(0)}, {colGen, row.gen}, {colSum, row.sealed(lane, noContent)},
	}}
}

// claimStatement takes the lane over from the owner that row shows.
func claimStatement(lane laneKey, row *ledgerRow, claim gocql.UUID, owner string) conditional {
	return conditional{
		lane: lane,
		set:  []setting{{colEpoch, row.epoch + 1}, {colClaim, claim}, {colOwner, owner}},
		when: []setting{{colClaim, row.claim}, {colEpoch, row.epoch}},
	}
}

// markStatement says that save seq, made or redone under claim, is applied.
func markStatement(lane laneKey, claim gocql.UUID, seq int64) conditional {
	return conditional{
		lane: lane,
		set:  []setting{{colApplied, seq}},
		when: []setting{{colClaim, claim}, {colSeq, seq}},
	}
}

// releaseStatement gives the lane up after save seq was applied: next is a token
// that nobody holds.
func releaseStatement(lane laneKey, claim, next gocql.UUID, seq int64) conditional {
	return conditional{
		lane: lane,
		set:  []setting{{colApplied, seq}, {colClaim, next}, {colOwner, ""}},
		when: []setting{{colClaim, claim}, {colSeq, seq}},
	}
}

// resetStatement moves the position of a lane whose last save is applied, under a
// token that nobody holds. It has a save's number, so that a save which is still on
// its way cannot be taken for one that came after it.
func resetStatement(lane laneKey, row *ledgerRow, token gocql.UUID, r framework.Reset) conditional {
	next := ledgerRow{
		seq: row.seq + 1, saveClaim: token, position: r.To, highTS: row.highTS, gen: row.gen, lane: row.lane,
	}
	if r.DropState {
		next.gen++
	}
	return conditional{
		lane: lane,
		set: []setting{
			{colFormat, ledgerFormat}, {colEpoch, row.epoch + 1}, {colClaim, token}, {colOwner, ""},
			{colSaveClaim, token}, {colSeq, next.seq}, {colApplied, next.seq},
			{colNextOffset, r.To.Offset}, {colLeaderEpoch, r.To.LeaderEpoch}, {colTopicID, gocql.UUID(r.To.TopicID)},
			{colGen, next.gen}, {colChunks, 0}, {colBytes, 0}, {colSum, next.sealed(lane, noContent)},
		},
		when: append([]setting{{colClaim, row.claim}, {colSeq, row.seq}, {colApplied, row.seq}}, positionIs(row.position)...),
	}
}

// positionIs are the conditions under which nobody has moved the position by hand.
func positionIs(p offsetstore.Position) []setting {
	return []setting{{colNextOffset, p.Offset}, {colLeaderEpoch, p.LeaderEpoch}, {colTopicID, gocql.UUID(p.TopicID)}}
}

// notNull makes bytes that the driver sends as an empty value, not as null.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func nilIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// refusedForGood reports whether Cassandra has refused a statement for what it
// is: then it had no effect and never will. After any other error it may have
// taken effect, or may yet.
func refusedForGood(err error) bool {
	var re gocql.RequestError
	if !errors.As(err, &re) {
		return false
	}
	switch re.Code() {
	case gocql.ErrCodeSyntax, gocql.ErrCodeInvalid, gocql.ErrCodeUnauthorized:
		return true
	}
	return false
}

// invalid reports whether Cassandra found a statement's values unacceptable, too
// many bytes among them (error 0x2200).
func invalid(err error) bool {
	var re gocql.RequestError
	return errors.As(err, &re) && re.Code() == gocql.ErrCodeInvalid
}

// storeError names what an error of the database means for a caller that waited
// as long as it is allowed to.
func storeError(err error) error {
	if refusedForGood(err) {
		return fmt.Errorf("%w: Cassandra refuses a statement of the sink: %w; "+
			"check the permissions, and that the sink's tables are as Migrate makes them", framework.ErrConfig, err)
	}
	return fmt.Errorf("%w: Cassandra: %w", framework.ErrUnavailable, err)
}
