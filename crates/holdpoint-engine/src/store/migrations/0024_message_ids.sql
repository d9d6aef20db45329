-- The ids of messages to agents, which clients choose: a message that is sent again is found in a thread of any length.
-- Null for other messages, and for messages of earlier versions whose id has an escape sequence in JSON.

ALTER TABLE messages ADD COLUMN input_id TEXT;
UPDATE messages SET input_id = CASE
        WHEN substr(message, 1, 7) <> '{"id":"' OR {find}(message, '","role":"') < 8 THEN NULL
        WHEN {find}(substr(message, 8, {find}(message, '","role":"') - 8), '\') > 0 THEN NULL
        WHEN substr(message, {find}(message, '","role":"') + 10, 5) IN ('user"', 'syste')
            THEN substr(message, 8, {find}(message, '","role":"') - 8)
    END
    WHERE {find}(message, '","role":"user"') > 0 OR {find}(message, '","role":"system"') > 0;
CREATE INDEX messages_by_input ON messages (tenant_id, thread_id, input_id) WHERE input_id IS NOT NULL;
