//! Open files are few. Callers that only hold connections take none that a charge needs, and without any nothing is sent that
//! is not reserved.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;

use crate::support::{Service, TestApp, answer_on, eventually, real_time};

/// How often the server tries to accept again while it has no file, and how often at the same moment at most.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

on_both_stores! {
    async fn a_crowd_of_idle_callers_leaves_the_files_that_a_charge_needs(engine) {
        let app = TestApp::start(engine).await;
        let service = app.service().open_files(64).start().await;
        for n in 0..5 {
            service.invoice(&format!("inv_{n}")).await;
        }

        // A caller that came before the crowd.
        let early = service.connect().await;
        let mut crowd = Vec::new();
        // More than it can open files for, and fewer than would overflow the queue of connections not yet accepted.
        for _ in 0..150 {
            crowd.push(service.connect().await);
        }
        let charged = answer_on(service.charge_on(early, "inv_0").await).await.expect("no answer");
        charged.assert(201, "", "yes", "not_needed");
        assert!(open_files(&service) < 64, "{}", open_files(&service));
        assert!(!service.stderr().contains("Error accepting"), "{}", service.stderr());
        drop(crowd);

        let mut replies = vec![charged];
        for n in 0..5 {
            let reply = service.charge(&format!("inv_{n}")).await;
            reply.assert(201, "", "yes", "not_needed");
            replies.push(reply);
        }
        app.check_oracles(&replies).await;
    }

    async fn without_open_files_a_charge_is_a_503_and_all_goes_on_once_there_are_some(engine) {
        let app = TestApp::start(engine).await;
        let mut service = app
            .service()
            // Nobody's time is over while the others starve.
            .set("CONNECTION_IDLE_TIME", "10m")
            .set("REQUEST_HEADER_TIME", "10m")
            .start()
            .await;
        service.invoice("inv_1").await;
        let early = service.connect().await;
        let mut watcher = service.connect().await;
        service.is_live_on(&mut watcher).await;

        // No file of any number may be opened; those that are open stay. There is no connection to the provider yet.
        let starved = Instant::now();
        service.limit_open_files("3");
        let refused = answer_on(service.charge_on(early, "inv_1").await).await.expect("no answer");
        refused.assert(503, "provider_unavailable", "no", "later");
        assert!(refused.header("retry-after").is_some());
        let mut late = service.connect().await;
        eventually("accepting has failed", async || service.stderr().contains("Error accepting").then_some(())).await;
        // Open connections are served, the process neither ends nor tries without a pause.
        real_time(4 * ACCEPT_PAUSE).await;
        service.is_live_on(&mut watcher).await;
        let tries = service.stderr().matches("Error accepting").count();
        let most = starved.elapsed().as_millis() / ACCEPT_PAUSE.as_millis() + 2;
        assert!(u128::try_from(tries).unwrap() <= most, "{tries} tries, at most {most} were due");
        assert!(service.is_running());
        assert_eq!(app.sends(), Vec::<String>::new());

        service.limit_open_files("1024");
        service.is_live_on(&mut late).await;
        let charged = service.charge("inv_1").await;
        charged.assert(201, "", "yes", "not_needed");
        assert_eq!(app.sends(), ["charge:inv_1"]);
        app.check_oracles(&[refused, charged]).await;
    }

    async fn a_caller_that_takes_no_answer_does_not_keep_its_connection(engine) {
        let app = TestApp::start(engine).await;
        let service = app.service().set("ANSWER_READ_TIME", "5s").start().await;
        let before = open_files_at_rest(&service).await;

        let mut caller = service.connect().await;
        // So many answers that no buffer between the two holds them.
        let request = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
        caller.write_all(request.repeat(50).as_bytes()).await.unwrap();
        eventually("the caller is there", async || (open_files(&service) > before).then_some(())).await;
        eventually("its connection is cut", async || (open_files(&service) <= before).then_some(())).await;

        drop(caller);
        app.check_oracles(&[]).await;
    }

    async fn no_more_connections_are_open_than_are_set_and_the_others_wait(engine) {
        const MOST: usize = 8;
        let app = TestApp::start(engine).await;
        let service = app
            .service()
            .set("MAX_CONNECTIONS", &MOST.to_string())
            .set("REQUEST_CONCURRENCY", "4")
            .set("CONNECTION_BACKLOG", "200")
            // Nobody's time is over while the test looks.
            .set("REQUEST_HEADER_TIME", "10m")
            .start()
            .await;
        let before = open_files_at_rest(&service).await;

        let mut crowd = Vec::new();
        for _ in 0..100 {
            crowd.push(service.connect().await);
        }
        let mut probe = service.connect().await;
        // Each worker has an equal share, so it may be a few less on a machine whose processors do not divide it.
        eventually("connections are accepted", async || (open_files(&service) > before + MOST / 2).then_some(())).await;
        for _ in 0..20 {
            assert!(open_files(&service) <= before + MOST, "{} of {before}", open_files(&service));
            real_time(Duration::from_millis(20)).await;
        }
        drop(crowd);

        service.is_live_on(&mut probe).await;
        app.check_oracles(&[]).await;
    }
}

/// How many are open when nobody is connected. It listens before all of its threads have begun, and each opens some of its own.
async fn open_files_at_rest(service: &Service) -> usize {
    service.is_live_on(&mut service.connect().await).await;
    let (mut count, mut agreed) = (open_files(service), 0);
    eventually("nothing more is opened", async || {
        real_time(Duration::from_millis(50)).await;
        let before = std::mem::replace(&mut count, open_files(service));
        agreed = if count == before { agreed + 1 } else { 0 };
        (agreed == 5).then_some(count)
    })
    .await
}

fn open_files(service: &Service) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", service.id()));
    open.unwrap().count()
}
