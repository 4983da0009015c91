DROP TABLE charges;
DROP TABLE idempotency_keys;
DROP TABLE invoices;
DROP TABLE installation;
