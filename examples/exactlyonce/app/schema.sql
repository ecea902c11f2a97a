-- The example's tables in SQLite. `streaming` and the demo create them.

CREATE TABLE IF NOT EXISTS events (
    topic     TEXT    NOT NULL,
    partition INTEGER NOT NULL,
    "offset"  INTEGER NOT NULL,
    id        INTEGER NOT NULL,
    ts        TEXT    NOT NULL,  -- UTC
    source    TEXT    NOT NULL,
    client    TEXT    NOT NULL,
    health    INTEGER NOT NULL,
    PRIMARY KEY (topic, partition, "offset")
) WITHOUT ROWID;

-- One count a Kafka partition: the total of a source and minute is their sum.
CREATE TABLE IF NOT EXISTS alerts (
    source      TEXT    NOT NULL,
    ts          TEXT    NOT NULL,  -- UTC, the start of the minute
    topic       TEXT    NOT NULL,
    partition   INTEGER NOT NULL,
    event_count INTEGER NOT NULL,
    PRIMARY KEY (source, ts, topic, partition)
) WITHOUT ROWID;
