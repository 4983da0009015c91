//! What callers were told, compared with what the provider took. Pure: a recorded history and the truth in, what is wrong out.
//!
//! An answer is right when it was true at some moment between the start and the end of its call. Where the provider tells a
//! time in whole seconds, the reading that favours the service is taken.

mod tests;

use std::collections::BTreeMap;

use crate::support::Reply;

/// One call, as its caller saw it. Times are Unix milliseconds.
#[derive(Debug, Clone)]
pub struct Call {
    pub invoice_id: String,
    pub started_ms: i64,
    pub ended_ms: i64,
    /// None when the caller hung up, or the connection broke.
    pub reply: Option<Reply>,
}

/// Money that the provider took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// By the key of the request.
    pub attempt: i32,
    /// The first and the last moment at which it may have been taken.
    pub taken_from_ms: i64,
    pub taken_to_ms: i64,
}

/// The truth about one invoice.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// What the provider took, by its own books.
    pub payments: Vec<Payment>,
    /// When each attempt was reserved for good, by the database's clock.
    pub begun_ms: BTreeMap<i32, i64>,
}

/// Everything in the history that contradicts the truth, the contract or itself.
pub fn violations(history: &[Call], truth: &BTreeMap<String, Truth>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut by_invoice: BTreeMap<&str, Vec<(&Call, &Reply)>> = BTreeMap::new();
    for call in history {
        if let Some(reply) = &call.reply {
            let calls = by_invoice.entry(&call.invoice_id).or_default();
            calls.push((call, reply));
        }
    }
    let nothing = Truth::default();
    for (invoice_id, calls) in by_invoice {
        let truth = truth.get(invoice_id).unwrap_or(&nothing);
        let mut found = Vec::new();
        if truth.payments.len() > 1 {
            found.push(format!("it was paid {} times", truth.payments.len()));
        }
        for (call, reply) in &calls {
            let about = |what: &str| format!("{what}: {} {}", reply.status, reply.body);
            found.extend(against_the_contract(reply).map(about));
            found.extend(against_the_money(call, reply, truth).map(about));
        }
        found.extend(against_each_other(&calls));
        wrong.extend(
            found
                .into_iter()
                .map(|what| format!("{invoice_id}: {what}")),
        );
    }
    wrong
}

/// What a status may say, by the API's documentation: `customerCharged`, and the words that `retry` may have.
fn allowed(status: u16, code: &str) -> Option<(&'static str, &'static [&'static str])> {
    Some(match (status, code) {
        (201, "") => ("yes", &["not_needed"]),
        (202, "") => ("unknown", &["later"]),
        (402, "charge_declined") => ("no", &["later", "after_change", "never"]),
        (402, "charge_refused") => ("no", &["after_change", "never"]),
        (402, "retry_not_advised") => ("no", &["after_change"]),
        (402, "attempts_exhausted") => ("no", &["never"]),
        (409, "charge_in_progress" | "charge_needs_review") => ("unknown", &["later"]),
        (409, "charge_canceled" | "charge_never_executed") => ("no", &["now", "never"]),
        (503, "provider_unavailable") => ("no", &["later"]),
        (503, "storage_unavailable") => ("unknown", &["later"]),
        _ => return None,
    })
}

fn against_the_contract(reply: &Reply) -> Option<&'static str> {
    let Some((charged, retry)) = allowed(reply.status, &reply.text("code")) else {
        return Some("a call for a charge is never answered so");
    };
    if reply.text("customerCharged") != charged {
        return Some("customerCharged is not what this status says");
    }
    if !retry.contains(&reply.text("retry").as_str()) {
        return Some("retry is not what this status says");
    }
    let is_later = reply.text("retry") == "later";
    if is_later != reply.json()["retryAfterSeconds"].is_i64() {
        return Some("later comes with a time, and nothing else does");
    }
    None
}

fn against_the_money(call: &Call, reply: &Reply, truth: &Truth) -> Option<&'static str> {
    match reply.text("customerCharged").as_str() {
        "yes" if truth.payments.is_empty() => Some("told yes, and no money was ever taken"),
        "yes"
            if truth
                .payments
                .iter()
                .all(|payment| payment.taken_from_ms > call.ended_ms) =>
        {
            Some("told yes before any money was taken")
        }
        "no" => truth
            .payments
            .iter()
            .find_map(|payment| denied(call, reply, truth, payment)),
        _ => None,
    }
}

/// What is wrong with a "no" in the face of a payment. The attempt that took the money must be a later one: with a greater
/// number than the one that was told, and begun after the call had started.
fn denied(call: &Call, reply: &Reply, truth: &Truth, payment: &Payment) -> Option<&'static str> {
    if payment.taken_to_ms < call.started_ms {
        return Some("told no, and the money had been taken before the call");
    }
    let told = reply.json()["charge"]["attempt"].as_i64();
    if told.is_some_and(|told| i64::from(payment.attempt) <= told) {
        return Some("told no of an attempt that took the money");
    }
    match truth.begun_ms.get(&payment.attempt) {
        None => Some("an attempt took money that was never reserved"),
        Some(begun_ms) if *begun_ms < call.started_ms => {
            Some("told no while the attempt was under way that took the money")
        }
        Some(_) => None,
    }
}

/// All successes are one; and once a caller has had it, whoever calls later gets its replay and nothing else. Only a store
/// that cannot be asked is an excuse: the service then says that it does not know.
fn against_each_other(calls: &[(&Call, &Reply)]) -> Vec<String> {
    let successes = || calls.iter().filter(|(_, reply)| reply.status == 201);
    let Some((_, first)) = successes().min_by_key(|(call, _)| call.ended_ms) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (_, other) in successes().filter(|(_, reply)| reply.body != first.body) {
        found.push(format!(
            "two successes differ: {} and {}",
            first.body, other.body
        ));
    }
    if successes().filter(|(_, reply)| !reply.is_replay()).count() > 1 {
        found.push("more than one success says that it is no replay".into());
    }
    let known_ms = successes()
        .map(|(call, _)| call.ended_ms)
        .min()
        .unwrap_or(i64::MAX);
    for (_, late) in calls.iter().filter(|(call, _)| call.started_ms > known_ms) {
        let is_replay = late.status == 201 && late.is_replay();
        let is_excused = late.text("code") == "storage_unavailable";
        if !is_replay && !is_excused {
            found.push(format!(
                "called after the success: {} {}",
                late.status, late.body
            ));
        }
    }
    found
}
