-- The service may be running. Nobody shall write between what is copied and what is kept from then on, nor wait for a lock that this waits
-- for the other half of.
LOCK TABLE invoices, charges, refunds IN ACCESS EXCLUSIVE MODE;

-- Which invoices nobody has paid, by status and in the order of lists, while nearly all are paid. An index on the invoices' own status would do, but then
-- a payment would change an indexed column and make new entries in all of the table's indexes, on pages that nothing else touches where
-- there are millions. Kept by triggers, so that no statement forgets it.
CREATE TABLE unpaid_invoices (
    status TEXT COLLATE "C" NOT NULL,
    created_at_ms BIGINT NOT NULL,
    invoice_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (status, created_at_ms, invoice_id)
);
INSERT INTO unpaid_invoices (status, created_at_ms, invoice_id) SELECT status, created_at_ms, id FROM invoices WHERE status <> 'paid';
-- Programs that restore or copy may have another search path, or none.
CREATE FUNCTION keep_unpaid_invoice() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM unpaid_invoices WHERE status = OLD.status AND created_at_ms = OLD.created_at_ms AND invoice_id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        IF NEW.status <> 'paid' THEN
            INSERT INTO unpaid_invoices (status, created_at_ms, invoice_id) VALUES (NEW.status, NEW.created_at_ms, NEW.id)
            ON CONFLICT DO NOTHING;
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER invoices_unpaid_when_new AFTER INSERT ON invoices FOR EACH ROW
    WHEN (NEW.status <> 'paid') EXECUTE FUNCTION keep_unpaid_invoice();
CREATE TRIGGER invoices_unpaid_until_paid AFTER UPDATE OF status ON invoices FOR EACH ROW
    WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION keep_unpaid_invoice();
CREATE TRIGGER invoices_unpaid_while_there AFTER DELETE ON invoices FOR EACH ROW
    WHEN (OLD.status <> 'paid') EXECUTE FUNCTION keep_unpaid_invoice();
CREATE TRIGGER invoices_time_is_frozen BEFORE UPDATE OF id, created_at_ms ON invoices
    FOR EACH ROW EXECUTE FUNCTION refuse_frozen_change();
DROP INDEX invoices_unpaid;

-- A payment's charge is in one of two indexes, so that a verdict makes one entry for the payment and not two.
DROP INDEX charges_of_payment;
DROP INDEX charges_paid_by;
-- One payment pays one charge.
CREATE UNIQUE INDEX charges_paid_by_payment ON charges (provider_payment_id, provider) WHERE status = 'succeeded';
CREATE INDEX charges_tried_by_payment ON charges (provider_payment_id)
    WHERE provider_payment_id IS NOT NULL AND status <> 'succeeded';

-- A refund is looked for by the provider's id alone, too, whatever its status.
CREATE INDEX refunds_by_provider_refund ON refunds (provider_refund_id) WHERE provider_refund_id IS NOT NULL;
