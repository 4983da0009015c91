"""Stripe's official Python SDK against a running `chargeonce mock-stripe`, whose address is in MOCK_URL.

The tests share one mock and run one after the other; each begins with a reset.
"""

import http.server
import json
import os
import queue
import threading
import unittest
import urllib.request

import stripe

MOCK_URL = os.environ["MOCK_URL"]
SECRET = "whsec_python_check"

stripe.api_key = "sk_test_python"
stripe.api_base = MOCK_URL
stripe.max_network_retries = 2


def control(path, body=None, method=None):
    """Calls a control path of the mock and gives the JSON of its answer."""
    data = None if body is None else json.dumps(body).encode()
    method = method or ("GET" if body is None else "POST")
    request = urllib.request.Request(f"{MOCK_URL}/_mock/{path}", data=data, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def ledger():
    return control("ledger")["payments"]


def pay(method="pm_card_visa", key="order-1", **more):
    """Charges five dollars at once."""
    params = {"amount": 500, "currency": "usd", "payment_method": method, "confirm": True}
    params.update(payment_method_types=["card"], metadata={"invoice_id": "inv_1"})
    params.update(more)
    return stripe.PaymentIntent.create(idempotency_key=key, **params)


class Receiver:
    """An endpoint for webhooks, which keeps the raw bytes and the signature."""

    def __init__(self, statuses=()):
        self.arrived, statuses = queue.Queue(), list(statuses)
        arrived = self.arrived

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = statuses.pop(0) if statuses else 200
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                arrived.put((body, self.headers["Stripe-Signature"]))

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/webhook"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Payments(unittest.TestCase):
    def setUp(self):
        control("reset", {})

    def test_a_payment_is_made_once_and_replayed_for_its_key(self):
        first, second = pay(), pay()
        self.assertEqual(first.status, "succeeded")
        self.assertEqual(first.id, second.id)
        self.assertNotIn("idempotent-replayed", headers(first))
        self.assertEqual(headers(second)["idempotent-replayed"], "true")
        self.assertEqual([row["status"] for row in ledger()], ["succeeded"])

    def test_a_payment_is_confirmed_later(self):
        made = stripe.PaymentIntent.create(amount=500, currency="usd", payment_method="pm_card_visa")
        self.assertEqual(made.status, "requires_confirmation")
        paid = stripe.PaymentIntent.confirm(made.id, expand=["latest_charge"])
        self.assertEqual(paid.status, "succeeded")
        self.assertEqual(paid.latest_charge.outcome.type, "authorized")

    def test_declines_are_card_errors_with_their_codes(self):
        table = [
            ("pm_card_visa_chargeDeclined", "card_declined", "generic_decline"),
            ("pm_card_visa_chargeDeclinedInsufficientFunds", "card_declined", "insufficient_funds"),
            ("pm_card_visa_chargeDeclinedLostCard", "card_declined", "lost_card"),
            ("pm_card_chargeDeclinedExpiredCard", "expired_card", None),
        ]
        for method, code, decline_code in table:
            with self.subTest(method), self.assertRaises(stripe.CardError) as caught:
                pay(method, key=method)
            error = caught.exception
            self.assertEqual((error.http_status, error.code), (402, code))
            self.assertEqual(getattr(error.error, "decline_code", None), decline_code)
            self.assertEqual(error.error.payment_intent.status, "requires_payment_method")

    def test_a_key_with_other_parameters_is_an_idempotency_error(self):
        pay()
        with self.assertRaises(stripe.IdempotencyError) as caught:
            pay(amount=600)
        self.assertEqual(caught.exception.http_status, 400)
        self.assertEqual(len(ledger()), 1)

    def test_a_lost_answer_is_retried_by_the_sdk_and_paid_once(self):
        control("faults", {"fault": "drop_after"})
        self.assertEqual(pay().status, "succeeded")
        self.assertEqual([row["status"] for row in ledger()], ["succeeded"])
        seen = control("requests")["requests"]
        self.assertEqual([row["fault"] for row in seen], ["drop_after", None])
        self.assertTrue(seen[1]["replayed"])

    def test_lists_are_paged_to_their_end(self):
        made = [pay(key=f"order-{number}").id for number in range(7)]
        listed = [intent.id for intent in stripe.PaymentIntent.list(limit=3).auto_paging_iter()]
        self.assertEqual(listed, made[::-1])

    def test_refunds_are_bounded_and_can_fail_late(self):
        paid = pay("pm_card_refundFail")
        refund = stripe.Refund.create(payment_intent=paid.id, amount=200)
        self.assertEqual(refund.status, "succeeded")
        with self.assertRaises(stripe.InvalidRequestError) as caught:
            stripe.Refund.create(payment_intent=paid.id, amount=301)
        self.assertEqual(caught.exception.param, "amount")
        control("settle", {"paymentId": refund.id, "outcome": "failed"})
        self.assertEqual(stripe.Refund.retrieve(refund.id).status, "failed")
        self.assertEqual(stripe.Charge.retrieve(paid.latest_charge).amount_refunded, 0)

    def test_a_hold_is_captured_in_part(self):
        held = pay(capture_method="manual")
        self.assertEqual((held.status, held.amount_capturable), ("requires_capture", 500))
        taken = stripe.PaymentIntent.capture(held.id, amount_to_capture=300)
        self.assertEqual((taken.status, taken.amount_received), ("succeeded", 300))

    def test_a_customer_authenticates(self):
        asked = pay("pm_card_authenticationRequired")
        self.assertEqual(asked.status, "requires_action")
        control("authenticate", {"paymentId": asked.id, "outcome": "succeeded"})
        self.assertEqual(stripe.PaymentIntent.retrieve(asked.id).status, "succeeded")

    def test_a_payment_method_is_made_from_a_token_and_attached(self):
        method = stripe.PaymentMethod.create(type="card", card={"token": "tok_visa"})
        customer = stripe.Customer.create(email="a@example.com")
        stripe.PaymentMethod.attach(method.id, customer=customer.id)
        paid = pay(method.id, customer=customer.id, off_session=True)
        self.assertEqual(paid.status, "succeeded")

    def test_search_lags_behind_the_list(self):
        paid = pay()
        query = "metadata['invoice_id']:'inv_1' AND status:'succeeded'"
        search = lambda: [found.id for found in stripe.PaymentIntent.search(query=query).data]
        self.assertEqual(search(), [])
        self.assertEqual([intent.id for intent in stripe.PaymentIntent.list().data], [paid.id])
        control("clock", {"advanceSeconds": 61})
        self.assertEqual(search(), [paid.id])


class Webhooks(unittest.TestCase):
    def receive(self, statuses=()):
        control("reset", {})
        receiver = Receiver(statuses)
        control("webhooks", {"url": receiver.url, "secrets": ["whsec_old", SECRET]})
        self.addCleanup(receiver.close)
        self.addCleanup(control, "webhooks", method="DELETE")
        return receiver

    def test_the_sdk_verifies_a_delivered_event(self):
        receiver = self.receive()
        paid = pay()
        events = {}
        for _ in range(3):
            body, signature = receiver.arrived.get(timeout=20)
            event = stripe.Webhook.construct_event(body, signature, SECRET)
            stripe.Webhook.construct_event(body, signature, "whsec_old")
            events[event.type] = event
        self.assertEqual(
            sorted(events),
            ["charge.succeeded", "payment_intent.created", "payment_intent.succeeded"],
        )
        event = events["payment_intent.succeeded"]
        self.assertEqual(event.data.object.id, paid.id)
        self.assertEqual(event.request.idempotency_key, "order-1")
        self.assertEqual((event.livemode, event.pending_webhooks), (False, 1))
        with self.assertRaises(stripe.SignatureVerificationError):
            stripe.Webhook.construct_event(body + b" ", signature, SECRET)
        with self.assertRaises(stripe.SignatureVerificationError):
            stripe.Webhook.construct_event(body, signature, "whsec_wrong")

    def test_a_refused_event_comes_again_with_a_signature_that_verifies(self):
        receiver = self.receive(statuses=[500, 302])
        stripe.PaymentIntent.create(amount=500, currency="usd")
        bodies = set()
        for _ in range(3):
            body, signature = receiver.arrived.get(timeout=20)
            stripe.Webhook.construct_event(body, signature, SECRET)
            bodies.add(body)
        self.assertEqual(len(bodies), 1)


def headers(resource):
    return {name.lower(): value for name, value in resource.last_response.headers.items()}


if __name__ == "__main__":
    unittest.main(verbosity=2)
