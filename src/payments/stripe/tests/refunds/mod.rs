//! Refunds: the decision table, the sends, the look-ups, and all of it against the stand-in.

use super::StripeApi::PaymentIntents;
use super::{Script, deadline, provider};
use crate::payments::provider::{FrozenRequest, SendLimits};
use crate::payments::refund::{RefundOrder, RefundProvider};

mod decision;
mod lookup;
mod send;
mod stand_in;

const KEY: &str = "refund:chg_1";

/// A Refund's JSON with our metadata.
fn refund(id: &str, status: &str) -> String {
    format!(
        r#"{{"id":"{id}","object":"refund","status":"{status}","amount":1999,"currency":"EUR","charge":"ch_1",
        "payment_intent":"pi_1","created":1700000000,"failure_reason":null,"a_field_of_tomorrow":[1,{{}}],
        "metadata":{{"invoice_id":"inv_1","charge_id":"chg_1","refund_key":"{KEY}","attempt":"1","installation_id":"inst"}}}}"#
    )
}

fn order(payment_id: &str) -> RefundOrder {
    RefundOrder {
        charge_id: "chg_1".to_owned(),
        invoice_id: "inv_1".to_owned(),
        refund_key: KEY.to_owned(),
        attempt: 1,
        installation_id: "inst".to_owned(),
        payment_id: payment_id.to_owned(),
        amount_minor: 1999,
        currency: "eur".to_owned(),
        reason: None,
    }
}

fn frozen() -> FrozenRequest {
    provider(PaymentIntents, &Script::default()).prepare_refund(&order("pi_1"))
}

fn limits(sent_before: bool) -> SendLimits {
    SendLimits {
        wall_deadline: std::time::SystemTime::now() + std::time::Duration::from_secs(3_600),
        deadline: deadline(600),
        sent_before,
    }
}
