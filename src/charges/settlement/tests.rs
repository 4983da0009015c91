use super::*;
use crate::charges::fixtures::{INSTALLATION, charge, failure, payment, reservation};
use crate::charges::model::ChargeStatus;
use crate::charges::ownership::{may_still_arrive, proves_success_alone};
use crate::charges::takeover::{FirstMove, first_move, settles_before_sending};
use crate::idempotency::reservation::ReservationState;
use crate::payments::outcome::NotExecutedReason;
use crate::payments::provider::FrozenRequest;

/// A plan in one word, with the payment that it is about.
fn word(plan: &Plan) -> String {
    match plan {
        Plan::Record(verdict) => verdict_word(verdict),
        Plan::LookUp(_) => "look up".into(),
        Plan::Cancel { payment_id } => format!("cancel {payment_id}"),
    }
}

fn verdict_word(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Succeeded(payment) => format!("succeeded {}", payment.id),
        Verdict::Failed(failure) => format!("failed {}", failure.code),
        Verdict::Processing(payment) => format!("processing {}", payment.id),
        Verdict::NeedsReview { payment_id, .. } => {
            format!("review {}", payment_id.as_deref().unwrap_or("-"))
        }
        Verdict::Unknown(unknown) => format!("unknown {:?}", recovery_of(unknown)),
        Verdict::Released(_) => "released".into(),
    }
}

fn pending() -> Charge {
    charge(ChargeStatus::Pending)
}

fn paid() -> ProviderPayment {
    payment("pi_1", PaymentStatus::Succeeded)
}

fn with(payment: ProviderPayment, change: impl FnOnce(&mut ProviderPayment)) -> ProviderPayment {
    let mut payment = payment;
    change(&mut payment);
    payment
}

fn declined(payment: ProviderPayment) -> ProviderPayment {
    with(payment, |payment| {
        payment.failure = Some(failure(FailureKind::Declined, "card_declined"));
    })
}

fn of_attempt_before(payment: ProviderPayment) -> ProviderPayment {
    with(payment, |payment| {
        payment.charge_key = Some("charge:inv_0".into())
    })
}

#[test]
fn a_send_is_recorded_by_what_its_answer_proves() {
    let not_executed = |reason| {
        Outcome::NotExecuted(NotExecuted {
            reason,
            detail: "x".into(),
        })
    };
    let unknown = |next| {
        Outcome::Unknown(Unknown {
            next,
            ..Unknown::resend("x")
        })
    };
    let processing = || payment("pi_1", PaymentStatus::Processing);
    let none_marked = |payment| {
        with(payment, |payment| {
            (
                payment.invoice_id,
                payment.installation_id,
                payment.charge_key,
            ) = (None, None, None);
        })
    };
    use NotExecutedReason::{Credentials, OutOfTime, RateLimited, Unreachable};
    #[rustfmt::skip]
    let table = vec![
        ("paid", Outcome::Succeeded(paid()), false, "succeeded pi_1"),
        ("paid, at a takeover", Outcome::Succeeded(paid()), true, "succeeded pi_1"),
        ("paid, by a stand-in that leaves metadata out", Outcome::Succeeded(none_marked(paid())), false, "succeeded pi_1"),
        ("paid a cent too much", Outcome::Succeeded(with(paid(), |p| p.amount_minor = 1251)), false, "review pi_1"),
        ("paid a cent too little", Outcome::Succeeded(with(paid(), |p| p.amount_minor = 1249)), true, "review pi_1"),
        ("paid in another currency", Outcome::Succeeded(with(paid(), |p| p.currency = "eur".into())), false, "review pi_1"),
        ("paid for another invoice", Outcome::Succeeded(with(paid(), |p| p.invoice_id = Some("inv_2".into()))), false, "review pi_1"),
        ("paid for another installation", Outcome::Succeeded(with(paid(), |p| p.installation_id = Some("ins_2".into()))), false, "review pi_1"),
        ("processing", Outcome::Processing(processing()), false, "processing pi_1"),
        ("processing a wrong amount", Outcome::Processing(with(processing(), |p| p.amount_minor = 1)), false, "review pi_1"),
        ("declined", Outcome::Failed(failure(FailureKind::Declined, "card_declined")), false, "failed card_declined"),
        ("declined, at a takeover", Outcome::Failed(failure(FailureKind::Declined, "card_declined")), true, "failed card_declined"),
        ("refused", Outcome::Failed(failure(FailureKind::Refused, "resource_missing")), false, "failed resource_missing"),
        ("unreachable", not_executed(Unreachable), false, "released"),
        ("unreachable, at a takeover", not_executed(Unreachable), true, "unknown Resend"),
        ("rate limited", not_executed(RateLimited), false, "released"),
        ("rate limited, at a takeover", not_executed(RateLimited), true, "unknown Resend"),
        ("unauthorized", not_executed(Credentials), false, "released"),
        ("unauthorized, at a takeover", not_executed(Credentials), true, "unknown Resend"),
        ("out of time", not_executed(OutOfTime), false, "released"),
        ("out of time, at a takeover", not_executed(OutOfTime), true, "unknown Resend"),
        ("lost", unknown(NextStep::Resend), false, "unknown Resend"),
        ("a stored 500", unknown(NextStep::LookUp), false, "look up"),
        ("a key conflict", unknown(NextStep::LookUpElseReview), false, "look up"),
    ];
    for (case, outcome, sent_before, right) in table {
        let plan = after_send(outcome, &pending(), INSTALLATION, sent_before);
        assert_eq!(word(&plan), right, "{case}");
    }
}

