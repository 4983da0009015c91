use super::*;

const HOUR: i64 = 3_600_000;
const NOW: i64 = 100 * HOUR;

fn rules() -> Rules {
    Rules {
        provider: "stripe".into(),
        key_window_ms: 20 * HOUR,
    }
}

/// The first attempt of `inv_1` over 12.50 USD, made an hour ago; its lease has just ended.
pub fn charge(standing: Standing) -> BookedCharge {
    BookedCharge {
        id: "chg_1".into(),
        invoice_id: "inv_1".into(),
        idempotency_key: "charge:inv_1".into(),
        standing,
        amount_minor: 1250,
        currency: "usd".into(),
        provider: "stripe".into(),
        payment_id: Some("pi_1".into()),
        evidence: None,
        created_at_ms: NOW - HOUR,
        lease_expires_at_ms: NOW,
        recover_after_ms: 0,
        first_sent_at_ms: NOW - HOUR,
        idle: false,
    }
}

pub fn payment(id: &str, status: PaymentStatus) -> ProviderPayment {
    ProviderPayment {
        id: id.into(),
        status,
        amount_minor: 1250,
        currency: "usd".into(),
        invoice_id: Some("inv_1".into()),
        installation_id: Some("ins_1".into()),
        charge_key: Some("charge:inv_1".into()),
        failure: None,
    }
}

fn case(charges: Vec<BookedCharge>, payments: Vec<ProviderPayment>) -> Case {
    let claims = charges
        .iter()
        .filter(|charge| charge.standing == Standing::Succeeded && charge.provider == "stripe")
        .filter_map(|charge| {
            Some(Claim {
                payment_id: charge.payment_id.clone()?,
                charge_id: charge.id.clone(),
                invoice_id: charge.invoice_id.clone(),
            })
        })
        .collect();
    Case {
        invoice_id: Some("inv_1".into()),
        installation_id: "ins_1".into(),
        books: BookedInvoice {
            status: Some(InvoiceStatus::Open),
            charges,
        },
        payments,
        claims,
    }
}

fn second(standing: Standing) -> BookedCharge {
    BookedCharge {
        id: "chg_2".into(),
        idempotency_key: "charge:inv_1:2".into(),
        ..charge(standing)
    }
}

/// Each finding as `kind charge payment`.
fn found(case: &Case) -> Vec<String> {
    let judged = judge(case, &rules(), NOW);
    let word = |id: Option<String>| id.unwrap_or_else(|| "-".into());
    for finding in &judged.findings {
        assert!(finding.detail.ends_with('.'), "{finding:?}");
    }
    judged
        .findings
        .into_iter()
        .map(|finding| {
            let kind = finding.kind.as_str();
            format!(
                "{kind} {} {}",
                word(finding.charge_id),
                word(finding.payment_id)
            )
        })
        .collect()
}

