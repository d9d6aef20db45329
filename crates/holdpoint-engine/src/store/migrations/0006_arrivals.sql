-- Events from outside, and what waits for them. A topic is a hash of the type of an event and one member of its
-- correlation; an event that has no member has a topic of its own.

-- One row for each topic of an open interrupt that waits for an event. `topics` are all of them, in order.
CREATE TABLE awaited (
    tenant_id    TEXT   NOT NULL,
    topic        TEXT   NOT NULL,
    run_id       TEXT   NOT NULL,
    interrupt_id BIGINT NOT NULL,
    topics       TEXT   NOT NULL,
    -- When somebody must look whether the event is there already; on one row of an interrupt, until it was done.
    look_ms      BIGINT,
    PRIMARY KEY (tenant_id, topic, run_id, interrupt_id)
) {clustered};

CREATE INDEX awaited_by_look ON awaited (look_ms) WHERE look_ms IS NOT NULL;

-- What waited before there was this table has one row without a topic; whoever looks makes the others.
INSERT INTO awaited (tenant_id, topic, run_id, interrupt_id, topics, look_ms)
    SELECT tenant_id, '', run_id, interrupt_id, '', 0 FROM pending WHERE kind = 'external-event';

-- Events that arrived: `open` until it was looked who waits for them, then `kept` for who comes later, `used` or
-- `ignored`.
CREATE TABLE arrivals (
    tenant_id     TEXT   NOT NULL,
    event_id      TEXT   NOT NULL,
    body_hash     TEXT   NOT NULL,
    -- As long as somebody may still get it.
    event         TEXT   NOT NULL,
    sent_by       TEXT   NOT NULL,
    -- The one of its topics under which it is found, as long as it can be.
    topic         TEXT,
    topics        TEXT   NOT NULL,
    state         TEXT   NOT NULL CHECK (state IN ('open', 'kept', 'used', 'ignored')),
    -- What its sender was told.
    outcome       TEXT,
    received_ms   BIGINT NOT NULL,
    kept_until_ms BIGINT NOT NULL,
    forget_ms     BIGINT NOT NULL,
    -- When somebody must finish what its sender began; until it was done.
    look_ms       BIGINT,
    PRIMARY KEY (tenant_id, event_id),
    CHECK ((state = 'open') = (outcome IS NULL)),
    CHECK ((state IN ('open', 'kept')) = (topic IS NOT NULL))
) {clustered};

CREATE INDEX arrivals_by_topic ON arrivals (tenant_id, topic, received_ms, event_id) WHERE topic IS NOT NULL;
CREATE INDEX arrivals_by_look ON arrivals (look_ms) WHERE look_ms IS NOT NULL;
CREATE INDEX arrivals_by_end ON arrivals (forget_ms);
