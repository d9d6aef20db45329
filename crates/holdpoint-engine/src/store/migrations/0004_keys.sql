-- Keys may end by themselves, and test keys are kept apart from live ones. Touches `tenants` and `keys` only.

ALTER TABLE keys ADD COLUMN expires_ms BIGINT;
ALTER TABLE keys ADD COLUMN test BIGINT NOT NULL DEFAULT 0 CHECK (test IN (0, 1));

-- What a tenant holds is for trying things out (1) or for real (0). The first key decides; until then it is open.
ALTER TABLE tenants ADD COLUMN test BIGINT CHECK (test IN (0, 1));
UPDATE tenants SET test = 0 WHERE tenant_id IN (SELECT tenant_id FROM keys);
