-- The lists by kind and by workflow read from indexes of expressions, so that a row of `pending` does not contain the
-- texts of these indexes. Text columns with a line break between, which no id has: so no planner takes the key of the
-- table for an index that is as good.

DROP INDEX pending_by_kind;
DROP INDEX pending_by_workflow;
ALTER TABLE pending DROP COLUMN kind_lane;
ALTER TABLE pending DROP COLUMN workflow_lane;

CREATE INDEX pending_by_kind ON pending
    ((tenant_id || CASE restricted WHEN 1 THEN '
1
' ELSE '
0
' END || kind), requested_ms, run_id, interrupt_id);
CREATE INDEX pending_by_workflow ON pending ((tenant_id || '
' || workflow_id), requested_ms, run_id, interrupt_id);
