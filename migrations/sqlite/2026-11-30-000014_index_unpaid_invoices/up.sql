-- Which invoices are open is asked for while nearly all are paid: without an index of its own that reads all of them. The void ones,
-- which are few, go with them.
CREATE INDEX IF NOT EXISTS invoices_unpaid ON invoices (created_at_ms, id) WHERE status <> 'paid';