#[test]
fn what_both_sides_say_is_held_against_each_other() {
    use PaymentStatus::{Canceled, Processing, RequiresPaymentMethod, Succeeded as Paid};
    use Standing::{Failed, NeedsReview, Pending, Succeeded};
    let pi = payment;
    let unnamed = |standing| BookedCharge {
        payment_id: None,
        ..charge(standing)
    };
    let foreign = BookedCharge {
        provider: "mock".into(),
        payment_id: Some("pi_mock".into()),
        ..charge(Succeeded)
    };
    #[rustfmt::skip]
    let table: Vec<(&str, Vec<BookedCharge>, Vec<ProviderPayment>, &[&str])> = vec![
        ("paid on both sides", vec![charge(Succeeded)], vec![pi("pi_1", Paid)], &[]),
        ("a second attempt on the first one's payment", vec![charge(Failed), second(Succeeded)], vec![pi("pi_1", Paid)], &[]),
        ("failed on both sides", vec![charge(Failed)], vec![pi("pi_1", RequiresPaymentMethod)], &[]),
        ("paid here, unknown there", vec![charge(Succeeded)], vec![], &["paid_here_not_there chg_1 pi_1"]),
        ("paid here, cancelled there", vec![charge(Succeeded)], vec![pi("pi_1", Canceled)], &["paid_here_not_there chg_1 pi_1"]),
        ("paid here, without verdict there", vec![charge(Succeeded)], vec![pi("pi_1", Processing)], &["paid_here_not_there chg_1 pi_1"]),
        ("failed here, paid there", vec![charge(Failed)], vec![pi("pi_1", Paid)], &["paid_there_not_here chg_1 pi_1"]),
        ("never tried here, paid there", vec![], vec![pi("pi_1", Paid)], &["paid_there_not_here - pi_1"]),
        ("cancelled there, and nothing here", vec![], vec![pi("pi_1", Canceled)], &[]),
        ("a second payment beside the charge's", vec![charge(Succeeded)], vec![pi("pi_1", Paid), pi("pi_2", Paid)], &["paid_twice chg_1 pi_2"]),
        ("two payments and no charge", vec![], vec![pi("pi_1", Paid), pi("pi_2", Paid)], &["paid_there_not_here - pi_1", "paid_twice - pi_2"]),
        ("a second payment beside a vanished one", vec![charge(Succeeded)], vec![pi("pi_2", Paid)], &["paid_here_not_there chg_1 pi_1", "paid_twice chg_1 pi_2"]),
        ("a payment beside another provider's", vec![foreign.clone()], vec![pi("pi_1", Paid)], &["paid_twice chg_1 pi_1"]),
        ("another provider's alone cannot be compared", vec![foreign], vec![], &[]),
        ("in review, paid there", vec![charge(NeedsReview)], vec![pi("pi_1", Paid)], &["review_open chg_1 pi_1"]),
        ("in review, without a payment", vec![unnamed(NeedsReview)], vec![], &["review_open chg_1 -"]),
        ("in review, paid twice", vec![charge(NeedsReview)], vec![pi("pi_1", Paid), pi("pi_2", Paid)], &["review_open chg_1 pi_1", "paid_twice chg_1 pi_2"]),
        ("in flight, paid a moment ago", vec![unnamed(Pending)], vec![pi("pi_1", Paid)], &[]),
        ("in flight, after a decline on the same payment", vec![charge(Failed), second(Pending)], vec![pi("pi_1", Paid)], &[]),
        ("in flight, and paid twice", vec![unnamed(Pending)], vec![pi("pi_1", Paid), pi("pi_2", Paid)], &["paid_twice chg_1 pi_2"]),
        ("in flight on an open payment, another one paid", vec![charge(Pending)], vec![pi("pi_1", RequiresPaymentMethod), pi("pi_2", Paid)], &[]),
    ];
    for (name, charges, payments, right) in table {
        assert_eq!(found(&case(charges, payments)), right, "{name}");
    }
}

#[test]
fn an_amount_or_a_currency_that_differs_is_told_with_both_sides() {
    let more = ProviderPayment {
        amount_minor: 1251,
        ..payment("pi_1", PaymentStatus::Succeeded)
    };
    let euro = ProviderPayment {
        currency: "eur".into(),
        ..payment("pi_1", PaymentStatus::Succeeded)
    };
    for (standing, payment, others) in [
        (Standing::Succeeded, more.clone(), 0),
        (Standing::Succeeded, euro, 0),
        (Standing::NeedsReview, more.clone(), 1),
    ] {
        let case = case(vec![charge(standing)], vec![payment.clone()]);
        let mut findings = judge(&case, &rules(), NOW).findings;
        let last = findings.pop().unwrap();
        assert_eq!(last.kind, FindingKind::AmountDiffers);
        assert_eq!(last.ours, Some(ours(&charge(standing))));
        assert_eq!(last.theirs, Some(theirs(&payment)));
        assert_eq!(findings.len(), others);
    }
    let failed = case(vec![charge(Standing::Failed)], vec![more]);
    assert_eq!(
        found(&failed),
        ["paid_there_not_here chg_1 pi_1"],
        "told once"
    );
}

#[test]
fn one_payment_pays_one_charge_that_of_the_invoice_which_it_names() {
    let elsewhere = |charge_id: &str| Claim {
        payment_id: "pi_1".into(),
        charge_id: charge_id.into(),
        invoice_id: "inv_2".into(),
    };
    let of = |named: Option<&str>| ProviderPayment {
        invoice_id: named.map(str::to_owned),
        ..payment("pi_1", PaymentStatus::Succeeded)
    };
    let taken = &["paid_here_not_there chg_1 pi_1"][..];
    #[rustfmt::skip]
    let table = [
        ("ours by name", Some("inv_1"), "chg_0", &[][..]),
        ("the other's by name", Some("inv_2"), "chg_9", taken),
        ("nobody's by name, we came first", None, "chg_9", &[]),
        ("nobody's by name, we came last", None, "chg_0", taken),
    ];
    for (name, named, other, right) in table {
        let mut case = case(vec![charge(Standing::Succeeded)], vec![of(named)]);
        case.claims.push(elsewhere(other));
        assert_eq!(found(&case), right, "{name}");
    }
    let mut paid_elsewhere = case(vec![], vec![of(Some("inv_1"))]);
    paid_elsewhere.claims.push(elsewhere("chg_9"));
    assert_eq!(
        found(&paid_elsewhere),
        Vec::<String>::new(),
        "an operator has decided what it pays"
    );
}

