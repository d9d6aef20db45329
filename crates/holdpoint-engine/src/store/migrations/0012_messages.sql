-- What was said in threads that agents work in. Runs of a thread come one after another, and their ids sort by time: so this
-- is the order in which it was said.
CREATE TABLE messages (
    tenant_id TEXT   NOT NULL,
    thread_id TEXT   NOT NULL,
    run_id    TEXT   NOT NULL,
    seq       BIGINT NOT NULL CHECK (seq >= 0),
    at_ms     BIGINT NOT NULL,
    message   TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, thread_id, run_id, seq)
) {clustered};
