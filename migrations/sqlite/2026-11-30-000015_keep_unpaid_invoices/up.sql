-- Which invoices nobody has paid, by status and in the order of lists, while nearly all are paid. Kept by triggers, so that no statement forgets it. (On
-- PostgreSQL it makes a payment cheaper than an index on the invoices' own status does.)
CREATE TABLE unpaid_invoices (
    status TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    invoice_id TEXT NOT NULL,
    PRIMARY KEY (status, created_at_ms, invoice_id)
) WITHOUT ROWID;
INSERT INTO unpaid_invoices (status, created_at_ms, invoice_id) SELECT status, created_at_ms, id FROM invoices WHERE status <> 'paid';
CREATE TRIGGER invoices_unpaid_when_new AFTER INSERT ON invoices WHEN NEW.status <> 'paid'
BEGIN INSERT INTO unpaid_invoices (status, created_at_ms, invoice_id) VALUES (NEW.status, NEW.created_at_ms, NEW.id) ON CONFLICT DO NOTHING; END;
CREATE TRIGGER invoices_unpaid_until_paid AFTER UPDATE OF status ON invoices WHEN NEW.status <> OLD.status
BEGIN
    DELETE FROM unpaid_invoices WHERE status = OLD.status AND created_at_ms = OLD.created_at_ms AND invoice_id = OLD.id;
    INSERT INTO unpaid_invoices (status, created_at_ms, invoice_id) SELECT NEW.status, NEW.created_at_ms, NEW.id WHERE NEW.status <> 'paid';
END;
CREATE TRIGGER invoices_unpaid_while_there AFTER DELETE ON invoices WHEN OLD.status <> 'paid'
BEGIN DELETE FROM unpaid_invoices WHERE status = OLD.status AND created_at_ms = OLD.created_at_ms AND invoice_id = OLD.id; END;
CREATE TRIGGER invoices_time_is_frozen BEFORE UPDATE OF id, created_at_ms ON invoices
BEGIN SELECT RAISE(ABORT, 'frozen columns of invoices never change'); END;
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
