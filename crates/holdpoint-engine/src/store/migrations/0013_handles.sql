-- Where callers find their graphs again, and what providers need to go on with them. References and attachments are sealed.
CREATE TABLE execution_state_handles (
    tenant_id    TEXT   NOT NULL,
    state_key    TEXT   NOT NULL,
    run_id       TEXT   NOT NULL,
    graph        TEXT   NOT NULL,
    -- Of what it was started with: the same start again is the same start.
    start_digest TEXT   NOT NULL,
    provider_ref TEXT,
    locked_by    TEXT,
    locked_until BIGINT,
    created_ms   BIGINT NOT NULL,
    expires_ms   BIGINT NOT NULL,
    -- Since when nothing is left to do over there.
    settled_ms   BIGINT,
    PRIMARY KEY (tenant_id, state_key),
    CHECK ((locked_by IS NULL) = (locked_until IS NULL))
) {clustered};

CREATE UNIQUE INDEX execution_state_handles_by_run ON execution_state_handles (tenant_id, run_id);
CREATE INDEX execution_state_handles_by_expiry ON execution_state_handles (expires_ms);

-- What is too large to be read at every look.
CREATE TABLE execution_state_attachments (
    tenant_id TEXT NOT NULL,
    state_key TEXT NOT NULL,
    slot      TEXT NOT NULL,
    content   TEXT NOT NULL,
    PRIMARY KEY (tenant_id, state_key, slot)
) {clustered};
