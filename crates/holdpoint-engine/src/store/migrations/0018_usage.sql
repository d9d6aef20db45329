-- Open runs and stored bytes of each tenant, as sums over a few rows: each writer of a process adds to a row of its own.
-- And what lists show of definitions, so that they need not read them. Adds two tables.

CREATE TABLE tenant_usage (
    tenant_id   TEXT   NOT NULL,
    shard       BIGINT NOT NULL,
    open_runs   BIGINT NOT NULL,
    event_bytes BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, shard)
) {clustered};

INSERT INTO tenant_usage (tenant_id, shard, open_runs, event_bytes)
    SELECT tenant_id, -1, COUNT(*), 0 FROM runs
    WHERE status <> 'completed' AND status <> 'failed' AND status <> 'cancelled' GROUP BY tenant_id;
INSERT INTO tenant_usage (tenant_id, shard, open_runs, event_bytes)
    SELECT tenant_id, -2, 0, SUM(OCTET_LENGTH(events)) FROM events GROUP BY tenant_id;

-- The latest revision of each definition. The first list fills in the names of those from before.
CREATE TABLE workflow_summaries (
    tenant_id   TEXT   NOT NULL,
    workflow_id TEXT   NOT NULL,
    revision    BIGINT NOT NULL,
    name        TEXT,
    version     TEXT,
    created_ms  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, workflow_id)
) {clustered};

INSERT INTO workflow_summaries (tenant_id, workflow_id, revision, created_ms)
    SELECT tenant_id, workflow_id, MAX(revision), MAX(created_ms) FROM workflows GROUP BY tenant_id, workflow_id;
