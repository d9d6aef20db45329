-- Who has signed in with a key, in a browser. A session is its key's: it may what the key may, and ends with it. Adds
-- two tables, touches no other.

CREATE TABLE sessions (
    session_id TEXT   NOT NULL PRIMARY KEY,
    -- SHA-256 of what stands in the cookie.
    token_hash TEXT   NOT NULL UNIQUE,
    key_id     TEXT   NOT NULL REFERENCES keys (key_id),
    tenant_id  TEXT   NOT NULL,
    created_ms BIGINT NOT NULL,
    used_ms    BIGINT NOT NULL,
    -- Moves on while it is used.
    expires_ms BIGINT NOT NULL,
    revoked_ms BIGINT
);

CREATE INDEX sessions_by_key ON sessions (key_id, created_ms);
CREATE INDEX sessions_by_expiry ON sessions (expires_ms);

-- Links that sign in once.
CREATE TABLE session_links (
    token_hash TEXT   NOT NULL PRIMARY KEY,
    key_id     TEXT   NOT NULL REFERENCES keys (key_id),
    expires_ms BIGINT NOT NULL,
    -- The session that came of it: whoever writes it first has used the link up.
    session_id TEXT
);

CREATE INDEX session_links_by_expiry ON session_links (expires_ms);
