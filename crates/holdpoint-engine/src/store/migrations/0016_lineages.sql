-- The lineage of a key: the id of the first key in a chain of rotations. Null for keys that were stored before this
-- migration; their lineage is their own id.

ALTER TABLE keys ADD COLUMN lineage TEXT;
CREATE INDEX keys_by_lineage ON keys (lineage);
