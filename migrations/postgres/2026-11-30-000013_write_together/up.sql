-- The last word of a statement that writes several rows together: one that wrote only a part of what belongs together is
-- rolled back as a whole.
CREATE FUNCTION refuse_half(of TEXT) RETURNS BOOLEAN LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'only a part of % could be written', of USING ERRCODE = 'restrict_violation';
END $$;

-- Each of these rows is changed once, soon after it was written. With room left on its page the new version stays there; an
-- invoice, of which no indexed column changes, then needs no new entry in any index.
ALTER TABLE invoices SET (fillfactor = 80);
ALTER TABLE idempotency_keys SET (fillfactor = 80);
ALTER TABLE charges SET (fillfactor = 80);
