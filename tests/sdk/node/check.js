// Stripe's official Node SDK against a running `chargeonce mock-stripe`, whose address is in MOCK_URL.
// SDK_NODE_DIR is the folder whose node_modules has the SDK. The tests share one mock and run one after the other.
'use strict';

const assert = require('node:assert/strict');
const http = require('node:http');
const path = require('node:path');
const { test, beforeEach } = require('node:test');
const { createRequire } = require('node:module');

const loaded = createRequire(path.join(process.env.SDK_NODE_DIR, 'package.json'))('stripe');
const Stripe = loaded.default ?? loaded;

const mock = new URL(process.env.MOCK_URL);
const stripe = new Stripe('sk_test_node', {
  host: mock.hostname,
  port: mock.port,
  protocol: 'http',
  maxNetworkRetries: 2,
  telemetry: false,
});

async function control(name, body, method = body === undefined ? 'GET' : 'POST') {
  const answer = await fetch(new URL(`/_mock/${name}`, mock), {
    method,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
}

const ledger = async () => (await control('ledger')).payments;

const pay = (method = 'pm_card_visa', key = 'order-1', more = {}) =>
  stripe.paymentIntents.create(
    {
      amount: 500,
      currency: 'usd',
      payment_method: method,
      payment_method_types: ['card'],
      confirm: true,
      metadata: { invoice_id: 'inv_1' },
      ...more,
    },
    { idempotencyKey: key },
  );

beforeEach(() => control('reset', {}));

test('a payment is made once and replayed for its key', async () => {
  const [first, second] = [await pay(), await pay()];
  assert.equal(first.status, 'succeeded');
  assert.equal(second.id, first.id);
  assert.equal(second.lastResponse.headers['idempotent-replayed'], 'true');
  assert.deepEqual((await ledger()).map((row) => row.status), ['succeeded']);
});

test('a payment is confirmed later', async () => {
  const made = await stripe.paymentIntents.create({ amount: 500, currency: 'usd', payment_method: 'pm_card_visa' });
  assert.equal(made.status, 'requires_confirmation');
  const paid = await stripe.paymentIntents.confirm(made.id, { expand: ['latest_charge'] });
  assert.equal(paid.status, 'succeeded');
  assert.equal(paid.latest_charge.outcome.type, 'authorized');
});

test('declines are card errors with their codes', async () => {
  const table = [
    ['pm_card_visa_chargeDeclined', 'card_declined', 'generic_decline'],
    ['pm_card_visa_chargeDeclinedInsufficientFunds', 'card_declined', 'insufficient_funds'],
    ['pm_card_visa_chargeDeclinedStolenCard', 'card_declined', 'stolen_card'],
    ['pm_card_chargeDeclinedIncorrectCvc', 'incorrect_cvc', undefined],
  ];
  for (const [method, code, declineCode] of table) {
    await assert.rejects(pay(method, method), (error) => {
      assert.ok(error instanceof Stripe.errors.StripeCardError, method);
      assert.deepEqual([error.statusCode, error.code], [402, code], method);
      assert.equal(error.raw.decline_code, declineCode, method);
      return true;
    });
  }
});

test('a key with other parameters is an idempotency error', async () => {
  await pay();
  await assert.rejects(pay('pm_card_visa', 'order-1', { amount: 600 }), Stripe.errors.StripeIdempotencyError);
  assert.equal((await ledger()).length, 1);
});

test('a lost answer is retried by the SDK and paid once', async () => {
  await control('faults', { fault: 'drop_after' });
  assert.equal((await pay()).status, 'succeeded');
  assert.deepEqual((await ledger()).map((row) => row.status), ['succeeded']);
  const seen = (await control('requests')).requests;
  assert.deepEqual(seen.map((row) => row.fault), ['drop_after', null]);
});

test('lists are paged to their end', async () => {
  const made = [];
  for (let number = 0; number < 7; number += 1) made.unshift((await pay('pm_card_visa', `order-${number}`)).id);
  const listed = [];
  for await (const intent of stripe.paymentIntents.list({ limit: 3 })) listed.push(intent.id);
  assert.deepEqual(listed, made);
});

test('a refund gives back no more than was taken', async () => {
  const paid = await pay();
  const refund = await stripe.refunds.create({ payment_intent: paid.id });
  assert.deepEqual([refund.status, refund.amount], ['succeeded', 500]);
  await assert.rejects(stripe.refunds.create({ payment_intent: paid.id }), { code: 'charge_already_refunded' });
});

test('the SDK verifies a delivered event', async (t) => {
  const secret = 'whsec_node_check';
  const arrived = [];
  let enough;
  const all = new Promise((resolve) => { enough = resolve; });
  const server = http.createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      response.end();
      arrived.push([Buffer.concat(parts), request.headers['stripe-signature']]);
      if (arrived.length === 3) enough();
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    await control('webhooks', undefined, 'DELETE');
    server.closeAllConnections();
    server.close();
  });
  await control('webhooks', { url: `http://127.0.0.1:${server.address().port}/`, secrets: [secret] });

  const paid = await pay();
  await all;
  const events = arrived.map(([body, signature]) => stripe.webhooks.constructEvent(body, signature, secret));
  assert.deepEqual(events.map((event) => event.type).sort(), [
    'charge.succeeded',
    'payment_intent.created',
    'payment_intent.succeeded',
  ]);
  const event = events.find((one) => one.type === 'payment_intent.succeeded');
  assert.equal(event.data.object.id, paid.id);
  assert.equal(event.request.idempotency_key, 'order-1');
  const [body, signature] = arrived[0];
  assert.throws(
    () => stripe.webhooks.constructEvent(`${body} `, signature, secret),
    Stripe.errors.StripeSignatureVerificationError,
  );
});
