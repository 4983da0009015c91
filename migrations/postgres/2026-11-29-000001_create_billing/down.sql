DROP TABLE charges;
DROP TABLE idempotency_keys;
DROP TABLE invoices;
DROP TABLE installation;
DROP FUNCTION refuse_changed_verdict();
DROP FUNCTION refuse_frozen_change();
DROP FUNCTION clock_ms(BIGINT);
