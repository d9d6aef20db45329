-- Who acts with a key may belong to groups, which gates can name among their approvers. Touches `keys` only.

ALTER TABLE keys ADD COLUMN group_names TEXT NOT NULL DEFAULT '';
