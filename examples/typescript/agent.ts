// An agent that charges invoices, in the three situations in which agents repeat themselves.
//
//     npm ci && npm start                     the service at http://127.0.0.1:3000
//
// It is given the tools in two ways: as definitions from GET /v1/tools, with the REST API behind them, and as an MCP server.
// The model is a script, so that nothing but the service is needed. README.md says how to put a real one in its place.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const SERVICE = process.env.CHARGEONCE_URL ?? "http://127.0.0.1:3000";
const PATIENCE_MS = 60_000;

// --- The tools, in two ways ----------------------------------------------------------------------------------------------

type Arguments = Record<string, string>;
type Definition = { name: string; description?: string; input_schema: unknown };
type Outcome = { content: string; isError: boolean };

interface Tools {
  definitions: Definition[];
  call(name: string, args: Arguments, limitMs: number): Promise<Outcome>;
}

/** One call of the REST API: its status and its JSON. */
async function rest(method: string, path: string, body?: unknown, limitMs = PATIENCE_MS) {
  const response = await fetch(SERVICE + path, {
    method,
    // With "wait", a call that meets a charge that runs already waits for its result.
    headers: { "Content-Type": "application/json", Prefer: "wait=25" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(limitMs),
  });
  return { status: response.status, body: (await response.json()) as any };
}

/** Definitions from the service, each call a call of its REST API. */
async function restTools(): Promise<Tools> {
  const send = (name: string, args: Arguments, limitMs: number) => {
    const invoice = `/v1/invoices/${args.invoiceId}`;
    switch (name) {
      case "charge_customer":
        return rest("POST", "/v1/charges", args, limitMs);
      case "get_invoice":
        return rest("GET", invoice, undefined, limitMs);
      case "get_charge_status":
        return rest("GET", `${invoice}/charge-status`, undefined, limitMs);
      default:
        return rest("GET", `/v1/invoices?${new URLSearchParams({ status: "open", ...args })}`, undefined, limitMs);
    }
  };
  return {
    definitions: (await rest("GET", "/v1/tools?format=anthropic")).body.tools,
    async call(name, args, limitMs) {
      const { status, body } = await send(name, args, limitMs);
      return { content: JSON.stringify(body), isError: status >= 400 && body.code !== "charge_in_progress" };
    },
  };
}

/** The service as an MCP server. */
async function mcpTools(client: Client): Promise<Tools> {
  const { tools } = await client.listTools();
  return {
    definitions: tools.map(({ name, description, inputSchema }) => ({ name, description, input_schema: inputSchema })),
    async call(name, args, limitMs) {
      const result = await client.callTool({ name, arguments: args }, undefined, { timeout: limitMs });
      const blocks = result.content as { text: string }[];
      return { content: blocks.map((block) => block.text).join("\n"), isError: result.isError === true };
    },
  };
}

// --- The agent -----------------------------------------------------------------------------------------------------------

type ToolUse = { type: "tool_use"; id: string; name: string; input: Arguments };
type ToolResult = { type: "tool_result"; tool_use_id: string; content: string; is_error: boolean };
type Reply = (ToolUse | { type: "text"; text: string })[];
type Message = { role: "user"; content: string | ToolResult[] } | { role: "assistant"; content: Reply };
type Model = (messages: Message[], tools: Definition[]) => Promise<Reply>;

/**
 * The loop: ask the model, make the calls that it wants, tell it what came of them, until it wants no more.
 * The messages have the form of Anthropic's Messages API.
 */
async function run(model: Model, tools: Tools, messages: Message[], limitMs = PATIENCE_MS): Promise<string> {
  for (;;) {
    const reply = await model(messages, tools.definitions);
    messages.push({ role: "assistant", content: reply });
    const calls = reply.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return reply.map((block) => (block.type === "text" ? block.text : "")).join("");
    const results: ToolResult[] = [];
    for (const call of calls) {
      let outcome: Outcome;
      try {
        outcome = await tools.call(call.name, call.input, limitMs);
      } catch (error) {
        // Both a fetch and an MCP call that take too long end in an error; whatever it was, nobody knows what was done.
        outcome = { content: `The tool did not answer: ${error}. It may or may not have been done.`, isError: true };
        limitMs = PATIENCE_MS;
      }
      console.log(`    ${call.name}(${JSON.stringify(call.input)}) -> ${outcome.content.split("\n")[0].slice(0, 110)}`);
      results.push({ type: "tool_result", tool_use_id: call.id, content: outcome.content, is_error: outcome.isError });
    }
    messages.push({ role: "user", content: results });
  }
}

/** Stands in for a model: it charges the invoice once each time it is asked to, and again while the outcome is not known. */
function script(invoiceId: string): Model {
  return async (messages, definitions) => {
    assert(definitions.some((tool) => tool.name === "charge_customer"));
    const { content } = messages[messages.length - 1] as { content: string | ToolResult[] };
    const told = typeof content === "string" ? content : content[0].content;
    if (typeof content === "string" || told.includes("did not answer") || told.includes('"unknown"')) {
      return [{ type: "tool_use", id: `toolu_${randomUUID()}`, name: "charge_customer", input: { invoiceId } }];
    }
    return [{ type: "text", text: told.includes('"yes"') ? "Paid." : "Not paid." }];
  };
}

// --- The three situations ------------------------------------------------------------------------------------------------

type Situation = (model: Model, tools: Tools, request: string) => Promise<string>;

const situations: Record<string, Situation> = {
  /** The charge takes longer than the agent's patience; the model calls the tool again. */
  timeoutAndRepeat: (model, tools, request) => run(model, tools, [{ role: "user", content: request }], 300),

  /** The context is compacted, and what is left of it does not say that the charge was made. */
  async forgotten(model, tools, request) {
    await run(model, tools, [{ role: "user", content: request }]);
    return run(model, tools, [{ role: "user", content: `Summary of the conversation so far: ${request}` }]);
  },

  /** It was done, and the user says "try again" all the same. */
  async tryAgain(model, tools, request) {
    const messages: Message[] = [{ role: "user", content: request }];
    await run(model, tools, messages);
    messages.push({ role: "user", content: "I see nothing on my side. Try again." });
    return run(model, tools, messages);
  },
};

async function play(way: string, tools: Tools) {
  for (const [name, situation] of Object.entries(situations)) {
    const id = `ts-${way}-${name}-${randomUUID().slice(0, 8)}`;
    const created = await rest("POST", "/v1/invoices", { id, customerId: "cus_1", amountCents: 1250, currency: "usd" });
    assert.equal(created.status, 201);
    console.log(`  ${name}`);
    const said = await situation(script(id), tools, `Please charge invoice ${id}.`);
    const status = (await rest("GET", `/v1/invoices/${id}/charge-status`)).body;
    const attempts = status.attempts.map((charge: { status: string }) => charge.status);
    assert.deepEqual([said, status.customerCharged, attempts], ["Paid.", "yes", ["succeeded"]]);
    console.log(`    the agent: ${said} Charges of ${id}: ${attempts.length}`);
  }
}

console.log("Tools over REST");
await play("rest", await restTools());
console.log("Tools over MCP");
const client = new Client({ name: "chargeonce-agent-example", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(`${SERVICE}/mcp`)));
await play("mcp", await mcpTools(client));
await client.close();
