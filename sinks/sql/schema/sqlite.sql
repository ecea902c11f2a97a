-- What the sql sink keeps in a SQLite database, beside the tables of your own.
-- Migrate runs exactly these statements; they may be run by hand instead, and
-- running them again changes nothing.

-- The format of the tables below, one row. A program that knows another format
-- refuses to work.
CREATE TABLE IF NOT EXISTS lockstep_format (
    version INTEGER NOT NULL
);
INSERT INTO lockstep_format (version)
SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM lockstep_format);

-- What the first start of a topic resolved; never changed afterwards.
CREATE TABLE IF NOT EXISTS lockstep_topic (
    pipeline   TEXT NOT NULL,
    topic      TEXT NOT NULL,
    cluster_id TEXT NOT NULL,
    topic_id   BLOB NOT NULL,  -- 16 bytes; all zero: unknown
    starts     TEXT NOT NULL,  -- JSON object: partition to first offset
    PRIMARY KEY (pipeline, topic)
) WITHOUT ROWID;

-- One row for each partition of a pipeline: where it continues, and who owns it.
CREATE TABLE IF NOT EXISTS lockstep_lane (
    id           INTEGER PRIMARY KEY,
    pipeline     TEXT    NOT NULL,
    topic        TEXT    NOT NULL,
    partition    INTEGER NOT NULL,
    claim        TEXT    NOT NULL,  -- the owner's token; '' after a release
    owner        TEXT    NOT NULL,  -- the owner's name; '' after a release
    saves        INTEGER NOT NULL,  -- how many saves took effect
    next_offset  INTEGER NOT NULL,  -- the next offset to read
    leader_epoch INTEGER NOT NULL,  -- -1: unknown
    topic_id     BLOB    NOT NULL,  -- 16 bytes; all zero: unknown
    lane_data    BLOB,              -- the framework's own
    saved_at     INTEGER,           -- milliseconds since 1970; NULL: never saved
    UNIQUE (pipeline, topic, partition)
);

-- The state of reductions, by lane.
CREATE TABLE IF NOT EXISTS lockstep_state (
    lane_id  INTEGER NOT NULL,
    operator TEXT    NOT NULL,
    win      INTEGER NOT NULL,  -- start of the window, milliseconds; 0: none
    key      BLOB    NOT NULL,
    value    BLOB    NOT NULL,
    PRIMARY KEY (lane_id, operator, win, key)
) WITHOUT ROWID;

-- Records that could not be processed, whole.
CREATE TABLE IF NOT EXISTS lockstep_dead_letter (
    lane_id       INTEGER NOT NULL,
    record_offset INTEGER NOT NULL,
    stage         TEXT    NOT NULL,
    error         TEXT    NOT NULL,
    attempts      INTEGER NOT NULL,
    failed_at     INTEGER NOT NULL,  -- milliseconds since 1970
    record_time   INTEGER NOT NULL,  -- milliseconds since 1970
    key           BLOB,              -- NULL: the record had none
    value         BLOB,              -- NULL: the record was a tombstone
    headers       TEXT    NOT NULL,  -- JSON: [{"key": base64, "value": base64 or null}]
    PRIMARY KEY (lane_id, record_offset)
);
