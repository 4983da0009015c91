use super::*;
use crate::payments::outcome::{NotExecuted, NotExecutedReason};
use crate::refunds::fixtures::{INSTALLATION, PAYMENT, failure, found, refund};
use crate::refunds::model::RefundStatus;

/// A verdict in a few words, for tables.
fn in_short(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Succeeded(found) => format!("succeeded {}", found.id),
        Verdict::Failed(failure) => format!("failed {}", failure.code),
        Verdict::Processing(found) => format!("processing {}", found.id),
        Verdict::NeedsReview { payment_id, .. } => {
            format!("review {}", payment_id.as_deref().unwrap_or("-"))
        }
        Verdict::Unknown(unknown) => format!("unknown {:?}", unknown.next),
        Verdict::Released(reason) => format!("released {:?}", reason.reason),
    }
}

fn sent(outcome: Outcome<ProviderRefund>, sent_before: bool) -> String {
    let refund = refund(RefundStatus::Pending);
    match after_send(outcome, ours(&refund), sent_before) {
        Plan::Record(verdict) => in_short(&verdict),
        Plan::LookUp(unknown) => format!("look up {:?}", unknown.next),
    }
}

fn ours(refund: &Refund) -> Ours<'_> {
    Ours {
        refund,
        payment_id: PAYMENT,
        installation_id: INSTALLATION,
    }
}

fn away() -> Outcome<ProviderRefund> {
    Outcome::NotExecuted(NotExecuted {
        reason: NotExecutedReason::Unreachable,
        detail: "connection refused".into(),
    })
}

fn unknown(next: NextStep) -> Unknown {
    Unknown {
        reason: "x".into(),
        payment_id: None,
        next,
    }
}

/// What in an answer is not ours, one mark after the other.
fn strangers() -> Vec<ProviderRefund> {
    let ours = || found("re_1", RefundState::Succeeded);
    let other = || Some("other".to_owned());
    vec![
        ProviderRefund {
            amount_minor: 1249,
            ..ours()
        },
        ProviderRefund {
            currency: "eur".into(),
            ..ours()
        },
        ProviderRefund {
            payment_id: other(),
            ..ours()
        },
        ProviderRefund {
            charge_id: other(),
            ..ours()
        },
        ProviderRefund {
            refund_key: other(),
            ..ours()
        },
        ProviderRefund {
            installation_id: other(),
            ..ours()
        },
    ]
}

#[test]
fn every_answer_to_a_send_has_one_meaning() {
    let given = || found("re_1", RefundState::Succeeded);
    let unmarked = ProviderRefund {
        payment_id: None,
        refund_key: None,
        charge_id: None,
        installation_id: None,
        ..given()
    };
    let refused = || Outcome::Failed(failure(FailureKind::Refused, "charge_already_refunded"));
    let doubt = |next| Outcome::Unknown(unknown(next));
    #[rustfmt::skip]
    let table = [
        ("given back", Outcome::Succeeded(given()), "succeeded re_1", "succeeded re_1"),
        ("without marks", Outcome::Succeeded(unmarked), "succeeded re_1", "succeeded re_1"),
        ("pending", Outcome::Processing(found("re_1", RefundState::Pending)), "processing re_1", "processing re_1"),
        ("refused", refused(), "failed charge_already_refunded", "failed charge_already_refunded"),
        ("not sent", away(), "released Unreachable", "unknown Resend"),
        ("lost", doubt(NextStep::Resend), "unknown Resend", "unknown Resend"),
        ("a stored 500", doubt(NextStep::LookUp), "look up LookUp", "look up LookUp"),
        ("another's key", doubt(NextStep::LookUpElseReview), "look up LookUpElseReview", "look up LookUpElseReview"),
    ];
    for (case, outcome, first, again) in table {
        assert_eq!(sent(outcome.clone(), false), first, "{case}");
        assert_eq!(sent(outcome, true), again, "{case}, after a takeover");
    }
}

#[test]
fn an_answer_that_is_not_what_was_asked_for_is_for_a_person() {
    for stranger in strangers() {
        let case = format!("{stranger:?}");
        assert_eq!(
            sent(Outcome::Succeeded(stranger.clone()), false),
            "review re_1",
            "{case}"
        );
        assert_eq!(
            sent(Outcome::Processing(stranger), true),
            "review re_1",
            "{case}"
        );
    }
}

