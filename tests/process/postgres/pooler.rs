//! PgBouncer in transaction mode between the service and PostgreSQL: every transaction may meet another server session,
//! so that nothing may live in a session.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;

use crate::support::{Engine, Process, TestApp, eventually, free_port, report};

const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: make test"]
async fn two_processes_share_two_pooled_sessions() {
    if !Path::new(PGBOUNCER).exists() {
        report("NOT RUN: the service behind PgBouncer (pgbouncer is not installed)");
        return;
    }
    let app = TestApp::start(Engine::Postgres).await;
    let (_pooler, url) = start_pooler(&app.database.url).await;
    let start = || {
        app.service()
            .set("DATABASE_URL", &url)
            .set("DATABASE_STATEMENT_CACHE", "off")
            .start()
    };
    // Both at once, on an empty database: one of them brings the schema up to date while the other one waits.
    let services = tokio::join!(start(), start());
    let services = [services.0, services.1];
    let ids: Vec<String> = (0..200).map(|n| format!("inv_{n}")).collect();
    app.mock.set_latency(Duration::from_millis(200));

    let one = async |n: usize, id: &String| {
        services[n % 2].invoice(id).await;
        services[(n + 1) % 2].charge(id).await
    };
    let replies = join_all(ids.iter().enumerate().map(|(n, id)| one(n, id))).await;
    // Idle sessions are checked before they are used again.
    let replays = join_all(
        ids.iter()
            .enumerate()
            .map(|(n, id)| services[n % 2].charge(id)),
    )
    .await;

    for reply in replies.iter().chain(&replays) {
        reply.assert(201, "", "yes", "not_needed");
    }
    for service in &services {
        let log = service.stderr();
        assert!(
            !log.contains("prepared statement") && !log.contains("storage unavailable"),
            "{log}"
        );
    }
    let locks = "SELECT count(*) AS value FROM pg_locks WHERE locktype = 'advisory' \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(
        app.database.number(locks).await,
        0,
        "a lock is left behind in a pooled session"
    );
    // A third one starts while everything is up to date.
    drop(start().await);
    app.check_oracles(&[replies, replays].concat()).await;
}

/// Starts a pooler with two server sessions in front of the database; the URL through it.
async fn start_pooler(database_url: &str) -> (Process, String) {
    let (server, name) = database_url.rsplit_once('/').unwrap();
    let address = server.rsplit_once('@').unwrap().1;
    let (host, server_port) = address.rsplit_once(':').unwrap();
    let port = free_port();
    let folder = tempfile::tempdir().unwrap();
    let settings = format!(
        "[databases]\n{name} = host={host} port={server_port} user=postgres dbname={name}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
         pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 200\n"
    );
    let file = folder.path().join("pgbouncer.ini");
    std::fs::write(&file, settings).unwrap();
    // It refuses to run as root, and gives that up itself.
    for readable in [folder.path(), file.as_path()] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(readable, mode).unwrap();
    }
    let mut command = Command::new(PGBOUNCER);
    if is_root() {
        command.args(["-u", "postgres"]);
    }
    command.arg(&file);
    let pooler = Process::spawn(command, folder);
    eventually("the pooler listens", async || {
        TcpStream::connect(("127.0.0.1", port)).ok().map(drop)
    })
    .await;
    (
        pooler,
        format!("postgres://postgres@127.0.0.1:{port}/{name}"),
    )
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap().stdout;
    String::from_utf8_lossy(&id).trim() == "0"
}
