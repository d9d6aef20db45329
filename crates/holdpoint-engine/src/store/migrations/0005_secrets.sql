-- What signed links are signed with. All nodes and all tenants share these. Adds a table, touches no other.

CREATE TABLE secrets (
    kid TEXT NOT NULL PRIMARY KEY,
    secret TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    -- Since when nothing is signed with it any more; what it has signed is still good.
    retired_ms BIGINT,
    -- 1 for the one that signs, else nothing: so there is at most one, whoever writes at the same time.
    signs BIGINT UNIQUE CHECK (signs = 1),
    CHECK ((signs IS NULL) <> (retired_ms IS NULL))
);
