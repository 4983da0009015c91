"""An agent that charges invoices, in the three situations in which agents repeat themselves.

    python agent.py                          the service at http://127.0.0.1:3000

It is given the tools in two ways: as definitions from GET /v1/tools, with the REST API behind them, and as an MCP server.
The model is a script, so that nothing but the service is needed. README.md says how to put a real one in its place.
"""

import asyncio
import json
import os
import urllib.error
import urllib.parse
import urllib.request
import uuid

from mcp import Client, MCPError

SERVICE = os.environ.get("CHARGEONCE_URL", "http://127.0.0.1:3000")


# --- The tools, in two ways ---------------------------------------------------------------------------------------------


def rest(method, path, body=None, limit=60.0):
    """One call of the REST API: its status and its JSON."""
    data = None if body is None else json.dumps(body).encode()
    # With "wait", a call that meets a charge that runs already waits for its result.
    headers = {"Content-Type": "application/json", "Prefer": "wait=25"}
    request = urllib.request.Request(SERVICE + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=limit) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as problem:
        return problem.code, json.load(problem)


class RestTools:
    """Definitions from the service, each call a call of its REST API."""

    def __init__(self):
        self.definitions = rest("GET", "/v1/tools?format=anthropic")[1]["tools"]

    async def call(self, name, arguments, limit):
        status, body = await asyncio.to_thread(self.send, name, arguments, limit)
        return json.dumps(body), status >= 400 and body["code"] != "charge_in_progress"

    def send(self, name, arguments, limit):
        invoice = f"/v1/invoices/{arguments.get('invoiceId')}"
        if name == "charge_customer":
            return rest("POST", "/v1/charges", arguments, limit)
        if name == "get_invoice":
            return rest("GET", invoice, limit=limit)
        if name == "get_charge_status":
            return rest("GET", f"{invoice}/charge-status", limit=limit)
        query = urllib.parse.urlencode({"status": "open", **arguments})
        return rest("GET", f"/v1/invoices?{query}", limit=limit)


class McpTools:
    """The service as an MCP server."""

    def __init__(self, client, tools):
        self.client = client
        self.definitions = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools
        ]

    async def call(self, name, arguments, limit):
        try:
            result = await self.client.call_tool(name, arguments, read_timeout_seconds=limit)
        except MCPError as error:
            raise TimeoutError from error
        return "\n".join(block.text for block in result.content), bool(result.is_error)


# --- The agent ----------------------------------------------------------------------------------------------------------


async def run(model, tools, messages, limit=60.0):
    """The loop: ask the model, make the calls that it wants, tell it what came of them, until it wants no more.

    The messages have the form of Anthropic's Messages API.
    """
    while True:
        reply = model(messages, tools.definitions)
        messages.append({"role": "assistant", "content": reply})
        calls = [block for block in reply if block["type"] == "tool_use"]
        if not calls:
            return reply[-1]["text"]
        results = []
        for call in calls:
            try:
                content, is_error = await tools.call(call["name"], call["input"], limit)
            except TimeoutError:
                content, is_error = "The tool did not answer in time. It may or may not have been done.", True
                limit = 60.0
            print(f"    {call['name']}({json.dumps(call['input'])}) -> {content.splitlines()[0][:110]}")
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": content, "is_error": is_error}
            results.append(result)
        messages.append({"role": "user", "content": results})


class Script:
    """Stands in for a model: it charges the invoice once each time it is asked to, and again while the outcome is not known."""

    def __init__(self, invoice_id):
        self.call = {"name": "charge_customer", "input": {"invoiceId": invoice_id}}

    def __call__(self, messages, definitions):
        assert any(tool["name"] == self.call["name"] for tool in definitions)
        content = messages[-1]["content"]
        told = content if isinstance(content, str) else content[0]["content"]
        if isinstance(content, str) or "did not answer" in told or '"unknown"' in told:
            return [{"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", **self.call}]
        return [{"type": "text", "text": "Paid." if '"yes"' in told else "Not paid."}]


# --- The three situations -----------------------------------------------------------------------------------------------


async def timeout_and_repeat(model, tools, request):
    """The charge takes longer than the agent's patience; the model calls the tool again."""
    return await run(model, tools, [request], limit=0.3)


async def forgotten(model, tools, request):
    """The context is compacted, and what is left of it does not say that the charge was made."""
    await run(model, tools, [request])
    summary = "Summary of the conversation so far: " + request["content"]
    return await run(model, tools, [{"role": "user", "content": summary}])


async def try_again(model, tools, request):
    """It was done, and the user says "try again" all the same."""
    messages = [request]
    await run(model, tools, messages)
    messages.append({"role": "user", "content": "I see nothing on my side. Try again."})
    return await run(model, tools, messages)


async def play(way, tools):
    for situation in (timeout_and_repeat, forgotten, try_again):
        invoice_id = f"py-{way}-{situation.__name__}-{uuid.uuid4().hex[:8]}".replace("_", "-")
        invoice = {"id": invoice_id, "customerId": "cus_1", "amountCents": 1250, "currency": "usd"}
        assert rest("POST", "/v1/invoices", invoice)[0] == 201
        print(f"  {situation.__name__}: {situation.__doc__}")
        request = {"role": "user", "content": f"Please charge invoice {invoice_id}."}
        said = await situation(Script(invoice_id), tools, request)
        status = rest("GET", f"/v1/invoices/{invoice_id}/charge-status")[1]
        attempts = [charge["status"] for charge in status["attempts"]]
        assert (said, status["customerCharged"], attempts) == ("Paid.", "yes", ["succeeded"]), (said, status)
        print(f"    the agent: {said} Charges of {invoice_id}: {len(attempts)}")


async def main():
    print("Tools over REST")
    await play("rest", RestTools())
    print("Tools over MCP")
    async with Client(f"{SERVICE}/mcp") as client:
        listed = await client.list_tools()
        await play("mcp", McpTools(client, listed.tools))


if __name__ == "__main__":
    asyncio.run(main())
