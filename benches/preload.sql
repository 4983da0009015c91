-- :rows invoices, each charged long ago: the past of a service that has run for years. For measuring on PostgreSQL, on tables that the
-- service has made:
--
--   psql "$DATABASE_URL" -v rows=5000000 -f benches/preload.sql
--
-- Ids begin with their time, as the service's own do, a second apart, and texts are as long as its own.
CREATE TEMPORARY VIEW past AS
SELECT n, 1700000000000 + n * 1000 AS at_ms, lpad(to_hex(1700000000000 + n * 1000), 12, '0') || substr(md5(n::text), 1, 20) AS id
FROM generate_series(1, :rows::bigint) AS n;

INSERT INTO invoices (id, customer_id, amount_cents, currency, metadata, status, revision, created_at_ms, updated_at_ms)
SELECT 'inv_' || id, 'cus_past' || n % 10000, 1999, 'usd', '{}', 'paid', 1, at_ms, at_ms FROM past;

INSERT INTO idempotency_keys (key, operation, status, attempt, fingerprint, lease_token, lease_expires_at_ms, recovery,
    first_sent_at_ms, last_sent_at_ms, takeovers, response_status, response_location, response_body, created_at_ms, updated_at_ms)
SELECT 'charge:inv_' || id, 'charge', 'done', 1, md5(id) || md5(n::text), md5(n::text), at_ms + 600000, 'resend', at_ms, at_ms, 0, 201,
    '/v1/charges/chg_' || id,
    '{"id":"chg_' || id || '","invoiceId":"inv_' || id || '","status":"succeeded","attempt":1,"amountCents":1999,"currency":"usd",'
        '"customerId":"cus_past","paymentMethodId":"pm_card_visa","idempotencyKey":"charge:inv_' || id || '","provider":"mock",'
        '"providerPaymentId":"pi_' || substr(md5(id), 1, 24) || '","failure":null,"customerCharged":"yes","retry":"not_needed",'
        '"createdAt":"2023-11-14T22:13:20.000Z","settledAt":"2023-11-14T22:13:20.000Z"}',
    at_ms, at_ms
FROM past;

INSERT INTO charges (id, invoice_id, attempt, idempotency_key, status, amount_cents, currency, customer_id, payment_method_id,
    invoice_revision, provider, request_path, request_body, provider_payment_id, provider_payment_open, created_at_ms, updated_at_ms,
    settled_at_ms, asked_request)
SELECT 'chg_' || id, 'inv_' || id, 1, 'charge:inv_' || id, 'succeeded', 1999, 'usd', 'cus_past' || n % 10000, 'pm_card_visa', 1, 'mock',
    '/v1/payment_intents',
    'amount=1999&currency=usd&customer=cus_past&payment_method=pm_card_visa&confirm=true&off_session=true'
        '&payment_method_types%5B%5D=card&capture_method=automatic&metadata%5Binvoice_id%5D=inv_' || id
        || '&metadata%5Bcharge_key%5D=charge%3Ainv_' || id || '&metadata%5Battempt%5D=1&metadata%5Binstallation_id%5D=ins_' || md5('past'),
    'pi_' || substr(md5(id), 1, 24), FALSE, at_ms, at_ms, at_ms, 'req_' || id
FROM past;
