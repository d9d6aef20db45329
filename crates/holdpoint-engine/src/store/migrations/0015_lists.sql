-- What lists show besides: a line of what is asked, and why a run has failed. Nothing for what was there before.

ALTER TABLE pending ADD COLUMN excerpt TEXT;
ALTER TABLE runs ADD COLUMN error_code TEXT;
