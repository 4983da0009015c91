//! What an agent may spend.

use std::time::Duration;

use chargeonce::payments::mock::Fault;
use futures_util::future::join_all;
use serde_json::json;

use crate::access::{AGENT, OTHER, charge_as, with_keys};
use crate::support::{Engine, Reply, SENDS_MAX};

const DAY: Duration = Duration::from_secs(86_400);

on_both_stores! {
    async fn parallel_charges_on_all_replicas_together_stay_within_the_day(engine) {
        let first = with_keys(engine, &[("AGENT_LIMITS", "bot: usd charge=1250 day=4999")]).await;
        // A file has one process; its calls are parallel all the same.
        let second = match engine {
            Engine::Postgres => Some(first.replica().start().await),
            Engine::Sqlite => None,
        };
        let ids: Vec<String> = (0..10).map(|n| format!("inv_{n}")).collect();
        for id in &ids {
            first.invoice(id).await;
        }
        let replicas = [&first, second.as_ref().unwrap_or(&first)];
        let mut replies = join_all(ids.iter().enumerate().map(|(n, id)| charge_as(replicas[n % 2], AGENT, id))).await;

        let through: Vec<&Reply> = replies.iter().filter(|reply| reply.status == 201).collect();
        assert_eq!(through.len(), 3, "{replies:#?}");
        for reply in replies.iter().filter(|reply| reply.status != 201) {
            reply.assert(403, "limit_exceeded", "no", "later");
            let seconds: i64 = reply.text("retryAfterSeconds").parse().unwrap();
            assert!((1..=86_400).contains(&seconds), "{reply:#?}");
        }
        assert_eq!(first.sends().len(), 3);
        let reserved = "SELECT COUNT(*) AS value FROM idempotency_keys WHERE operation = 'charge'";
        assert_eq!(first.database.number(reserved).await, 3, "a refused charge reserves nothing");

        // Repetitions are no new spending, and other keys have their own limits.
        let paid = through[0].text("invoiceId");
        let refused = replies.iter().position(|reply| reply.status == 403).unwrap();
        let replay = charge_as(&first, AGENT, &paid).await;
        assert!(replay.status == 201 && replay.is_replay(), "{replay:#?}");
        let others = charge_as(&first, OTHER, &ids[refused]).await;
        others.assert(201, "", "yes", "not_needed");
        replies.extend([replay, others]);
        first.age(DAY).await;
        let next_day: Vec<Reply> = join_all(ids.iter().map(|id| charge_as(&first, AGENT, id))).await;
        assert_eq!(next_day.iter().filter(|reply| reply.status == 201 && !reply.is_replay()).count(), 3, "{next_day:#?}");
        replies.extend(next_day);
        first.check_oracles(&replies).await;
    }

    async fn an_attempt_that_fails_or_is_given_back_gives_its_room_back(engine) {
        let app = with_keys(engine, &[("AGENT_LIMITS", "*: usd day=1250")]).await;
        app.invoice_with("poor", json!({"paymentMethodId": "pm_card_visa_chargeDeclinedInsufficientFunds"})).await;
        for id in ["away", "paid", "late"] {
            app.invoice(id).await;
        }
        let mut replies = Vec::new();
        replies.push(charge_as(&app, AGENT, "poor").await);
        replies[0].assert(402, "charge_declined", "no", "later");
        app.fault("away", Fault::Unauthorized, 50);
        replies.push(charge_as(&app, AGENT, "away").await);
        replies[1].assert(503, "provider_unavailable", "no", "later");
        replies.push(charge_as(&app, AGENT, "paid").await);
        replies[2].assert(201, "", "yes", "not_needed");
        replies.push(charge_as(&app, AGENT, "late").await);
        replies[3].assert(403, "limit_exceeded", "no", "later");
        // The room is another agent's own, too.
        replies.push(charge_as(&app, OTHER, "late").await);
        replies[4].assert(201, "", "yes", "not_needed");
        app.check_oracles(&replies).await;
    }

    async fn a_charge_without_a_verdict_takes_room_and_is_never_refused_itself(engine) {
        let app = with_keys(engine, &[("AGENT_LIMITS", "bot: usd day=1250")]).await;
        app.invoice("unknown").await;
        app.invoice("next").await;
        app.fault("unknown", Fault::DropAfter, SENDS_MAX);
        let mut replies = vec![charge_as(&app, AGENT, "unknown").await];
        replies[0].assert(202, "", "unknown", "later");
        replies.push(charge_as(&app, AGENT, "next").await);
        replies[1].assert(403, "limit_exceeded", "no", "later");
        replies.push(charge_as(&app, AGENT, "unknown").await);
        replies[2].assert(409, "charge_in_progress", "unknown", "later");
        app.past_lease().await;
        replies.push(charge_as(&app, AGENT, "unknown").await);
        replies[3].assert(201, "", "yes", "not_needed");
        assert_eq!(app.sends().iter().collect::<std::collections::BTreeSet<_>>().len(), 1);
        app.check_oracles(&replies).await;
    }

    async fn what_a_key_may_never_charge_is_refused_until_something_is_changed(engine) {
        let limits = "bot: usd charge=1249 day=5000, jpy charge=9000, gbp day=1000";
        let app = with_keys(engine, &[("AGENT_LIMITS", limits)]).await;
        for currency in ["usd", "eur", "gbp", "jpy"] {
            app.invoice_with(currency, json!({"currency": currency})).await;
        }
        let mut replies = Vec::new();
        for currency in ["usd", "eur", "gbp"] {
            let reply = charge_as(&app, AGENT, currency).await;
            reply.assert(403, "limit_exceeded", "no", "after_change");
            assert_eq!(app.attempts(currency).await, Vec::<String>::new());
            replies.push(reply);
        }
        assert_eq!(app.mock.requests().len(), 0);
        // What has no line has no limit: another currency's limit, another key, an operator.
        replies.push(charge_as(&app, AGENT, "jpy").await);
        replies.push(charge_as(&app, OTHER, "usd").await);
        replies.push(app.charge("eur").await);
        replies.push(app.charge("gbp").await);
        for reply in &replies[3..] {
            reply.assert(201, "", "yes", "not_needed");
        }
        app.check_oracles(&replies).await;
    }

    async fn the_limits_and_the_name_of_a_key_hold_for_its_tools(engine) {
        let app = with_keys(engine, &[("AGENT_LIMITS", "bot: usd day=1250")]).await;
        app.invoice("inv_1").await;
        app.invoice("inv_2").await;
        let agent = app.replica().key(AGENT).start().await;

        let paid = agent.tool_charge("inv_1").await;
        let refused = agent.tool_charge("inv_2").await;

        paid.assert(false, "", "yes", "not_needed");
        refused.assert(true, "limit_exceeded", "no", "later");
        assert_eq!(app.sends(), ["charge:inv_1"]);
        let list = app.get("/v1/charges").await.json();
        assert_eq!(list["data"][0]["askedBy"]["keyName"], "bot", "{list:#}");
        let seen = agent.get("/v1/charges").await.json();
        assert!(seen["data"][0].get("askedBy").is_none(), "{seen:#}");
        app.check_oracles(&[]).await;
    }
}
