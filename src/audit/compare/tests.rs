use super::*;
use crate::audit::judge::tests::{charge as booked, payment as shown};

const DAY: i64 = 24 * 3_600_000;
const BEGUN: i64 = 100 * DAY;
const SINCE: i64 = 70 * DAY;

fn rules() -> Rules {
    Rules {
        provider: "stripe".into(),
        key_window_ms: 20 * 3_600_000,
    }
}

fn paid(number: u32, created_at_ms: i64) -> BookedCharge {
    BookedCharge {
        id: format!("chg_{number}"),
        invoice_id: format!("inv_{number}"),
        payment_id: Some(format!("pi_{number}")),
        created_at_ms,
        ..booked(Standing::Succeeded)
    }
}

fn taken(number: u32, status: PaymentStatus) -> ProviderPayment {
    ProviderPayment {
        invoice_id: Some(format!("inv_{number}")),
        ..shown(&format!("pi_{number}"), status)
    }
}

fn compared(payments: Vec<ProviderPayment>, charges: &[BookedCharge]) -> (Counts, Vec<String>) {
    let rules = rules();
    let mut tally = Tally::new(&rules, SINCE, BEGUN);
    payments
        .into_iter()
        .for_each(|payment| tally.add_payment(payment));
    charges
        .iter()
        .for_each(|charge| tally.add_charge(charge, BEGUN));
    let (counts, suspects) = tally.finish();
    let word = |suspect: Suspect| {
        let invoice_id = suspect.invoice_id.unwrap_or_else(|| "-".into());
        format!("{invoice_id} [{}]", suspect.payment_ids.join(","))
    };
    (counts, suspects.into_iter().map(word).collect())
}

#[test]
fn what_fits_is_forgotten_and_what_does_not_is_suspected() {
    use PaymentStatus::{Canceled, Succeeded};
    let in_period = SINCE;
    let before = SINCE - 1;
    let wrong = ProviderPayment {
        amount_minor: 7,
        ..taken(1, Succeeded)
    };
    let wrong_currency = ProviderPayment {
        currency: "eur".into(),
        ..taken(1, Succeeded)
    };
    let of_another = ProviderPayment {
        invoice_id: Some("inv_9".into()),
        ..taken(1, Succeeded)
    };
    let unnamed = ProviderPayment {
        invoice_id: None,
        ..taken(8, Succeeded)
    };
    let again = BookedCharge {
        payment_id: Some("pi_1".into()),
        ..paid(2, in_period)
    };
    let foreign = BookedCharge {
        provider: "mock".into(),
        ..paid(1, in_period)
    };
    let failed = BookedCharge {
        standing: Standing::Failed,
        ..paid(1, in_period)
    };
    #[rustfmt::skip]
    let table: Vec<(&str, Vec<ProviderPayment>, Vec<BookedCharge>, &[&str])> = vec![
        ("nothing at all", vec![], vec![], &[]),
        ("both sides say the same", vec![taken(1, Succeeded)], vec![paid(1, in_period)], &[]),
        ("a charge from before the period explains a payment", vec![taken(1, Succeeded)], vec![paid(1, before)], &[]),
        ("and needs none itself", vec![], vec![paid(1, before)], &[]),
        ("nor does one from after the beginning", vec![], vec![paid(1, BEGUN + 1)], &[]),
        ("one of the last moment does", vec![], vec![paid(1, BEGUN)], &["inv_1 []"]),
        ("paid here, not in the pages", vec![], vec![paid(1, in_period)], &["inv_1 []"]),
        ("paid here, cancelled there", vec![taken(1, Canceled)], vec![paid(1, in_period)], &["inv_1 []"]),
        ("paid there, nothing here", vec![taken(1, Succeeded)], vec![], &["inv_1 [pi_1]"]),
        ("paid there, failed here", vec![taken(1, Succeeded)], vec![failed], &["inv_1 [pi_1]"]),
        ("cancelled there, nothing here", vec![taken(1, Canceled)], vec![], &[]),
        ("another amount", vec![wrong.clone()], vec![paid(1, in_period)], &["inv_1 [pi_1]"]),
        ("another amount, before the period", vec![wrong], vec![paid(1, before)], &["inv_1 [pi_1]"]),
        ("another currency", vec![wrong_currency], vec![paid(1, in_period)], &["inv_1 [pi_1]"]),
        ("a payment of another invoice", vec![of_another], vec![paid(1, in_period)], &["inv_1 []", "inv_9 [pi_1]"]),
        ("a payment that names no invoice", vec![unnamed], vec![], &["- [pi_8]"]),
        ("two charges on one payment", vec![taken(1, Succeeded)], vec![paid(1, in_period), again], &["inv_2 []"]),
        ("another provider's charge", vec![], vec![foreign], &[]),
        ("a second payment", vec![taken(1, Succeeded), ProviderPayment { id: "pi_7".into(), ..taken(1, Succeeded) }], vec![paid(1, in_period)], &["inv_1 [pi_7]"]),
    ];
    for (name, payments, charges, right) in table {
        assert_eq!(compared(payments, &charges).1, right, "{name}");
    }
}

#[test]
fn attempts_without_a_verdict_count_whatever_their_age() {
    let at = |standing, lease_expires_at_ms, created_at_ms| BookedCharge {
        standing,
        lease_expires_at_ms,
        created_at_ms,
        first_sent_at_ms: BEGUN - 1,
        payment_id: None,
        ..booked(standing)
    };
    let old = SINCE - 50 * DAY;
    #[rustfmt::skip]
    let table = [
        ("in flight", at(Standing::Pending, BEGUN + 1, BEGUN), 1, false),
        ("in flight, begun after the audit", at(Standing::Pending, BEGUN + 1, BEGUN + 1), 1, false),
        ("in the provider's hands, and not due", at(Standing::Processing, BEGUN - 1, old), 1, false),
        ("due for a day", at(Standing::Pending, BEGUN - DAY, old), 0, true),
        ("in review for long", at(Standing::NeedsReview, BEGUN - DAY, old), 0, true),
    ];
    for (name, charge, in_flight, is_suspect) in table {
        let (counts, suspects) = compared(vec![], &[charge]);
        assert_eq!((counts.charges, counts.in_flight), (1, in_flight), "{name}");
        assert_eq!(!suspects.is_empty(), is_suspect, "{name}");
    }
}

#[test]
fn an_attempt_in_flight_that_gets_a_second_look_is_counted_there() {
    let in_flight = BookedCharge {
        lease_expires_at_ms: BEGUN + 1,
        standing: Standing::Pending,
        ..paid(1, BEGUN)
    };
    let payments = vec![taken(1, PaymentStatus::Succeeded)];
    let (counts, suspects) = compared(payments, &[in_flight]);
    assert_eq!(suspects, ["inv_1 [pi_1]"]);
    assert_eq!(counts.in_flight, 0);
}

#[test]
fn only_what_was_compared_is_counted() {
    let charges = [
        paid(1, SINCE),
        paid(2, SINCE - 1),
        BookedCharge {
            provider: "mock".into(),
            ..paid(3, BEGUN)
        },
    ];
    let payments = vec![
        taken(1, PaymentStatus::Succeeded),
        taken(2, PaymentStatus::Succeeded),
        taken(4, PaymentStatus::Canceled),
    ];
    let (counts, suspects) = compared(payments, &charges);
    assert_eq!(suspects, Vec::<String>::new());
    let right = Counts {
        charges: 2,
        payments: 3,
        in_flight: 0,
        skipped_other_provider: 1,
    };
    assert_eq!(counts, right);
}
