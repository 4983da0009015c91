DROP FUNCTION refuse_half(TEXT);
ALTER TABLE invoices RESET (fillfactor);
ALTER TABLE idempotency_keys RESET (fillfactor);
ALTER TABLE charges RESET (fillfactor);
