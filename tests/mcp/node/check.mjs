// The official TypeScript client of MCP against the service: over HTTP and over standard input and output.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { SERVICE_URL, MOCK_URL, CHARGEONCE_BIN, MCP_NODE_DIR } = process.env;
const require = createRequire(pathToFileURL(join(MCP_NODE_DIR, "node_modules", "-")));
const sdk = (path) => require(`@modelcontextprotocol/sdk/${path}`);
const { Client } = sdk("client/index.js");
const { StreamableHTTPClientTransport } = sdk("client/streamableHttp.js");
const { StdioClientTransport } = sdk("client/stdio.js");

async function rest(base, path, body) {
  const options = body && { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const response = await fetch(base + path, options);
  assert(response.ok, `${path}: ${response.status}`);
  const text = await response.text();
  return text && JSON.parse(text);
}

async function invoice(invoiceId, more = {}) {
  await rest(SERVICE_URL, "/v1/invoices", { id: invoiceId, customerId: "cus_1", amountCents: 1250, currency: "usd", ...more });
  return { invoiceId };
}

async function timesPaid(invoiceId) {
  const { payments } = await rest(MOCK_URL, "/_mock/ledger");
  return payments.filter((payment) => payment.invoiceId === invoiceId && payment.status === "succeeded").length;
}

async function check(way, client) {
  const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
  const { tools } = await client.listTools();
  assert.deepEqual(
    tools.map((tool) => tool.name),
    ["charge_customer", "get_invoice", "list_open_invoices", "get_charge_status"],
  );
  assert.equal(tools[0].annotations.idempotentHint, true);

  // The client holds each structured result against the tool's output schema by itself.
  const once = await invoice(`${way}-once`);
  const first = await call("charge_customer", once);
  const again = await call("charge_customer", once);
  assert.equal(first.structuredContent.customerCharged, "yes");
  assert.deepEqual(again.structuredContent, first.structuredContent);
  assert.equal(await timesPaid(`${way}-once`), 1);

  assert.equal((await call("get_invoice", once)).structuredContent.status, "paid");
  assert.equal((await call("get_charge_status", once)).structuredContent.customerCharged, "yes");
  await invoice(`${way}-open`, { customerId: `cus_${way}` });
  const page = await call("list_open_invoices", { customerId: `cus_${way}`, limit: 5 });
  assert.deepEqual(page.structuredContent.data.map((found) => found.id), [`${way}-open`]);

  const poor = await invoice(`${way}-poor`, { paymentMethodId: "pm_card_visa_chargeDeclinedInsufficientFunds" });
  const declined = await call("charge_customer", poor);
  assert.equal(declined.isError, true);
  assert.equal(declined.structuredContent.customerCharged, "no");
  assert.match(declined.content[0].text, /insufficient_funds/);

  const wrong = await call("charge_customer", { ...once, amountCents: 1 });
  assert.equal(wrong.isError, true);
  assert.match(wrong.content[0].text, /Leave it out/);
  await assert.rejects(call("refund_customer", once), /charge_customer/);

  // The client gives up (and cancels) while the provider works; the call is made again.
  const slow = await invoice(`${way}-slow`);
  await rest(MOCK_URL, "/_mock/faults", { key: `charge:${way}-slow`, fault: "delay", ms: 3000 });
  await assert.rejects(call("charge_customer", slow, { timeout: 300 }), /timed out/i);
  assert.equal((await call("charge_customer", slow)).structuredContent.customerCharged, "yes");
  assert.equal(await timesPaid(`${way}-slow`), 1);

  const many = await invoice(`${way}-many`);
  const answers = await Promise.all(Array.from({ length: 9 }, () => call("charge_customer", many)));
  for (const answer of answers) assert.deepEqual(answer.structuredContent, answers[0].structuredContent);
  assert.equal(await timesPaid(`${way}-many`), 1);
}

const transports = {
  http: new StreamableHTTPClientTransport(new URL(`${SERVICE_URL}/mcp`)),
  stdio: new StdioClientTransport({ command: CHARGEONCE_BIN, args: ["mcp", "--url", SERVICE_URL] }),
};
for (const [way, transport] of Object.entries(transports)) {
  const client = new Client({ name: "chargeonce-check", version: "1.0.0" });
  await client.connect(transport);
  await check(`ts-${way}`, client);
  await client.close();
  console.log(`${way}: fine`);
}
