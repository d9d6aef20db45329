-- The tokens that models have used: in each thread, and of each tenant on each UTC day, as sums over the rows of
-- writers. Tokens from before are not counted. Adds two tables.

CREATE TABLE thread_tokens (
    tenant_id TEXT   NOT NULL,
    thread_id TEXT   NOT NULL,
    tokens    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, thread_id)
) {clustered};

CREATE TABLE tenant_tokens (
    tenant_id TEXT   NOT NULL,
    day       BIGINT NOT NULL,
    shard     BIGINT NOT NULL,
    tokens    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day, shard)
) {clustered};
