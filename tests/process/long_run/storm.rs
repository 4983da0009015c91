//! The storm: callers that repeat, wait, lose patience and reset, while replicas and the database die under them.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::replica::Replica;
use crate::history::Call;
use crate::support::{PostgresServer, Reply, TestApp, now_ms, real_time, reset};

const CALLERS: u64 = 20;

/// Ends every session on the run's database but the one that asks.
const CUT: &str = "SELECT count(pg_terminate_backend(pid)) AS value FROM pg_stat_activity \
    WHERE datname = current_database() AND pid <> pg_backend_pid()";

/// What a storm must have done before it may end.
#[derive(Debug, Clone, Copy)]
pub struct Least {
    pub kills: usize,
    pub restarts: usize,
}

pub struct Storm {
    pub app: TestApp,
    pub replicas: Vec<Replica>,
    pub ids: Vec<String>,
    pub seed: u64,
    pub least: Least,
    pub counts: Counts,
    pub calls: Mutex<Vec<Call>>,
    /// The invoices that nobody has called for yet.
    pub pile: Mutex<Vec<String>>,
    pub is_over: AtomicBool,
    pub client: reqwest::Client,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Counts {
    pub kills: AtomicUsize,
    pub restarts: AtomicUsize,
    pub cut: AtomicUsize,
    pub resets: AtomicUsize,
    pub impatient: AtomicUsize,
}

impl Counts {
    fn add(counter: &AtomicUsize, by: usize) {
        counter.fetch_add(by, Ordering::Relaxed);
    }

    pub fn shown(&self) -> BTreeMap<&'static str, usize> {
        BTreeMap::from([
            ("replicas killed", self.kills.load(Ordering::Relaxed)),
            ("database restarts", self.restarts.load(Ordering::Relaxed)),
            ("database connections cut", self.cut.load(Ordering::Relaxed)),
            ("calls reset", self.resets.load(Ordering::Relaxed)),
            ("calls given up", self.impatient.load(Ordering::Relaxed)),
        ])
    }
}

/// Rages until every invoice was called for and enough was broken. All replicas and the database are there afterwards.
pub async fn rage(storm: &Arc<Storm>, database: &mut PostgresServer) {
    let mut tasks = vec![spawn(storm, settle), spawn(storm, end_it)];
    for caller in 0..CALLERS {
        tasks.push(spawn(storm, move |storm| call(storm, caller)));
    }
    // What breaks things waits for processes, which it does here.
    let killers = (0..storm.replicas.len()).map(|replica| kill_and_restart(storm, replica));
    let (ended, _, ()) = tokio::join!(
        join_all(tasks),
        join_all(killers),
        break_database(storm, database)
    );
    for task in ended {
        task.unwrap();
    }
}

fn spawn<F>(storm: &Arc<Storm>, work: impl FnOnce(Arc<Storm>) -> F) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(work(Arc::clone(storm)))
}

impl Storm {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Each actor has a chance of its own, so that the same seed gives each the same plan.
    fn chance(&self, actor: u64) -> StdRng {
        StdRng::seed_from_u64(self.seed.wrapping_mul(1_000).wrapping_add(actor))
    }
}

async fn pause(chance: &mut StdRng, ms: std::ops::Range<u64>) {
    real_time(Duration::from_millis(chance.random_range(ms))).await;
}

async fn end_it(storm: Arc<Storm>) {
    loop {
        real_time(Duration::from_millis(50)).await;
        let kills = storm.counts.kills.load(Ordering::Relaxed);
        let restarts = storm.counts.restarts.load(Ordering::Relaxed);
        let is_enough = kills >= storm.least.kills && restarts >= storm.least.restarts;
        if is_enough && storm.pile.lock().unwrap().is_empty() {
            storm.is_over.store(true, Ordering::Relaxed);
            return;
        }
    }
}

async fn kill_and_restart(storm: &Storm, replica: usize) {
    let mut chance = storm.chance(100 + replica as u64);
    let replica = &storm.replicas[replica];
    while !storm.is_over() {
        pause(&mut chance, 2_000..6_000).await;
        replica.kill().await;
        Counts::add(&storm.counts.kills, 1);
        pause(&mut chance, 0..500).await;
        replica.start_again().await;
    }
}

