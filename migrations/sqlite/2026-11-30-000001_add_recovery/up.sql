-- Columns that are added to a table carry a default: for the rows that are there, and for replicas of the release before,
-- which still write this table while they are replaced one by one.

-- True once the owner has recorded "no verdict" and works on it no more: then a notice from the provider need not wait for
-- the end of the lease to have the payment looked up.
ALTER TABLE idempotency_keys ADD COLUMN idle BOOLEAN NOT NULL DEFAULT FALSE;
-- The background worker leaves it alone until then. Callers do not wait for it.
ALTER TABLE idempotency_keys ADD COLUMN recover_after_ms BIGINT NOT NULL DEFAULT 0;
-- Since when the provider could not be asked what became of it; NULL while it can, or was not asked.
ALTER TABLE idempotency_keys ADD COLUMN unanswered_since_ms BIGINT;
CREATE INDEX keys_in_progress ON idempotency_keys (lease_expires_at_ms) WHERE status = 'in_progress';
CREATE INDEX charges_of_payment ON charges (provider_payment_id) WHERE provider_payment_id IS NOT NULL;
-- One payment pays one charge.
CREATE UNIQUE INDEX charges_paid_by ON charges (provider, provider_payment_id) WHERE status = 'succeeded';

-- What happened in an attempt that did not go straight to its verdict: what a person needs to judge it.
CREATE TABLE charge_evidence (
    id TEXT PRIMARY KEY,
    charge_id TEXT NOT NULL REFERENCES charges (id),
    at_ms BIGINT NOT NULL,
    what TEXT NOT NULL CHECK (what IN ('taken_over', 'send', 'look_up', 'cancel', 'record', 'notice', 'resolution')),
    detail TEXT NOT NULL
);
CREATE INDEX charge_evidence_of ON charge_evidence (charge_id, id);

-- What the provider told by webhook, each event once. An event only wakes us up: the payment is fetched, so nothing else of
-- it is kept.
CREATE TABLE provider_events (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    payment_id TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    received_at_ms BIGINT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'done')),
    outcome TEXT,
    tries INTEGER NOT NULL,
    next_try_at_ms BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    CHECK ((status = 'done') = (outcome IS NOT NULL))
);
CREATE INDEX provider_events_pending ON provider_events (next_try_at_ms) WHERE status = 'pending';
CREATE INDEX provider_events_received ON provider_events (received_at_ms);
