-- The thread whose runs are the turns of a handle: a new turn continues the outside state of the last one. NULL if the
-- handle belongs to one node of one run.
ALTER TABLE execution_state_handles ADD COLUMN thread TEXT;
-- The time at which a caller ended the conversation. It takes no further turns.
ALTER TABLE execution_state_handles ADD COLUMN closed_ms BIGINT;

-- A graph that was started with a state key has its own run as thread.
UPDATE execution_state_handles SET thread = run_id WHERE start_digest <> '';
-- A graph that a front end started has the thread of the front end.
UPDATE execution_state_handles SET thread = (SELECT substr(r.scope_id, 8) FROM runs r
        WHERE r.tenant_id = execution_state_handles.tenant_id AND r.run_id = execution_state_handles.run_id)
    WHERE start_digest = '' AND EXISTS (SELECT 1 FROM runs r
        WHERE r.tenant_id = execution_state_handles.tenant_id AND r.run_id = execution_state_handles.run_id
        AND r.workflow_id = execution_state_handles.graph AND substr(r.scope_id, 1, 7) = 'thread:');

CREATE INDEX execution_state_handles_by_thread ON execution_state_handles (tenant_id, thread, created_ms)
    WHERE thread IS NOT NULL;
