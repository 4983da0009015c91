DROP TABLE provider_events;
DROP TABLE charge_evidence;
DROP INDEX charges_paid_by;
DROP INDEX charges_of_payment;
DROP INDEX keys_in_progress;
ALTER TABLE idempotency_keys DROP COLUMN unanswered_since_ms;
ALTER TABLE idempotency_keys DROP COLUMN recover_after_ms;
ALTER TABLE idempotency_keys DROP COLUMN idle;
