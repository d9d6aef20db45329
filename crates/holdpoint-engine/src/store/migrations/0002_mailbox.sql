-- The whole mailbox: threads with epochs, every field of a dispatch, and the rules of its rows as constraints.
-- Lists of more than two words are written with OR: for IN, SQLite builds a table of them at every insert.
-- {sequence} is a number the database gives to each row in the order of insertion.

-- Threads that were ever queued in or interrupted; any other is at epoch 0. Epochs only grow, so rows stay.
CREATE TABLE threads (
    tenant_id TEXT   NOT NULL,
    thread_id TEXT   NOT NULL,
    epoch     BIGINT NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    PRIMARY KEY (tenant_id, thread_id)
) {clustered};

DROP INDEX dispatches_queued;
DROP INDEX dispatches_claimed;
ALTER TABLE dispatches RENAME TO dispatches_before;

CREATE TABLE dispatches (
    seq            {sequence},
    tenant_id      TEXT   NOT NULL,
    dispatch_id    TEXT   NOT NULL,
    thread_id      TEXT   NOT NULL,
    run_id         TEXT   NOT NULL,
    priority       BIGINT NOT NULL CHECK (priority BETWEEN 0 AND 255),
    dedupe_key     TEXT,
    dispatch_epoch BIGINT NOT NULL CHECK (dispatch_epoch >= 0),
    status         TEXT   NOT NULL,
    available_ms   BIGINT NOT NULL,
    attempt_count  BIGINT NOT NULL CHECK (attempt_count >= 0),
    max_attempts   BIGINT NOT NULL CHECK (max_attempts > 0),
    last_error     TEXT,
    claim_token    TEXT,
    claimed_by     TEXT,
    lease_until_ms BIGINT,
    instance_id    TEXT,
    run_status     TEXT,
    termination    TEXT,
    run_response   TEXT,
    run_error      TEXT,
    completed_ms   BIGINT,
    created_ms     BIGINT NOT NULL,
    updated_ms     BIGINT NOT NULL,
    -- 1 while the run of an ended dispatch may still have to be closed.
    unreconciled   BIGINT NOT NULL DEFAULT 0 CHECK (unreconciled IN (0, 1)),
    CHECK (status = 'queued' OR status = 'claimed' OR status = 'acked' OR status = 'cancelled'
        OR status = 'superseded' OR status = 'dead_letter'),
    CHECK (trim(dispatch_id) <> '' AND trim(thread_id) <> '' AND trim(run_id) <> ''),
    CHECK (attempt_count <= max_attempts),
    CHECK (run_status = 'created' OR run_status = 'running' OR run_status = 'waiting' OR run_status = 'done'),
    CHECK ((status = 'claimed') = (claim_token IS NOT NULL)),
    CHECK ((status = 'claimed') = (claimed_by IS NOT NULL)),
    CHECK ((status = 'claimed') = (lease_until_ms IS NOT NULL)),
    CHECK (trim(claim_token) <> '' AND trim(claimed_by) <> ''),
    CHECK (status <> 'queued' OR (instance_id IS NULL AND run_status IS NULL AND termination IS NULL
        AND run_response IS NULL AND run_error IS NULL AND completed_ms IS NULL)),
    CHECK (status <> 'superseded' OR (instance_id IS NULL AND run_status IS NULL AND termination IS NULL
        AND run_response IS NULL AND run_error IS NULL)),
    CHECK (status IN ('queued', 'claimed') OR completed_ms IS NOT NULL)
);

INSERT INTO dispatches (tenant_id, dispatch_id, thread_id, run_id, priority, dispatch_epoch, status, available_ms,
    attempt_count, max_attempts, last_error, claim_token, claimed_by, lease_until_ms, completed_ms, created_ms, updated_ms)
SELECT tenant_id, dispatch_id, run_id, run_id, 128, 0, status, available_ms, attempt_count, 5, last_error, claim_token,
    claimed_by, lease_until_ms, CASE WHEN status IN ('acked', 'dead_letter') THEN updated_ms END, created_ms, updated_ms
FROM dispatches_before ORDER BY created_ms, dispatch_id;

INSERT INTO threads (tenant_id, thread_id)
SELECT DISTINCT tenant_id, run_id FROM dispatches_before WHERE status IN ('queued', 'claimed');

DROP TABLE dispatches_before;

CREATE UNIQUE INDEX dispatches_by_id ON dispatches (dispatch_id);
CREATE INDEX dispatches_by_thread ON dispatches (tenant_id, thread_id, priority, created_ms, seq);
CREATE UNIQUE INDEX dispatches_live_keys ON dispatches (tenant_id, thread_id, dedupe_key)
    WHERE dedupe_key IS NOT NULL AND status IN ('queued', 'claimed');
CREATE INDEX dispatches_live ON dispatches (tenant_id, thread_id, status, priority, created_ms, seq)
    WHERE status = 'queued' OR status = 'claimed';
CREATE INDEX dispatches_queued ON dispatches (priority, created_ms, seq) WHERE status = 'queued';
CREATE INDEX dispatches_available ON dispatches (available_ms) WHERE status = 'queued';
CREATE INDEX dispatches_leases ON dispatches (lease_until_ms) WHERE status = 'claimed';
CREATE INDEX dispatches_ended ON dispatches (updated_ms) WHERE status <> 'queued' AND status <> 'claimed';
CREATE INDEX dispatches_unreconciled ON dispatches (seq) WHERE unreconciled = 1;

-- Until then somebody is firing the timer; nobody else needs to try.
ALTER TABLE timers ADD COLUMN held_ms BIGINT NOT NULL DEFAULT 0;
