-- What was given back of a charge, or still may be: the sum of its refunds that have not failed. A reservation raises it before
-- anything is sent, so that refunds that are made side by side can never exceed the charge.
ALTER TABLE charges ADD COLUMN refunded_cents BIGINT NOT NULL DEFAULT 0
    CHECK (refunded_cents BETWEEN 0 AND amount_cents);

CREATE TABLE refunds (
    id TEXT PRIMARY KEY,
    charge_id TEXT NOT NULL REFERENCES charges (id),
    attempt INTEGER NOT NULL CHECK (attempt > 0),
    idempotency_key TEXT NOT NULL UNIQUE REFERENCES idempotency_keys (key),
    -- A hash of the key that the caller sent in a header, for a part of the charge; NULL for all that was left of it.
    header_key TEXT UNIQUE,
    status TEXT NOT NULL
        CHECK (status IN ('pending', 'processing', 'needs_review', 'succeeded', 'failed', 'returned')),
    amount_cents BIGINT NOT NULL CHECK (amount_cents > 0),
    currency TEXT NOT NULL,
    reason TEXT CHECK (reason IN ('duplicate', 'fraudulent', 'requested_by_customer')),
    provider TEXT NOT NULL,
    -- The exact request, written before its first send; every send of the attempt sends these bytes.
    request_path TEXT NOT NULL,
    request_body TEXT NOT NULL,
    provider_refund_id TEXT,
    failure_kind TEXT CHECK (failure_kind IN ('declined', 'refused', 'canceled', 'never_executed')),
    failure_code TEXT,
    -- The bank's reason, when given.
    failure_reason TEXT,
    failure_message TEXT,
    -- What is known of a refund without a verdict, and what an operator needs to judge it.
    evidence TEXT,
    -- Whose call began the attempt; NULL where none did.
    asked_key TEXT,
    asked_request TEXT,
    asked_session TEXT,
    created_at_ms BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    settled_at_ms BIGINT,
    CHECK ((status IN ('failed', 'returned')) = (failure_kind IS NOT NULL AND failure_code IS NOT NULL)),
    CHECK ((status IN ('succeeded', 'failed', 'returned')) = (settled_at_ms IS NOT NULL)),
    CHECK (status NOT IN ('succeeded', 'returned') OR provider_refund_id IS NOT NULL)
);
-- All that is left of a charge is given back in one attempt at a time, and each of its attempts has a number of its own.
CREATE UNIQUE INDEX refunds_one_live_of_the_rest ON refunds (charge_id)
    WHERE header_key IS NULL AND status NOT IN ('failed', 'returned');
CREATE UNIQUE INDEX refunds_attempts_of_the_rest ON refunds (charge_id, attempt) WHERE header_key IS NULL;
-- One refund at the provider settles one of ours.
CREATE UNIQUE INDEX refunds_given_by ON refunds (provider, provider_refund_id) WHERE status IN ('succeeded', 'returned');
CREATE INDEX refunds_of_charge ON refunds (charge_id, id);
CREATE INDEX refunds_without_verdict ON refunds (updated_at_ms)
    WHERE status IN ('pending', 'processing', 'needs_review');

-- What happened in a refund that did not go straight to its verdict: what a person needs to judge it.
CREATE TABLE refund_evidence (
    id TEXT PRIMARY KEY,
    refund_id TEXT NOT NULL REFERENCES refunds (id),
    at_ms BIGINT NOT NULL,
    what TEXT NOT NULL CHECK (what IN ('taken_over', 'send', 'look_up', 'cancel', 'record', 'notice', 'resolution')),
    detail TEXT NOT NULL
);
CREATE INDEX refund_evidence_of ON refund_evidence (refund_id, id);

-- A verdict is for ever, but for one thing: the bank may send back what had been given.
CREATE TRIGGER refunds_verdict_is_final BEFORE UPDATE OF status ON refunds
    WHEN OLD.status IN ('succeeded', 'failed', 'returned') AND NEW.status IS NOT OLD.status
        AND NOT (OLD.status = 'succeeded' AND NEW.status = 'returned')
BEGIN SELECT RAISE(ABORT, 'the final status of refunds never changes'); END;

-- What was asked of the provider is never rewritten.
CREATE TRIGGER refunds_request_is_frozen BEFORE UPDATE OF
    charge_id, attempt, idempotency_key, header_key, amount_cents, currency, reason, provider, request_path, request_body,
    asked_key, asked_request, asked_session
    ON refunds
BEGIN SELECT RAISE(ABORT, 'frozen columns of refunds never change'); END;
