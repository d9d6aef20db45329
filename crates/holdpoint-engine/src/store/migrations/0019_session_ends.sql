-- The latest end of a session, however often it is used, and of the session that a sign-in link makes. Null for rows
-- that were stored before this migration: such a session ends seven days after it began, and such a link sets no end.

ALTER TABLE sessions ADD COLUMN ends_ms BIGINT;
ALTER TABLE session_links ADD COLUMN session_ends_ms BIGINT;
