DROP INDEX invoices_unpaid;
