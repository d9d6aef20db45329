-- The runs above the run of an interrupt, as JSON, beginning with the root. NULL if no run started it.

ALTER TABLE pending ADD COLUMN path TEXT;
