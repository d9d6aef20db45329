-- {clustered} becomes WITHOUT ROWID on SQLite and nothing elsewhere: these tables are read in key order.

CREATE TABLE tenants (
    tenant_id  TEXT   NOT NULL PRIMARY KEY,
    created_ms BIGINT NOT NULL
);

CREATE TABLE keys (
    key_id     TEXT   NOT NULL PRIMARY KEY,
    key_hash   TEXT   NOT NULL UNIQUE,
    tenant_id  TEXT   NOT NULL REFERENCES tenants (tenant_id),
    principal  TEXT   NOT NULL,
    roles      TEXT   NOT NULL,
    scopes     TEXT   NOT NULL,
    created_ms BIGINT NOT NULL,
    revoked_ms BIGINT
);

CREATE INDEX keys_by_tenant ON keys (tenant_id, created_ms);

CREATE TABLE workflows (
    tenant_id   TEXT   NOT NULL REFERENCES tenants (tenant_id),
    workflow_id TEXT   NOT NULL,
    revision    BIGINT NOT NULL,
    definition  TEXT   NOT NULL,
    created_ms  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, workflow_id, revision)
) {clustered};

-- One row for each run: what lists need, written from the fold, and the sequence number that guards every change.
CREATE TABLE runs (
    tenant_id   TEXT   NOT NULL,
    run_id      TEXT   NOT NULL,
    seq         BIGINT NOT NULL CHECK (seq > 0),
    status      TEXT   NOT NULL,
    workflow_id TEXT   NOT NULL,
    created_ms  BIGINT NOT NULL,
    updated_ms  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, run_id)
) {clustered};

-- The truth. A row holds the events of one commit, as a JSON array; seq is the number of its first event.
CREATE TABLE events (
    tenant_id TEXT   NOT NULL,
    run_id    TEXT   NOT NULL,
    seq       BIGINT NOT NULL CHECK (seq >= 0),
    at_ms     BIGINT NOT NULL,
    events    TEXT   NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq)
) {clustered};

-- Interrupts that are open now, in the order people see them. Closed ones live in the events.
CREATE TABLE pending (
    tenant_id    TEXT   NOT NULL,
    requested_ms BIGINT NOT NULL,
    run_id       TEXT   NOT NULL,
    interrupt_id BIGINT NOT NULL,
    workflow_id  TEXT   NOT NULL,
    node_id      TEXT   NOT NULL,
    kind         TEXT   NOT NULL,
    key          TEXT   NOT NULL,
    title        TEXT   NOT NULL,
    expires_ms   BIGINT,
    PRIMARY KEY (tenant_id, requested_ms, run_id, interrupt_id)
) {clustered};

CREATE TABLE timers (
    due_ms    BIGINT NOT NULL,
    tenant_id TEXT   NOT NULL,
    run_id    TEXT   NOT NULL,
    timer     TEXT   NOT NULL,
    PRIMARY KEY (due_ms, tenant_id, run_id, timer)
) {clustered};

-- One activation of a run each. Claimed rows carry token, consumer and lease; all others carry none.
CREATE TABLE dispatches (
    dispatch_id    TEXT   NOT NULL PRIMARY KEY,
    tenant_id      TEXT   NOT NULL,
    run_id         TEXT   NOT NULL,
    status         TEXT   NOT NULL CHECK (status IN ('queued', 'claimed', 'acked', 'dead_letter')),
    available_ms   BIGINT NOT NULL,
    attempt_count  BIGINT NOT NULL DEFAULT 0,
    claim_token    TEXT,
    claimed_by     TEXT,
    lease_until_ms BIGINT,
    last_error     TEXT,
    created_ms     BIGINT NOT NULL,
    updated_ms     BIGINT NOT NULL,
    CHECK ((status = 'claimed') = (claim_token IS NOT NULL)),
    CHECK ((status = 'claimed') = (claimed_by IS NOT NULL)),
    CHECK ((status = 'claimed') = (lease_until_ms IS NOT NULL))
) {clustered};

CREATE INDEX dispatches_queued ON dispatches (available_ms, created_ms) WHERE status = 'queued';
CREATE INDEX dispatches_claimed ON dispatches (lease_until_ms) WHERE status = 'claimed';
