-- The lineage of a key: the id of the first of the keys that were made from each other by rotation. Null for keys that
-- were stored before; their lineage is their own id.

ALTER TABLE keys ADD COLUMN lineage TEXT;
CREATE INDEX keys_by_lineage ON keys (lineage);