#[test]
fn money_is_told_apart_by_what_our_books_lack() {
    let paid = || vec![payment("pi_1", PaymentStatus::Succeeded)];
    #[rustfmt::skip]
    let table = [
        (Some("inv_1"), Some(InvoiceStatus::Open), "no charge of the invoice is recorded as paid by it"),
        (Some("inv_1"), Some(InvoiceStatus::Void), "the invoice is void here"),
        (Some("inv_1"), None, "our books have no such invoice"),
        (None, None, "it carries our mark without naming an invoice"),
    ];
    for (invoice_id, status, words) in table {
        let invoice_id = invoice_id.map(str::to_owned);
        let mut case = case(vec![], paid());
        case.payments[0].invoice_id.clone_from(&invoice_id);
        case.invoice_id.clone_from(&invoice_id);
        case.books.status = status;
        let findings = judge(&case, &rules(), NOW).findings;
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].kind, FindingKind::PaidThereNotHere);
        assert_eq!(findings[0].invoice_id, invoice_id);
        assert!(findings[0].detail.contains(words), "{findings:?}");
    }
}

#[test]
fn an_attempt_without_a_verdict_is_late_by_its_times_alone() {
    const MINUTE: i64 = 60_000;
    let in_flight = Live::InFlight;
    let late = |older_than_window, overdue| Live::Late {
        older_than_window,
        overdue,
    };
    let base = charge(Standing::Pending);
    let sent = |hours: i64, charge: BookedCharge| BookedCharge {
        first_sent_at_ms: NOW - hours * HOUR,
        ..charge
    };
    let lease = |until_ms: i64| BookedCharge {
        lease_expires_at_ms: until_ms,
        ..base.clone()
    };
    let idle = |charge: BookedCharge| BookedCharge {
        idle: true,
        ..charge
    };
    let put_off = |until_ms: i64, charge: BookedCharge| BookedCharge {
        recover_after_ms: until_ms,
        ..charge
    };
    let foreign = |charge: BookedCharge| BookedCharge {
        provider: "mock".into(),
        ..charge
    };
    #[rustfmt::skip]
    let table = [
        ("the lease runs", lease(NOW + 1), in_flight),
        ("the lease runs, and somebody works on an old one", sent(30, lease(NOW + 1)), in_flight),
        ("the lease has just ended", lease(NOW), in_flight),
        ("nine minutes ago", lease(NOW - 9 * MINUTE), in_flight),
        ("a moment too little", lease(NOW - 10 * MINUTE + 1), in_flight),
        ("ten minutes ago", lease(NOW - 10 * MINUTE), late(false, true)),
        ("put off until later", put_off(NOW + HOUR, lease(NOW - HOUR)), in_flight),
        ("put off until ten minutes ago", put_off(NOW - 10 * MINUTE, lease(NOW - HOUR)), late(false, true)),
        ("a moment younger than the window", BookedCharge { first_sent_at_ms: NOW - 20 * HOUR + 1, ..lease(NOW) }, in_flight),
        ("as old as the window", sent(20, lease(NOW)), late(true, false)),
        ("old and put off", put_off(NOW + HOUR, sent(20, lease(NOW))), late(true, false)),
        ("old, idle, with a lease that runs", idle(sent(20, lease(NOW + 1))), late(true, false)),
        ("young, idle, with a lease that runs", idle(lease(NOW + 1)), in_flight),
        ("old and due for long", sent(20, lease(NOW - HOUR)), late(true, true)),
        ("another provider's is put off for ever", foreign(lease(NOW - HOUR)), in_flight),
        ("another provider's, old", foreign(sent(20, lease(NOW - HOUR))), late(true, false)),
    ];
    for (name, charge, right) in table {
        assert_eq!(live(&charge, &rules(), NOW), right, "{name}");
        let judged = judge(&case(vec![charge], vec![]), &rules(), NOW);
        let right: &[FindingKind] = match right {
            Live::InFlight => &[],
            Live::Late {
                older_than_window: true,
                overdue: true,
            } => &[FindingKind::OlderThanWindow, FindingKind::Overdue],
            Live::Late {
                older_than_window: true,
                overdue: false,
            } => &[FindingKind::OlderThanWindow],
            Live::Late {
                older_than_window: false,
                overdue: _,
            } => &[FindingKind::Overdue],
        };
        let kinds: Vec<FindingKind> = judged.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, right, "{name}");
        assert_eq!(judged.in_flight, u64::from(right.is_empty()), "{name}");
    }
}