#[test]
fn a_look_up_is_recorded_by_what_it_found_and_by_the_age_of_the_sends() {
    use PaymentStatus::{
        Canceled, Failed, Other, Processing, RequiresAction, RequiresCapture, RequiresConfirmation,
        RequiresPaymentMethod,
    };
    let found = |status| payment("pi_1", status);
    let odd = || found(Other("on_the_moon".into()));
    let one_shot = || declined(found(Failed));
    let open = || declined(found(RequiresPaymentMethod));
    #[rustfmt::skip]
    let table = vec![
        // What was found; inside the key's window; past it.
        ("nothing", vec![], "unknown LookUp", "failed never_executed"),
        ("paid", vec![paid()], "succeeded pi_1", "succeeded pi_1"),
        ("paid, besides an unfinished one", vec![payment("pi_2", RequiresConfirmation), paid()], "succeeded pi_1", "succeeded pi_1"),
        ("paid under an earlier key", vec![of_attempt_before(paid())], "review pi_1", "succeeded pi_1"),
        ("given back", vec![found(PaymentStatus::Refunded)], "review pi_1", "review pi_1"),
        ("an earlier attempt's, given back", vec![of_attempt_before(found(PaymentStatus::Refunded))], "unknown LookUp", "failed never_executed"),
        ("paid beside one that was given back", vec![found(PaymentStatus::Refunded), payment("pi_2", PaymentStatus::Succeeded)], "succeeded pi_2", "succeeded pi_2"),
        ("paid twice", vec![payment("pi_2", PaymentStatus::Succeeded), paid()], "review pi_2", "review pi_2"),
        ("a wrong amount", vec![with(paid(), |p| p.amount_minor = 1251)], "review pi_1", "review pi_1"),
        ("a wrong currency", vec![with(paid(), |p| p.currency = "eur".into())], "review pi_1", "review pi_1"),
        ("paid to another installation", vec![with(paid(), |p| p.installation_id = Some("ins_2".into()))], "review pi_1", "review pi_1"),
        ("paid for another invoice", vec![with(paid(), |p| p.invoice_id = Some("inv_2".into()))], "review pi_1", "review pi_1"),
        ("paid without our marks", vec![with(paid(), |p| p.invoice_id = None)], "review pi_1", "review pi_1"),
        ("paid without the installation's mark", vec![with(paid(), |p| p.installation_id = None)], "review pi_1", "review pi_1"),
        ("processing", vec![found(Processing)], "processing pi_1", "processing pi_1"),
        ("held, not captured", vec![found(RequiresCapture)], "review pi_1", "review pi_1"),
        ("waiting for the customer", vec![found(RequiresAction)], "processing pi_1", "cancel pi_1"),
        ("never confirmed", vec![found(RequiresConfirmation)], "unknown LookUp", "cancel pi_1"),
        ("without a payment method", vec![found(RequiresPaymentMethod)], "unknown LookUp", "cancel pi_1"),
        ("declined under our own key", vec![open()], "failed card_declined", "failed card_declined"),
        ("declined under an earlier key", vec![of_attempt_before(open())], "unknown LookUp", "cancel pi_1"),
        ("a one-shot charge of ours that failed", vec![one_shot()], "failed card_declined", "failed card_declined"),
        ("a failed one of an earlier attempt", vec![of_attempt_before(one_shot())], "unknown LookUp", "failed never_executed"),
        ("a failed one without a reason", vec![found(Failed)], "unknown LookUp", "failed never_executed"),
        ("canceled, our own", vec![found(Canceled)], "failed canceled_unfinished", "failed canceled_unfinished"),
        ("canceled, of the attempt before", vec![of_attempt_before(found(Canceled))], "unknown LookUp", "failed never_executed"),
        ("at work for the attempt before", vec![of_attempt_before(found(Processing))], "unknown LookUp", "unknown LookUp"),
        ("waits for the attempt before", vec![of_attempt_before(found(RequiresAction))], "unknown LookUp", "cancel pi_1"),
        ("paid beside one that waits", vec![payment("pi_2", RequiresAction), paid()], "review pi_1", "review pi_1"),
        ("a state of tomorrow", vec![odd()], "unknown LookUp", "review pi_1"),
        ("declined under our own key beside one at work", vec![open(), payment("pi_2", Processing)], "processing pi_2", "processing pi_2"),
        ("declined under our own key beside a hold", vec![open(), payment("pi_2", RequiresCapture)], "review pi_2", "review pi_2"),
        ("declined under our own key beside one that waits", vec![open(), payment("pi_2", RequiresAction)], "processing pi_2", "cancel pi_2"),
        ("declined under our own key beside one never confirmed", vec![open(), payment("pi_2", RequiresConfirmation)], "unknown LookUp", "cancel pi_2"),
        ("paid beside one at work", vec![payment("pi_2", Processing), paid()], "review pi_1", "review pi_1"),
        ("an earlier failure, then a processing one", vec![of_attempt_before(one_shot()), payment("pi_2", Processing)], "processing pi_2", "processing pi_2"),
    ];
    for (case, found, inside, past) in table {
        for (all_sends_are_old, right) in [(false, inside), (true, past)] {
            let context = LookUpContext {
                unknown: Unknown::look_up("a stored 500"),
                all_sends_are_old,
                installation_id: INSTALLATION.into(),
            };
            let plan = after_look_up(&found, &pending(), &context);
            assert_eq!(
                word(&plan),
                right,
                "{case}, past the window: {all_sends_are_old}"
            );
        }
    }
}

