"""The official Python client of MCP against the service: over HTTP and over standard input and output, in the newest
revision and with a handshake."""

import asyncio
import json
import os
import urllib.request

from mcp import Client, MCPError, StdioServerParameters

SERVICE = os.environ["SERVICE_URL"]
MOCK = os.environ["MOCK_URL"]
BINARY = os.environ["CHARGEONCE_BIN"]

TOOLS = ["charge_customer", "get_invoice", "list_open_invoices", "get_charge_status"]


def rest(base, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(base + path, data, headers), timeout=60) as response:
        return json.loads(response.read() or b"null")


def invoice(invoice_id, **more):
    body = {"id": invoice_id, "customerId": "cus_1", "amountCents": 1250, "currency": "usd", **more}
    rest(SERVICE, "/v1/invoices", body)
    return {"invoiceId": invoice_id}


def times_paid(invoice_id):
    payments = rest(MOCK, "/_mock/ledger")["payments"]
    return sum(1 for payment in payments if payment["invoiceId"] == invoice_id and payment["status"] == "succeeded")


async def check(way, client):
    listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == TOOLS, listed
    charging = listed.tools[0].annotations
    assert (charging.read_only_hint, charging.destructive_hint, charging.idempotent_hint) == (False, True, True)

    # The client holds each structured result against the tool's output schema by itself.
    once = invoice(f"{way}-once")
    first = await client.call_tool("charge_customer", once)
    again = await client.call_tool("charge_customer", once)
    assert first.structured_content["customerCharged"] == "yes", first
    assert again.structured_content == first.structured_content
    assert not first.is_error and "once" in first.content[0].text
    assert times_paid(f"{way}-once") == 1

    read = await client.call_tool("get_invoice", once)
    assert read.structured_content["status"] == "paid", read
    status = await client.call_tool("get_charge_status", once)
    assert status.structured_content["customerCharged"] == "yes", status
    invoice(f"{way}-open", customerId=f"cus_{way}")
    page = await client.call_tool("list_open_invoices", {"customerId": f"cus_{way}", "limit": 5})
    assert [found["id"] for found in page.structured_content["data"]] == [f"{way}-open"], page

    poor = invoice(f"{way}-poor", paymentMethodId="pm_card_visa_chargeDeclinedInsufficientFunds")
    declined = await client.call_tool("charge_customer", poor)
    assert declined.is_error and declined.structured_content["customerCharged"] == "no", declined
    assert "insufficient_funds" in declined.content[0].text

    wrong = await client.call_tool("charge_customer", {**once, "amountCents": 1})
    assert wrong.is_error and "Leave it out" in wrong.content[0].text, wrong
    try:
        await client.call_tool("refund_customer", once)
        raise AssertionError("there is no such tool")
    except MCPError as error:
        assert "charge_customer" in str(error), error

    # The client gives up (and cancels) while the provider works; the call is made again.
    slow = invoice(f"{way}-slow")
    rest(MOCK, "/_mock/faults", {"key": f"charge:{way}-slow", "fault": "delay", "ms": 3000})
    try:
        await client.call_tool("charge_customer", slow, read_timeout_seconds=0.3)
        raise AssertionError("the provider takes longer than that")
    except MCPError:
        pass
    result = await client.call_tool("charge_customer", slow)
    assert result.structured_content["customerCharged"] == "yes", result
    assert times_paid(f"{way}-slow") == 1

    many = invoice(f"{way}-many")
    answers = await asyncio.gather(*(client.call_tool("charge_customer", many) for _ in range(9)))
    assert all(answer.structured_content == answers[0].structured_content for answer in answers)
    assert times_paid(f"{way}-many") == 1


async def main():
    stdio = StdioServerParameters(command=BINARY, args=["mcp", "--url", SERVICE])
    for way, server in (("http", f"{SERVICE}/mcp"), ("stdio", stdio)):
        for mode in ("auto", "legacy"):
            async with Client(server, mode=mode) as client:
                await check(f"py-{way}-{mode}", client)
            print(f"{way} {mode}: fine")


asyncio.run(main())
