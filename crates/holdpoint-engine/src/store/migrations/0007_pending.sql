-- What waits, as people look for it: who may decide, how far the votes are, what approvers asked. Touches `pending` only.

ALTER TABLE pending ADD COLUMN digest TEXT;
-- How many must agree, and who has spoken so far, as JSON; nothing where one is enough.
ALTER TABLE pending ADD COLUMN required BIGINT NOT NULL DEFAULT 1;
ALTER TABLE pending ADD COLUMN votes TEXT;
-- 1 where the gate names people, and what it says about them as JSON.
ALTER TABLE pending ADD COLUMN restricted BIGINT NOT NULL DEFAULT 0 CHECK (restricted IN (0, 1));
ALTER TABLE pending ADD COLUMN people TEXT;
ALTER TABLE pending ADD COLUMN barred TEXT;
-- The tags of the run, as JSON; nothing where it has none.
ALTER TABLE pending ADD COLUMN tags TEXT;
-- Questions of approvers without an answer; when somebody should be asked to answer them, and how often that was tried.
ALTER TABLE pending ADD COLUMN open_asks BIGINT NOT NULL DEFAULT 0 CHECK (open_asks >= 0);
ALTER TABLE pending ADD COLUMN ask_due_ms BIGINT;
ALTER TABLE pending ADD COLUMN ask_attempts BIGINT NOT NULL DEFAULT 0;

-- By kind, what is open to anybody apart from what names people: so this also finds what everybody may decide.
CREATE INDEX pending_by_kind ON pending (tenant_id, restricted, kind, requested_ms, run_id, interrupt_id);
CREATE INDEX pending_by_workflow ON pending (tenant_id, workflow_id, requested_ms, run_id, interrupt_id);
CREATE INDEX pending_by_deadline ON pending (tenant_id, expires_ms, run_id, interrupt_id) WHERE expires_ms IS NOT NULL;
CREATE INDEX pending_asking ON pending (ask_due_ms) WHERE ask_due_ms IS NOT NULL;

-- The same rows by whom they are for and by the tags of their runs. What names nobody and has no tag has no row here.
CREATE TABLE pending_facets (
    tenant_id    TEXT   NOT NULL,
    facet        TEXT   NOT NULL,
    requested_ms BIGINT NOT NULL,
    run_id       TEXT   NOT NULL,
    interrupt_id BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, facet, requested_ms, run_id, interrupt_id)
) {clustered};

INSERT INTO pending_facets (tenant_id, facet, requested_ms, run_id, interrupt_id)
SELECT p.tenant_id, 'tag:' || t.tag, p.requested_ms, p.run_id, p.interrupt_id
FROM pending p JOIN run_tags t ON t.tenant_id = p.tenant_id AND t.run_id = p.run_id;
