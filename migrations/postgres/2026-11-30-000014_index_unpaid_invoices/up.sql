-- Which invoices are open is asked for while nearly all are paid: without an index of its own that reads all of them. The void ones,
-- which are few, go with them. It has a price: an invoice that is paid now needs new entries in its other indexes, which is felt
-- where there are millions (docs/performance.md).
CREATE INDEX IF NOT EXISTS invoices_unpaid ON invoices (created_at_ms, id) WHERE status <> 'paid';
