-- Fewer index entries for each delivery. The attempts of a delivery and the uniqueness of an attempt share one index.
-- The retention of attempts follows their order of writing, and the next due time is read from the queue of each webhook.

DROP INDEX deliveries_due;
DROP INDEX delivery_attempts_by_id;
DROP INDEX delivery_attempts_by_delivery;
DROP INDEX delivery_attempts_by_time;

CREATE UNIQUE INDEX delivery_attempts_by_delivery ON delivery_attempts (delivery_id, attempt_id);
