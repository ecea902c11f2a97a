-- The example's tables in PostgreSQL. `streaming` and the demo create them.

CREATE TABLE IF NOT EXISTS events (
    topic     TEXT        NOT NULL,
    partition INTEGER     NOT NULL,
    "offset"  BIGINT      NOT NULL,
    id        BIGINT      NOT NULL,
    ts        TIMESTAMPTZ NOT NULL,
    source    TEXT        NOT NULL,
    client    TEXT        NOT NULL,
    health    INTEGER     NOT NULL,
    PRIMARY KEY (topic, partition, "offset")
);

-- One count a Kafka partition: the total of a source and minute is their sum.
CREATE TABLE IF NOT EXISTS alerts (
    source      TEXT        NOT NULL,
    ts          TIMESTAMPTZ NOT NULL,  -- the start of the minute
    topic       TEXT        NOT NULL,
    partition   INTEGER     NOT NULL,
    event_count BIGINT      NOT NULL,
    PRIMARY KEY (source, ts, topic, partition)
);
