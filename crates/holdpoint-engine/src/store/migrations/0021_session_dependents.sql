-- The sessions that a key, a session or a sign-in link depends on: it was made over them, and it ends when one of them is
-- revoked. Ids, with a space before and after each. Null for what was made with a key, and for rows that were stored
-- before this migration.

ALTER TABLE keys ADD COLUMN depends_on TEXT;
ALTER TABLE sessions ADD COLUMN depends_on TEXT;
ALTER TABLE session_links ADD COLUMN depends_on TEXT;
CREATE INDEX keys_by_dependence ON keys (depends_on) WHERE depends_on IS NOT NULL;
CREATE INDEX sessions_by_dependence ON sessions (depends_on) WHERE depends_on IS NOT NULL;
CREATE INDEX session_links_by_dependence ON session_links (depends_on) WHERE depends_on IS NOT NULL;
