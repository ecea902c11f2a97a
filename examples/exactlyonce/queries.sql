-- Questions to ask while the example runs, for SQLite:
--   go run ./examples/exactlyonce/cmd/streaming --sink sqlite://exactlyonce.db
--   sqlite3 -box exactlyonce.db < examples/exactlyonce/queries.sql

-- How many events are saved?
SELECT count(*) AS events FROM events;

-- What is the last event of each partition?
SELECT topic, partition, max("offset") AS last_offset
FROM events GROUP BY topic, partition;

-- Where does each partition continue? Right behind its last event once the last save is applied (STATE in `lockstep positions`).
SELECT pipeline, topic, partition, next_offset, owner
FROM lockstep_lane ORDER BY pipeline, topic, partition;

-- How many alerts has a source had in each minute? One row a partition is kept; the total is their sum.
SELECT substr(ts, 1, 16) AS minute, sum(event_count) AS alerts
FROM alerts WHERE source = 'sensor-07.plant-3.example'
GROUP BY ts ORDER BY ts;

-- Which minutes were the worst?
SELECT source, substr(ts, 1, 16) AS minute, sum(event_count) AS alerts
FROM alerts GROUP BY source, ts
ORDER BY alerts DESC, minute, source LIMIT 10;
