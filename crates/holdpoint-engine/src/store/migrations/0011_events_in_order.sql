-- The log in the order in which it is written, with an index from runs to rows. As a tree of runs, a full page had to be split
-- for almost every answer to an old question. PostgreSQL keeps tables like this anyway.
{sqlite:
ALTER TABLE events RENAME TO events_before;

CREATE TABLE events (
    tenant_id TEXT   NOT NULL,
    run_id    TEXT   NOT NULL,
    seq       BIGINT NOT NULL CHECK (seq >= 0),
    at_ms     BIGINT NOT NULL,
    events    TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq)
);

INSERT INTO events (tenant_id, run_id, seq, at_ms, events)
SELECT tenant_id, run_id, seq, at_ms, events FROM events_before ORDER BY tenant_id, run_id, seq;

DROP TABLE events_before;
:}
