DROP TABLE refund_evidence;
DROP TABLE refunds;
ALTER TABLE charges DROP COLUMN refunded_cents;
