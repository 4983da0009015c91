"""What the API's document alone cannot tell Schemathesis: how an event is signed, and for which reasons of its own the
service may refuse a request that the document allows. And what was answered, for main.rs to look at."""

import hashlib
import hmac
import os
import time

import requests.auth
import schemathesis
from schemathesis.core.parameters import ParameterLocation

SIGNING_SECRET = os.environ["STRIPE_WEBHOOK_SECRET"].encode()

# A line for each answer: its status and its operation.
ANSWERS = open(os.environ["ANSWERS"], "w", buffering=1)

# By operation: the codes, and the field where one is named, with which a request is refused that is right by itself. The statuses
# of these codes stand in schemathesis.toml.
REASONS = {
    # A key names one action; Schemathesis sends it with two.
    "createInvoice": {("idempotency_key_reused", "Idempotency-Key")},
    # A cursor is opaque, and one that was not made here is refused.
    "listInvoices": {("invalid_parameter", "cursor")},
    "listCharges": {("invalid_parameter", "cursor")},
    "listRefunds": {("invalid_parameter", "cursor")},
    # A part needs a key, and a key names one part; and the bank may refuse.
    "createRefund": {
        ("idempotency_key_required", "Idempotency-Key"),
        ("idempotency_key_reused", "Idempotency-Key"),
        ("refund_failed", None),
    },
    # The request is right, and the bank or the provider refuses the payment.
    "chargeInvoice": {
        ("charge_declined", None),
        ("charge_refused", None),
        ("retry_not_advised", None),
        ("attempts_exhausted", None),
    },
}


# A whole number is one in JSON Schema however it is written, and here only without a decimal point.
WRITTEN_WITH_A_POINT = {
    "createInvoice": {("invalid_request", "amountCents")},
    "createRefund": {("invalid_request", "amountCents")},
    "receiveStripeEvent": {("invalid_request", "body")},
}


def has_whole_float(value):
    if isinstance(value, dict):
        return any(has_whole_float(member) for member in value.values())
    if isinstance(value, list):
        return any(has_whole_float(item) for item in value)
    return isinstance(value, float) and value.is_integer()


def operation_id(case):
    return case.operation.definition.raw["operationId"]


def is_negative(case, location):
    component = case.meta and case.meta.components.get(location)
    return bool(component) and component.mode.is_negative


class StripesSignature(requests.auth.AuthBase):
    """Signs the bytes that are sent, as Stripe does."""

    def __call__(self, request):
        body = request.body or b""
        signed = f"{int(time.time())}.".encode() + (body.encode() if isinstance(body, str) else body)
        digest = hmac.new(SIGNING_SECRET, signed, hashlib.sha256).hexdigest()
        request.headers["Stripe-Signature"] = f"t={signed.split(b'.')[0].decode()},v1={digest}"
        return request


@schemathesis.hook
def before_call(context, case, kwargs):
    """Signs events, but for those whose signature is the fault that is tried."""
    if operation_id(case) != "receiveStripeEvent" or is_negative(case, ParameterLocation.HEADER):
        return
    if any(name.lower() == "stripe-signature" for name in case.headers or {}):
        kwargs["auth"] = StripesSignature()


@schemathesis.hook
def after_call(context, case, response):
    print(response.status_code, case.operation.label, file=ANSWERS)


@schemathesis.check
def right_requests_are_refused_for_known_reasons_only(ctx, response, case):
    """Narrows the statuses that schemathesis.toml expects of right requests to these codes."""
    if not case.meta or not case.meta.generation.mode.is_positive:
        return
    if response.status_code not in (400, 402, 422):
        return
    reasons = REASONS.get(operation_id(case), set())
    if has_whole_float(case.body):
        reasons = reasons | WRITTEN_WITH_A_POINT.get(operation_id(case), set())
    problem = response.json()
    reason = (problem["code"], problem.get("field"))
    assert reason in reasons, f"a right request was refused with {reason}"