#[test]
fn a_look_up_settles_on_what_was_made_under_the_refunds_own_key() {
    use RefundState::{Canceled, Failed, Other, Pending, RequiresAction, Succeeded};
    let second = |state| found("re_2", state);
    let by_hand = || ProviderRefund {
        refund_key: None,
        charge_id: None,
        installation_id: None,
        ..found("re_hand", Succeeded)
    };
    let of_another_key = || ProviderRefund {
        refund_key: Some("refund:chg_1:hash".into()),
        ..found("re_other", Succeeded)
    };
    let of_another_installation = || ProviderRefund {
        installation_id: Some("ins_2".into()),
        ..found("re_foreign", Succeeded)
    };
    let strange = || Other("new".into());
    let told = ProviderRefund {
        failure: Some(failure(FailureKind::Declined, "lost_or_stolen_card")),
        ..found("re_1", Failed)
    };
    #[rustfmt::skip]
    let table = [
        ("nothing", vec![], "unknown LookUp", "failed never_executed"),
        ("given back", vec![found("re_1", Succeeded)], "succeeded re_1", "succeeded re_1"),
        ("pending", vec![found("re_1", Pending)], "processing re_1", "processing re_1"),
        ("waits for the customer", vec![found("re_1", RequiresAction)], "processing re_1", "processing re_1"),
        ("failed", vec![found("re_1", Failed)], "failed refund_failed", "failed refund_failed"),
        ("failed, with a reason", vec![told], "failed lost_or_stolen_card", "failed lost_or_stolen_card"),
        ("canceled", vec![found("re_1", Canceled)], "failed refund_canceled", "failed refund_canceled"),
        ("a state that nobody knows", vec![found("re_1", strange())], "unknown LookUp", "review re_1"),
        ("twice", vec![found("re_1", Succeeded), second(Pending)], "review re_1", "review re_1"),
        ("beside one that failed", vec![second(Failed), found("re_1", Succeeded)], "succeeded re_1", "succeeded re_1"),
        ("by hand", vec![by_hand()], "unknown LookUp", "failed never_executed"),
        ("another refund of the charge", vec![of_another_key()], "unknown LookUp", "failed never_executed"),
        ("another installation's", vec![of_another_installation()], "unknown LookUp", "failed never_executed"),
        ("its own among others", vec![by_hand(), found("re_1", Succeeded), of_another_key()], "succeeded re_1", "succeeded re_1"),
    ];
    for (case, found, while_fresh, when_old) in table {
        assert_eq!(
            looked_up(&found, NextStep::LookUp, false),
            while_fresh,
            "{case}"
        );
        assert_eq!(
            looked_up(&found, NextStep::LookUp, true),
            when_old,
            "{case}, when old"
        );
    }
}

#[test]
fn a_key_that_was_used_for_something_else_is_for_a_person_unless_the_refund_is_there() {
    let given = [found("re_1", RefundState::Succeeded)];
    let else_review = NextStep::LookUpElseReview;
    assert_eq!(looked_up(&given, else_review, false), "succeeded re_1");
    assert_eq!(looked_up(&[], else_review, false), "review -");
    assert_eq!(looked_up(&[], else_review, true), "failed never_executed");
}

#[test]
fn what_was_found_and_is_not_what_was_asked_for_is_for_a_person() {
    let mut known = refund(RefundStatus::Processing);
    known.provider_refund_id = Some("re_1".into());
    for stranger in strangers() {
        let verdict = after_look_up(
            std::slice::from_ref(&stranger),
            ours(&known),
            &context(NextStep::LookUp, true),
        );
        assert_eq!(in_short(&verdict), "review re_1", "{stranger:?}");
        // What came to nothing may be whatever it likes.
        let failed = ProviderRefund {
            status: RefundState::Failed,
            ..stranger
        };
        let verdict = after_look_up(&[failed], ours(&known), &context(NextStep::LookUp, true));
        assert_eq!(in_short(&verdict), "failed refund_failed");
    }
}

#[test]
fn only_its_own_success_settles_it_where_no_list_can_be_read() {
    let refund = refund(RefundStatus::Pending);
    for (state, proves) in [
        (RefundState::Succeeded, true),
        (RefundState::Pending, false),
        (RefundState::Failed, false),
    ] {
        assert_eq!(
            ours(&refund).proves_success_alone(&found("re_1", state)),
            proves
        );
    }
    let stranger = ProviderRefund {
        refund_key: Some("another".into()),
        ..found("re_1", RefundState::Succeeded)
    };
    assert!(!ours(&refund).proves_success_alone(&stranger));
}

fn context(next: NextStep, all_sends_are_old: bool) -> LookUpContext {
    LookUpContext {
        unknown: unknown(next),
        all_sends_are_old,
        installation_id: INSTALLATION.into(),
    }
}

fn looked_up(found: &[ProviderRefund], next: NextStep, all_sends_are_old: bool) -> String {
    let refund = refund(RefundStatus::Pending);
    let context = context(next, all_sends_are_old);
    in_short(&after_look_up(found, ours(&refund), &context))
}