#[test]
fn a_key_that_was_used_for_something_else_is_parked_unless_the_payment_is_found() {
    let context = |all_sends_are_old| LookUpContext {
        unknown: Unknown {
            next: NextStep::LookUpElseReview,
            ..Unknown::look_up("the key was used for another request")
        },
        all_sends_are_old,
        installation_id: INSTALLATION.into(),
    };
    let plan =
        |found: &[ProviderPayment], old| word(&after_look_up(found, &pending(), &context(old)));
    assert_eq!(plan(&[paid()], false), "succeeded pi_1");
    assert_eq!(plan(&[], false), "review -");
    assert_eq!(plan(&[], true), "failed never_executed");
}

#[test]
fn a_request_may_still_arrive_until_its_payment_is_seen_or_it_is_too_old() {
    let parked = |path: &str, named: Option<&str>| Charge {
        request: FrozenRequest {
            path: path.into(),
            body: String::new(),
        },
        provider_payment_id: named.map(Into::into),
        ..charge(ChargeStatus::NeedsReview)
    };
    let create = || parked("/v1/payment_intents", Some("pi_1"));
    let confirm = || parked("/v1/payment_intents/pi_1/confirm", Some("pi_1"));
    let own = || vec![paid()];
    let others = || vec![of_attempt_before(paid())];
    #[rustfmt::skip]
    let table = [
        ("another attempt's payment", create(), others(), false, true),
        ("nothing found", create(), vec![], false, true),
        ("its own payment", create(), own(), false, false),
        ("the payment that it confirms", confirm(), others(), false, false),
        ("old", create(), others(), true, false),
        ("parked by a notice, never sent", parked("", Some("pi_1")), others(), false, false),
        ("its key was another request's", parked("/v1/payment_intents", None), vec![], false, false),
    ];
    for (case, charge, found, is_old, right) in table {
        assert_eq!(may_still_arrive(&charge, &found, is_old), right, "{case}");
    }
}

#[test]
fn only_the_success_of_its_own_payment_settles_an_attempt_alone() {
    let table = [
        (paid(), true),
        (of_attempt_before(paid()), false),
        (payment("pi_1", PaymentStatus::Processing), false),
        (payment("pi_1", PaymentStatus::Refunded), false),
    ];
    for (payment, right) in table {
        assert_eq!(
            proves_success_alone(&payment, &pending()),
            right,
            "{payment:?}"
        );
    }
}

