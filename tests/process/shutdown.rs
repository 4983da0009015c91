//! The process is told to stop while it charges.

use std::time::{Duration, Instant};

use crate::support::{TestApp, answer_on, eventually, reset};

on_both_stores! {
    async fn a_signal_lets_a_charge_end_that_nobody_waits_for(engine) {
        for signal in ["TERM", "INT"] {
            let app = TestApp::start(engine).await;
            let mut service = app.serve().await;
            service.invoice("inv_1").await;
            app.mock.set_latency(Duration::from_secs(1));

            let connection = service.charge_unread("inv_1").await;
            app.sent(1).await;
            reset(connection);
            service.signal(signal);
            let status = service.ended().await;

            assert_eq!(status.code(), Some(0), "{signal}");
            assert_eq!(app.attempts("inv_1").await, ["succeeded"], "{signal}");
            app.check_oracles(&[]).await;
        }
    }

    async fn a_signal_lets_a_waiting_caller_have_its_answer_while_another_process_serves(engine) {
        for signal in ["TERM", "INT"] {
            let app = TestApp::start(engine).await;
            let mut stopping = app.serve().await;
            let other = app.serve().await;
            stopping.invoice("inv_1").await;
            stopping.invoice("inv_2").await;
            app.mock.set_latency(Duration::from_secs(1));

            let connection = stopping.charge_unread("inv_1").await;
            app.sent(1).await;
            stopping.signal(signal);
            let elsewhere = other.charge("inv_2").await;
            elsewhere.assert(201, "", "yes", "not_needed");
            let answer = answer_on(connection).await.expect("no answer");

            answer.assert(201, "", "yes", "not_needed");
            assert_eq!(stopping.ended().await.code(), Some(0), "{signal}");
            app.check_oracles(&[answer, elsewhere]).await;
        }
    }

    async fn a_grace_shorter_than_the_charge_is_kept_and_the_lease_recovers_the_charge(engine) {
        for is_connected in [true, false] {
            let app = TestApp::start(engine).await;
            let mut stopping = app.service().set("SHUTDOWN_GRACE", "2s").start().await;
            stopping.invoice("inv_1").await;
            app.mock.set_latency(Duration::from_secs(8));

            let connection = stopping.charge_unread("inv_1").await;
            app.sent(1).await;
            let connection = match is_connected {
                true => Some(connection),
                false => { reset(connection); None }
            };
            let told = Instant::now();
            stopping.signal("TERM");
            stopping.ended().await;
            let took = told.elapsed();
            drop(connection);

            assert!(took < Duration::from_secs(7), "connected {is_connected}: {took:?}");
            assert_eq!(app.attempts("inv_1").await, ["pending"]);
            let service = app.serve().await;
            service.charge("inv_1").await.assert(409, "charge_in_progress", "unknown", "later");
            eventually("the provider has executed it", async || (app.mock.paid("inv_1") == 1).then_some(())).await;
            app.age_past_leases().await;
            let reply = service.charge("inv_1").await;
            reply.assert(201, "", "yes", "not_needed");
            app.check_oracles(&[reply]).await;
        }
    }
}
