-- The owner of a webhook: the principal and the key that created or last resumed it. Null for webhooks that were stored
-- before this migration; they depend on no key.

ALTER TABLE webhooks ADD COLUMN owner_principal TEXT;
ALTER TABLE webhooks ADD COLUMN owner_key TEXT;
ALTER TABLE webhooks ADD COLUMN owner_lineage TEXT;

-- The reason for the present state. Null for active webhooks.
ALTER TABLE webhooks ADD COLUMN reason TEXT;

-- The secret before the last rotation, sealed, for as long as deliveries are signed with it, too.
ALTER TABLE webhooks ADD COLUMN old_secret TEXT;
ALTER TABLE webhooks ADD COLUMN old_fingerprint TEXT;
ALTER TABLE webhooks ADD COLUMN old_until_ms BIGINT;
CREATE INDEX webhooks_old_secrets ON webhooks (old_until_ms) WHERE old_until_ms IS NOT NULL;
