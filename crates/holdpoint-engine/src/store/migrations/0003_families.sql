-- What a run belongs to, and what callers were told under a key of theirs.

-- What the run works on, and the run that started it.
ALTER TABLE runs ADD COLUMN scope_id TEXT;
ALTER TABLE runs ADD COLUMN parent_run_id TEXT;

CREATE INDEX runs_by_scope ON runs (tenant_id, scope_id, run_id) WHERE scope_id IS NOT NULL;
CREATE INDEX runs_by_parent ON runs (tenant_id, parent_run_id, run_id) WHERE parent_run_id IS NOT NULL;

-- Whoever wants to be alone with a scope changes its row: that is the lock between nodes. Old rows can go.
CREATE TABLE scopes (
    tenant_id TEXT   NOT NULL,
    scope_id  TEXT   NOT NULL,
    used_ms   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, scope_id)
) {clustered};

CREATE TABLE run_tags (
    tenant_id TEXT NOT NULL,
    tag       TEXT NOT NULL,
    run_id    TEXT NOT NULL,
    PRIMARY KEY (tenant_id, tag, run_id)
) {clustered};

-- What was answered to a request that carried a key, written with what the request did. Keys and bodies are hashes.
CREATE TABLE receipts (
    tenant_id  TEXT   NOT NULL,
    operation  TEXT   NOT NULL,
    key_hash   TEXT   NOT NULL,
    body_hash  TEXT   NOT NULL,
    status     BIGINT NOT NULL,
    response   TEXT   NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, operation, key_hash)
) {clustered};

CREATE INDEX receipts_by_expiry ON receipts (expires_ms);
