-- The runs above the run of an interrupt, as JSON, beginning with the root. NULL if no run started it. Empty if it is not
-- known: the next start of the engine fills it in, and lets the runs above record the interrupt.

ALTER TABLE pending ADD COLUMN path TEXT;

UPDATE pending SET path = '' WHERE EXISTS (SELECT 1 FROM runs
    WHERE runs.tenant_id = pending.tenant_id AND runs.run_id = pending.run_id AND runs.parent_run_id IS NOT NULL);

CREATE INDEX pending_without_path ON pending (tenant_id, run_id) WHERE path = '';