/// Stops the server at once and starts it again, or cuts all connections. The server runs without fsync: an immediate stop
/// of its processes loses nothing that the operating system has got; only a crash of the machine would.
async fn break_database(storm: &Storm, database: &mut PostgresServer) {
    let mut chance = storm.chance(200);
    let mut turn = 0;
    while !storm.is_over() {
        pause(&mut chance, 500..2_500).await;
        turn += 1;
        if turn % 3 == 0 {
            database.stop().await;
            pause(&mut chance, 0..800).await;
            database.start_again().await;
            Counts::add(&storm.counts.restarts, 1);
        } else {
            let cut = storm.app.database.number(CUT).await;
            Counts::add(&storm.counts.cut, cut.try_into().unwrap());
        }
    }
}

/// The provider comes to its late verdicts while all this goes on, and tells them by webhook.
async fn settle(storm: Arc<Storm>) {
    let mut chance = storm.chance(300);
    while !storm.is_over() {
        // Reading its whole book keeps the provider busy: less often where the book is long.
        let calm = storm.ids.len() as u64;
        pause(&mut chance, 1_000 + calm..3_000 + calm).await;
        tokio::task::block_in_place(|| storm.app.mock.settle_all_processing());
    }
}

/// A caller takes an invoice that nobody has called for, or one that was called for, and calls one to four times, each time
/// at any of the replicas.
async fn call(storm: Arc<Storm>, caller: u64) {
    let mut chance = storm.chance(caller);
    while !storm.is_over() {
        let fresh = match chance.random_bool(0.6) {
            true => storm.pile.lock().unwrap().pop(),
            false => None,
        };
        let id = fresh.unwrap_or_else(|| {
            let any = chance.random_range(0..storm.ids.len());
            storm.ids[any].clone()
        });
        for _ in 0..chance.random_range(1..5) {
            let replica = chance.random_range(0..storm.replicas.len());
            let started_ms = now_ms();
            let reply = call_once(&storm, &storm.replicas[replica].url, &id, &mut chance).await;
            let is_answered = reply.is_some();
            storm.calls.lock().unwrap().push(Call {
                invoice_id: id.clone(),
                started_ms,
                ended_ms: now_ms(),
                reply,
            });
            if !is_answered {
                pause(&mut chance, 50..250).await;
            }
        }
    }
}

async fn call_once(storm: &Storm, url: &str, id: &str, chance: &mut StdRng) -> Option<Reply> {
    let body = json!({"invoiceId": id}).to_string();
    let request = |wait: Option<u32>| {
        let request = storm.client.post(format!("{url}/v1/charges"));
        let request = request
            .header("Content-Type", "application/json")
            .body(body.clone());
        match wait {
            Some(seconds) => request.header("Prefer", format!("wait={seconds}")),
            None => request,
        }
    };
    match chance.random_range(0..8) {
        0 => {
            reset_a_call(
                url,
                &body,
                Duration::from_millis(chance.random_range(0..50)),
            )
            .await;
            Counts::add(&storm.counts.resets, 1);
            None
        }
        1 => {
            let patience = Duration::from_millis(chance.random_range(10..300));
            let answered = tokio::time::timeout(patience, answer(request(None))).await;
            Counts::add(&storm.counts.impatient, usize::from(answered.is_err()));
            answered.ok().flatten()
        }
        2 | 3 => answer(request(Some(3))).await,
        _ => answer(request(None)).await,
    }
}

/// None when the connection breaks before the whole answer is there.
async fn answer(request: reqwest::RequestBuilder) -> Option<Reply> {
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    let headers = response.headers().iter();
    let headers = headers
        .map(|(name, value)| {
            (
                name.to_string(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect();
    Some(Reply {
        status,
        headers,
        body: response.text().await.ok()?,
    })
}

async fn reset_a_call(url: &str, body: &str, after: Duration) {
    let address = url.strip_prefix("http://").unwrap();
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return;
    };
    let request = format!(
        "POST /v1/charges HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    if stream.write_all(request.as_bytes()).await.is_ok() {
        real_time(after).await;
        reset(stream);
    }
}
