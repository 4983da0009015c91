//! Chance failures: who is hit, who never is, and that a run can be repeated.

use super::super::{ChaosPlan, Fault, FaultRule, MockReply, MockRequest, MockStripe};
use super::{charge, charge_body, get, paid};

fn plan(rate: f64, faults: Vec<Fault>) -> ChaosPlan {
    ChaosPlan {
        seed: 42,
        rate,
        faults,
        delay_ms: 0,
    }
}

/// What forty POSTs come to, each with a key of its own.
async fn forty(mock: &MockStripe) -> Vec<u16> {
    let mut statuses = Vec::new();
    for number in 0..40 {
        let reply = mock.handle(charge(&format!("k{number}"))).await;
        statuses.push(match reply {
            MockReply::Answer(answer) => answer.status,
            MockReply::Cut => 0,
        });
    }
    statuses
}

#[tokio::test]
async fn equal_seeds_and_orders_give_equal_failures_and_the_counts_tell_them() {
    let faults = vec![Fault::DropBefore, Fault::Error503];
    let (one, other) = (MockStripe::new(), MockStripe::new());
    one.set_chaos(plan(0.3, faults.clone())).unwrap();
    other.set_chaos(plan(0.3, faults)).unwrap();
    let statuses = forty(&one).await;
    assert_eq!(statuses, forty(&other).await);

    let chaos = one.chaos().unwrap();
    let of = |status| statuses.iter().filter(|known| **known == status).count() as u64;
    assert_eq!(chaos.posts, 40);
    assert_eq!(chaos.injected[&Fault::DropBefore], of(0));
    assert_eq!(chaos.injected[&Fault::Error503], of(503));
    assert_eq!(of(0) + of(503) + of(200), 40);
    assert_eq!(paid(&one) as u64, of(200));
}

#[tokio::test]
async fn replays_and_reads_are_spared_and_posts_without_a_key_are_not() {
    let mock = MockStripe::new();
    assert!(matches!(
        mock.handle(charge("k")).await,
        MockReply::Answer(_)
    ));
    mock.set_chaos(plan(1.0, vec![Fault::DropAfter])).unwrap();

    let replay = mock.handle(charge("k")).await;
    assert!(matches!(replay, MockReply::Answer(answer) if answer.status == 200));
    assert_eq!(get(&mock, "/v1/payment_intents").await.0, 200);
    assert_eq!(mock.chaos().unwrap().posts, 0);

    // Sent twice without a key and unanswered both times: the customer has paid twice more.
    for _ in 0..2 {
        let body = charge_body("inv_1", "pm_card_visa");
        let request = MockRequest::unkeyed("POST", "/v1/payment_intents", &body);
        assert!(matches!(mock.handle(request).await, MockReply::Cut));
    }
    assert_eq!(paid(&mock), 3);
}

#[tokio::test]
async fn a_scripted_fault_goes_before_chance() {
    let mock = MockStripe::new();
    mock.set_chaos(plan(1.0, vec![Fault::DropBefore])).unwrap();
    mock.add_fault(FaultRule::once(Fault::RateLimit));
    let reply = mock.handle(charge("k")).await;
    assert!(matches!(reply, MockReply::Answer(answer) if answer.status == 429));
    assert_eq!(mock.chaos().unwrap().posts, 0);
}

#[tokio::test]
async fn a_rate_of_zero_stops_it_and_keeps_the_counts() {
    let mock = MockStripe::new();
    mock.set_chaos(plan(1.0, vec![Fault::Error503])).unwrap();
    forty(&mock).await;
    mock.set_chaos(plan(0.0, vec![])).unwrap();
    assert_eq!(forty(&mock).await, [200; 40]);
    assert_eq!(mock.chaos().unwrap().injected[&Fault::Error503], 40);
}

#[test]
fn a_plan_that_makes_no_sense_is_refused() {
    let table = [
        (plan(1.1, vec![Fault::Delay]), false),
        (plan(-0.1, vec![Fault::Delay]), false),
        (plan(f64::NAN, vec![Fault::Delay]), false),
        (plan(0.5, vec![]), false),
        (plan(0.0, vec![]), true),
        (plan(1.0, vec![Fault::Delay]), true),
    ];
    for (plan, accepted) in table {
        assert_eq!(plan.check().is_ok(), accepted, "{plan:?}");
    }
}
