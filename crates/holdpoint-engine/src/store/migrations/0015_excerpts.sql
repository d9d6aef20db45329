-- A line of what is asked, so that a list can show it; nothing for what was asked before. Touches `pending` only.

ALTER TABLE pending ADD COLUMN excerpt TEXT;
