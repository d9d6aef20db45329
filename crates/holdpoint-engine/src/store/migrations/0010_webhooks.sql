-- Who is told of what happens, what they are still to be told, and how that went.

CREATE TABLE webhooks (
    tenant_id   TEXT   NOT NULL,
    webhook_id  TEXT   NOT NULL,
    url         TEXT   NOT NULL,
    -- Lists of words as JSON.
    events      TEXT   NOT NULL,
    tags        TEXT   NOT NULL,
    mode        TEXT   NOT NULL CHECK (mode IN ('best-effort', 'durable')),
    ordered     BIGINT NOT NULL CHECK (ordered IN (0, 1)),
    retry       TEXT   NOT NULL,
    -- Sealed; what it is sealed with is not in the database.
    secret      TEXT   NOT NULL,
    fingerprint TEXT   NOT NULL,
    state       TEXT   NOT NULL
        CHECK (state = 'active' OR state = 'paused' OR state = 'failed' OR state = 'dead-lettered'),
    breaker     TEXT   NOT NULL,
    -- Of the last change, drawn anew each time: whoever changes the row says which one it has seen.
    mark        TEXT   NOT NULL,
    created_ms  BIGINT NOT NULL,
    updated_ms  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, webhook_id)
) {clustered};

-- Grows with every change of who is told what; every commit looks at it.
CREATE TABLE webhook_revision (
    place    BIGINT NOT NULL PRIMARY KEY CHECK (place = 1),
    revision BIGINT NOT NULL
);
INSERT INTO webhook_revision (place, revision) VALUES (1, 0);

-- What is to be sent, written in the transaction of the event; and what was sent with best effort, written afterwards.
CREATE TABLE deliveries (
    seq         {sequence},
    delivery_id TEXT   NOT NULL,
    tenant_id   TEXT   NOT NULL,
    webhook_id  TEXT   NOT NULL,
    run_id      TEXT   NOT NULL,
    event_seq   BIGINT NOT NULL,
    event_type  TEXT   NOT NULL,
    -- A callback is for the address that a run was started with; its webhook is a name of its own.
    kind        TEXT   NOT NULL CHECK (kind IN ('event', 'callback')),
    state       TEXT   NOT NULL CHECK (state = 'queued' OR state = 'in-flight' OR state = 'delivered'
        OR state = 'dead-lettered' OR state = 'dropped'),
    ordered     BIGINT NOT NULL CHECK (ordered IN (0, 1)),
    attempt     BIGINT NOT NULL CHECK (attempt >= 0),
    due_ms      BIGINT NOT NULL,
    holder      TEXT,
    lease_ms    BIGINT,
    dedup_key   TEXT   NOT NULL,
    created_ms  BIGINT NOT NULL,
    ended_ms    BIGINT,
    reason      TEXT,
    CHECK ((state = 'in-flight') = (holder IS NOT NULL)),
    CHECK ((state = 'in-flight') = (lease_ms IS NOT NULL)),
    CHECK ((state = 'queued' OR state = 'in-flight') = (ended_ms IS NULL))
);

CREATE UNIQUE INDEX deliveries_by_id ON deliveries (delivery_id);
CREATE INDEX deliveries_by_webhook ON deliveries (webhook_id, seq);
CREATE INDEX deliveries_queued ON deliveries (webhook_id, due_ms, seq) WHERE state = 'queued';
CREATE INDEX deliveries_due ON deliveries (due_ms) WHERE state = 'queued';
CREATE INDEX deliveries_unended ON deliveries (webhook_id, tenant_id, run_id, event_seq) WHERE ended_ms IS NULL;
CREATE INDEX deliveries_leases ON deliveries (lease_ms) WHERE state = 'in-flight';
CREATE INDEX deliveries_ended ON deliveries (ended_ms) WHERE ended_ms IS NOT NULL;

-- Every attempt, and how often none was made. Neither bodies nor headers.
CREATE TABLE delivery_attempts (
    seq         {sequence},
    attempt_id  TEXT   NOT NULL,
    tenant_id   TEXT   NOT NULL,
    webhook_id  TEXT   NOT NULL,
    delivery_id TEXT,
    run_id      TEXT,
    event_seq   BIGINT,
    event_type  TEXT,
    attempt     BIGINT NOT NULL,
    at_ms       BIGINT NOT NULL,
    latency_ms  BIGINT NOT NULL,
    status      BIGINT,
    error       TEXT,
    outcome     TEXT   NOT NULL,
    times       BIGINT NOT NULL
);

CREATE UNIQUE INDEX delivery_attempts_by_id ON delivery_attempts (attempt_id);
CREATE INDEX delivery_attempts_by_webhook ON delivery_attempts (webhook_id, seq);
CREATE INDEX delivery_attempts_by_delivery ON delivery_attempts (delivery_id, seq);
CREATE INDEX delivery_attempts_by_time ON delivery_attempts (at_ms);

-- What became of subscriptions, and why.
CREATE TABLE webhook_log (
    seq        {sequence},
    tenant_id  TEXT   NOT NULL,
    webhook_id TEXT   NOT NULL,
    at_ms      BIGINT NOT NULL,
    from_state TEXT   NOT NULL,
    to_state   TEXT   NOT NULL,
    reason     TEXT   NOT NULL
);

CREATE INDEX webhook_log_by_webhook ON webhook_log (webhook_id, seq);
CREATE INDEX webhook_log_by_time ON webhook_log (at_ms);
