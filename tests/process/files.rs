//! Open files are few. Without them nothing is sent that is not reserved.

use tokio::net::TcpStream;

use crate::support::{TestApp, answer_on, eventually};

on_both_stores! {
    async fn without_open_files_nothing_is_sent_that_is_not_reserved(engine) {
        let app = TestApp::start(engine).await;
        let service = app.service().open_files(64).start().await;
        for n in 0..5 {
            service.invoice(&format!("inv_{n}")).await;
        }
        let address = service.url.strip_prefix("http://").unwrap();

        // A caller that came before the crowd.
        let early = service.connect().await;
        let mut idle = Vec::new();
        // More than it can open files for, and fewer than would overflow the queue of connections not yet accepted.
        for _ in 0..150 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        eventually("the files are used up", async || {
            let open = std::fs::read_dir(format!("/proc/{}/fd", service.id())).unwrap().count();
            (open >= 64).then_some(())
        })
        .await;
        let scarce = answer_on(service.charge_on(early, "inv_0").await)
            .await
            .expect("no answer");
        app.check_truth("inv_0", &scarce);
        assert!([201, 202, 503].contains(&scarce.status), "{scarce:#?}");
        let sent = app.sends();
        let reserved = app.database.words("SELECT key AS value FROM idempotency_keys WHERE operation = 'charge'").await;
        assert!(sent.iter().all(|key| reserved.contains(key)), "{sent:?} {reserved:?}");
        drop(idle);

        let mut replies = Vec::new();
        for n in 0..5 {
            let id = format!("inv_{n}");
            let paid = eventually("the invoice is paid", async || {
                let reply = service.charge(&id).await;
                app.check_truth(&id, &reply);
                (reply.status == 201).then_some(reply)
            });
            replies.push(paid.await);
        }
        app.check_oracles(&replies).await;
    }
}
