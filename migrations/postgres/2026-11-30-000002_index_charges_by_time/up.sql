-- The audit reads charges in the order in which they were made, page by page, from a moment on.
CREATE INDEX IF NOT EXISTS charges_by_time ON charges (created_at_ms, id);
