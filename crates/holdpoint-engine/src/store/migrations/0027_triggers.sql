-- Triggers: stored subscriptions whose deliveries start runs. Adds two tables. The timers of triggers and deliveries are
-- rows of `timers` with the id of the trigger or the delivery; changes of state and attempts are rows of `webhook_log`
-- and `delivery_attempts`.

CREATE TABLE triggers (
    tenant_id       TEXT   NOT NULL,
    trigger_id      TEXT   NOT NULL,
    -- The type of the events of an event trigger.
    event_type      TEXT,
    -- The content, as JSON. It does not change.
    spec            TEXT   NOT NULL,
    state           TEXT   NOT NULL CHECK (state = 'active' OR state = 'paused' OR state = 'failed'),
    -- The reason for the state. Null for active triggers.
    reason          TEXT,
    -- The principal and the key that created or last resumed the trigger. Null if it depends on no key.
    owner_principal TEXT,
    owner_key       TEXT,
    owner_lineage   TEXT,
    -- The first instant of a schedule that has no delivery yet.
    next_ms         BIGINT,
    -- A random text that every update replaces. An update requires the text that was read.
    mark            TEXT   NOT NULL,
    created_ms      BIGINT NOT NULL,
    updated_ms      BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, trigger_id)
) {clustered};

CREATE INDEX triggers_by_event ON triggers (tenant_id, event_type, trigger_id) WHERE event_type IS NOT NULL;

-- An occurrence of a trigger: the run that it starts has the id `run_id`.
CREATE TABLE trigger_deliveries (
    tenant_id   TEXT   NOT NULL,
    delivery_id TEXT   NOT NULL,
    trigger_id  TEXT   NOT NULL,
    dedup_key   TEXT   NOT NULL,
    run_id      TEXT   NOT NULL,
    state       TEXT   NOT NULL
        CHECK (state = 'queued' OR state = 'delivered' OR state = 'dead-lettered' OR state = 'dropped'),
    attempt     BIGINT NOT NULL CHECK (attempt >= 0),
    due_ms      BIGINT NOT NULL,
    -- The document that the input mapping reads, as JSON. Empty after a delivery that cannot be requeued.
    occurrence  TEXT   NOT NULL,
    -- The sender of the event.
    sent_by     TEXT,
    error       TEXT,
    created_ms  BIGINT NOT NULL,
    ended_ms    BIGINT,
    PRIMARY KEY (tenant_id, delivery_id),
    CHECK ((state = 'queued') = (ended_ms IS NULL))
) {clustered};

CREATE UNIQUE INDEX trigger_deliveries_by_key ON trigger_deliveries (tenant_id, trigger_id, dedup_key);
CREATE INDEX trigger_deliveries_by_trigger ON trigger_deliveries (tenant_id, trigger_id, delivery_id);
CREATE INDEX trigger_deliveries_delivered ON trigger_deliveries (tenant_id, trigger_id, delivery_id)
    WHERE state = 'delivered';
CREATE INDEX trigger_deliveries_open ON trigger_deliveries (tenant_id, trigger_id) WHERE ended_ms IS NULL;
CREATE INDEX trigger_deliveries_ended ON trigger_deliveries (ended_ms) WHERE ended_ms IS NOT NULL;