#[test]
fn a_payment_that_was_processing_for_this_attempt_fails_with_it_whoever_made_it() {
    let context = LookUpContext {
        unknown: Unknown::look_up("processing"),
        all_sends_are_old: false,
        installation_id: INSTALLATION.into(),
    };
    let failed = of_attempt_before(declined(payment(
        "pi_1",
        PaymentStatus::RequiresPaymentMethod,
    )));
    let seen = |id: &str| Charge {
        provider_payment_id: Some(id.into()),
        ..charge(ChargeStatus::Processing)
    };
    let word_for = |charge| {
        word(&after_look_up(
            std::slice::from_ref(&failed),
            &charge,
            &context,
        ))
    };
    assert_eq!(word_for(seen("pi_1")), "failed card_declined");
    assert_eq!(word_for(seen("pi_2")), "unknown LookUp");
}

#[test]
fn a_cancel_settles_only_what_the_provider_confirms() {
    use PaymentStatus::*;
    let table = [
        (Canceled, "failed canceled_unfinished"),
        (Succeeded, "succeeded pi_1"),
        (Processing, "processing pi_1"),
        (RequiresAction, "unknown LookUp"),
        (RequiresConfirmation, "unknown LookUp"),
        (RequiresPaymentMethod, "unknown LookUp"),
        (RequiresCapture, "unknown LookUp"),
        (Failed, "unknown LookUp"),
        (Other("on_the_moon".into()), "unknown LookUp"),
    ];
    for (status, right) in table {
        let verdict = after_cancel(payment("pi_1", status.clone()), &pending(), INSTALLATION);
        assert_eq!(verdict_word(&verdict), right, "{status:?}");
    }
    let wrong = with(paid(), |payment| payment.amount_minor = 1);
    assert_eq!(
        verdict_word(&after_cancel(wrong, &pending(), INSTALLATION)),
        "review pi_1"
    );
}

#[test]
fn the_age_of_an_attempt_is_that_of_its_last_send() {
    let mut resent = reservation(ReservationState::InProgress);
    resent.last_sent_at_ms = 19;
    assert!(!all_sends_are_old(&resent, 20, 38));
    assert!(all_sends_are_old(&resent, 20, 39));
}

#[test]
fn a_late_takeover_looks_before_it_sends() {
    use FirstMove::{LookThenSend, LookUp, Send};
    use Recovery::{LookUp as Ask, Resend};
    const LATE: i64 = 3_600_000;
    let table = [
        ("a first owner", 0, Resend, 0, Send),
        ("a first owner that was slow", 0, Resend, LATE, Send),
        ("an early takeover", 1, Resend, LATE - 1, Send),
        ("a late takeover", 1, Resend, LATE, LookThenSend),
        ("another late one", 7, Resend, 20 * LATE, LookThenSend),
        ("told to ask", 0, Ask, 0, LookUp),
        ("told to ask, early", 1, Ask, LATE - 1, LookUp),
        ("told to ask, late", 1, Ask, LATE, LookUp),
    ];
    for (case, takeovers, recovery, now_ms, right) in table {
        let held = Reservation {
            takeovers,
            ..reservation(ReservationState::InProgress)
        };
        assert_eq!(first_move(&held, recovery, now_ms), right, "{case}");
    }
}

#[test]
fn a_look_before_a_send_settles_on_what_took_money_or_still_may() {
    let unknown = || Unknown::resend("x");
    let declined = || failure(FailureKind::Declined, "card_declined");
    let review = || Verdict::NeedsReview {
        payment_id: Some("pi_1".into()),
        evidence: "x".into(),
    };
    let released = || {
        Verdict::Released(NotExecuted {
            reason: NotExecutedReason::OutOfTime,
            detail: "x".into(),
        })
    };
    let cancel = || Plan::Cancel {
        payment_id: "pi_1".into(),
    };
    let record = Plan::Record;
    #[rustfmt::skip]
    let table = [
        ("it took the money", record(Verdict::Succeeded(paid())), true),
        ("it still may", record(Verdict::Processing(payment("pi_1", PaymentStatus::Processing))), true),
        ("a person must look at it", record(review()), true),
        ("a failure, which its key repeats", record(Verdict::Failed(declined())), false),
        ("nothing, or nobody could be asked", record(Verdict::Unknown(unknown())), false),
        ("nothing was sent", record(released()), false),
        ("there is more to look at", Plan::LookUp(unknown()), false),
        ("nobody completed it: the send does", cancel(), false),
    ];
    for (case, plan, settles) in table {
        let right = settles.then(|| plan.clone());
        assert_eq!(settles_before_sending(plan), right, "{case}");
    }
}
