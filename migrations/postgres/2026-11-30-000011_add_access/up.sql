-- Whose call began the attempt. NULL for rows that are there, for attempts that no call began, and in what replicas of the
-- release before still write while they are replaced.
ALTER TABLE charges ADD COLUMN asked_key TEXT COLLATE "C";
ALTER TABLE charges ADD COLUMN asked_request TEXT;
ALTER TABLE charges ADD COLUMN asked_session TEXT;
-- What a key has spent in a day is summed up before it spends more.
CREATE INDEX charges_asked_by ON charges (asked_key, currency, created_at_ms) WHERE asked_key IS NOT NULL;
CREATE TRIGGER charges_asker_is_frozen BEFORE UPDATE OF asked_key, asked_request, asked_session
    ON charges FOR EACH ROW EXECUTE FUNCTION refuse_frozen_change();

-- A row for each agent's key whose spending is limited: its lock has parallel calls of the key wait for each other.
CREATE TABLE agent_spending (
    key_name TEXT COLLATE "C" PRIMARY KEY,
    updated_at_ms BIGINT NOT NULL
);

-- Finished keys that callers sent in a header are forgotten after a while; natural keys never are.
CREATE INDEX keys_from_headers ON idempotency_keys (updated_at_ms)
    WHERE key >= 'header:' AND key < 'header;' AND status <> 'in_progress';
