-- Times are Unix milliseconds (UTC) and money is in minor units, so that both databases share one schema.
-- SQLite compares text byte by byte, as the PostgreSQL schema does with COLLATE "C".

-- One row: the name under which this database's payments are recognised at the provider.
CREATE TABLE installation (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    id TEXT NOT NULL
);

CREATE TABLE invoices (
    id TEXT PRIMARY KEY,
    customer_id TEXT NOT NULL,
    amount_cents BIGINT NOT NULL CHECK (amount_cents > 0),
    currency TEXT NOT NULL CHECK (length(currency) = 3),
    description TEXT,
    payment_method_id TEXT,
    metadata TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'paid', 'void')),
    -- Counts changes of the payment method; a reservation holds only for the revision that it was made from.
    revision INTEGER NOT NULL,
    created_at_ms BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL
);
CREATE INDEX invoices_newest ON invoices (created_at_ms, id);
CREATE INDEX invoices_of_customer ON invoices (customer_id, created_at_ms, id);

CREATE TABLE idempotency_keys (
    key TEXT PRIMARY KEY,
    operation TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('in_progress', 'done', 'failed')),
    attempt INTEGER NOT NULL CHECK (attempt > 0),
    fingerprint TEXT NOT NULL,
    lease_token TEXT NOT NULL,
    lease_expires_at_ms BIGINT NOT NULL,
    -- How a dead owner's work is finished: by sending the same request again, or only by asking what became of it.
    recovery TEXT NOT NULL CHECK (recovery IN ('resend', 'look_up')),
    first_sent_at_ms BIGINT NOT NULL,
    last_sent_at_ms BIGINT NOT NULL,
    takeovers INTEGER NOT NULL,
    response_status INTEGER,
    response_location TEXT,
    response_body TEXT,
    created_at_ms BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    CHECK ((status = 'in_progress') = (response_status IS NULL)),
    CHECK ((response_status IS NULL) = (response_body IS NULL))
);

CREATE TABLE charges (
    id TEXT PRIMARY KEY,
    invoice_id TEXT NOT NULL REFERENCES invoices (id),
    attempt INTEGER NOT NULL CHECK (attempt > 0),
    idempotency_key TEXT NOT NULL UNIQUE REFERENCES idempotency_keys (key),
    status TEXT NOT NULL CHECK (status IN ('pending', 'processing', 'needs_review', 'succeeded', 'failed')),
    amount_cents BIGINT NOT NULL CHECK (amount_cents > 0),
    currency TEXT NOT NULL,
    customer_id TEXT NOT NULL,
    payment_method_id TEXT,
    invoice_revision INTEGER NOT NULL,
    provider TEXT NOT NULL,
    -- The exact request, written before its first send; every send of the attempt sends these bytes.
    request_path TEXT NOT NULL,
    request_body TEXT NOT NULL,
    provider_payment_id TEXT,
    -- True when the failed attempt left a payment object behind on which the next attempt can be made.
    provider_payment_open BOOLEAN NOT NULL,
    failure_kind TEXT CHECK (failure_kind IN ('declined', 'refused', 'canceled', 'never_executed')),
    failure_code TEXT,
    decline_code TEXT,
    advice_code TEXT,
    failure_message TEXT,
    -- What is known of an attempt without a verdict, and what an operator needs to judge it.
    evidence TEXT,
    created_at_ms BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    settled_at_ms BIGINT,
    UNIQUE (invoice_id, attempt),
    CHECK ((status = 'failed') = (failure_kind IS NOT NULL AND failure_code IS NOT NULL)),
    CHECK ((status IN ('succeeded', 'failed')) = (settled_at_ms IS NOT NULL)),
    CHECK (status <> 'succeeded' OR provider_payment_id IS NOT NULL)
);
-- The promise itself: an invoice has at most one charge that took money or still may.
CREATE UNIQUE INDEX charges_one_live_per_invoice ON charges (invoice_id) WHERE status <> 'failed';
CREATE INDEX charges_without_verdict ON charges (updated_at_ms) WHERE status IN ('pending', 'processing', 'needs_review');

-- A verdict is for ever: a late webhook or a slow worker cannot turn one into another.
CREATE TRIGGER charges_verdict_is_final BEFORE UPDATE OF status ON charges
    WHEN OLD.status IN ('succeeded', 'failed') AND NEW.status IS NOT OLD.status
BEGIN SELECT RAISE(ABORT, 'the final status of charges never changes'); END;
CREATE TRIGGER keys_answer_is_final BEFORE UPDATE OF status, response_status, response_location, response_body
    ON idempotency_keys WHEN OLD.status IN ('done', 'failed')
BEGIN SELECT RAISE(ABORT, 'the final status of idempotency_keys never changes'); END;
CREATE TRIGGER invoices_end_is_final BEFORE UPDATE OF status ON invoices
    WHEN OLD.status IN ('paid', 'void') AND NEW.status IS NOT OLD.status
BEGIN SELECT RAISE(ABORT, 'the final status of invoices never changes'); END;

-- What was asked of the provider is never rewritten, and neither is what an invoice asks for.
CREATE TRIGGER charges_request_is_frozen BEFORE UPDATE OF
    invoice_id, attempt, idempotency_key, amount_cents, currency, customer_id, payment_method_id, invoice_revision, provider,
    request_path, request_body
    ON charges
BEGIN SELECT RAISE(ABORT, 'frozen columns of charges never change'); END;
CREATE TRIGGER invoices_amount_is_frozen BEFORE UPDATE OF customer_id, amount_cents, currency ON invoices
BEGIN SELECT RAISE(ABORT, 'frozen columns of invoices never change'); END;
CREATE TRIGGER keys_content_is_frozen BEFORE UPDATE OF key, operation, attempt, fingerprint ON idempotency_keys
BEGIN SELECT RAISE(ABORT, 'frozen columns of idempotency_keys never change'); END;
