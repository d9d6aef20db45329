-- Grants that clients have used for effects outside of Holdpoint. Uses inside a run are in its events. Adds a table
-- and a column.

CREATE TABLE grant_uses (
    tenant_id TEXT   NOT NULL,
    -- The run and the number of its interrupt, as clients write them.
    grant_id  TEXT   NOT NULL,
    -- SHA-256 of the client's Idempotency-Key: the same request again is the same use.
    key_hash  TEXT   NOT NULL,
    used_by   TEXT   NOT NULL,
    used_ms   BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, grant_id)
) {clustered};

-- 1 if the registration has checked that no loop repeats an effect with one grant. Revisions from before keep running.
ALTER TABLE workflows ADD COLUMN loops_checked BIGINT NOT NULL DEFAULT 0;
