//! A PostgreSQL server of one test's own, to be paused and stopped at will.

use std::process::Command;

use super::eventually;
use super::process::{Process, signal};

/// Starts the cluster and obeys. Ends with its standard input, so that no server outlives the test run, however it ends.
const SCRIPT: &str = r#"
source scripts/lib/postgres.sh
# The test may be gone while the server is paused.
trap 'kill -s CONT "$(head -n 1 "$POSTGRES_DIR/data/postmaster.pid")" 2>/dev/null; postgres_stop' EXIT
postgres_provide >&2 || { echo "MISSING $POSTGRES_MISSING"; exit 1; }
echo "PID $(head -n 1 "$POSTGRES_DIR/data/postmaster.pid")"
echo "URL $TEST_DATABASE_URL"
port="${TEST_DATABASE_URL##*:}"
port="${port%%/*}"
while read -r word; do
    case "$word" in
        stop) postgres_as "$POSTGRES_DIR" "$POSTGRES_BIN/pg_ctl" stop -D "$POSTGRES_DIR/data" -m immediate -w >&2 ;;
        start) postgres_as "$POSTGRES_DIR" "$POSTGRES_BIN/pg_ctl" start -D "$POSTGRES_DIR/data" \
            -l "$POSTGRES_DIR/server.log" -o "-p $port" -w >&2 ;;
    esac
    echo "DONE $word"
done
"#;

/// A script that starts servers, does what it is told, and ends what it has started when its input ends.
pub struct Servant {
    process: Process,
    commands: usize,
}

impl Servant {
    pub fn start(script: &str) -> Self {
        let mut command = Command::new("bash");
        command
            .args(["-c", script])
            .env_remove("TEST_DATABASE_URL")
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        Self {
            process: Process::spawn(command, tempfile::tempdir().unwrap()),
            commands: 0,
        }
    }

    /// The rest of the line that begins so.
    pub async fn announced(&mut self, prefix: &str) -> String {
        self.process.announced(prefix).await
    }

    /// Says a word and waits until it is done.
    pub async fn obey(&mut self, word: &str) {
        self.commands += 1;
        self.process.say(word);
        let wanted = self.commands;
        eventually("PostgreSQL obeys", async || {
            let done = self.process.stdout().matches("DONE ").count();
            (done >= wanted).then_some(())
        })
        .await;
    }
}

impl Drop for Servant {
    fn drop(&mut self) {
        // Killing the script would leave its servers behind.
        self.process.hang_up_and_wait();
    }
}

/// The server.
pub struct PostgresServer {
    servant: Servant,
    /// Of its administrator.
    pub url: String,
    postmaster: u32,
    is_paused: bool,
}

impl PostgresServer {
    pub async fn start() -> Self {
        let mut servant = Servant::start(SCRIPT);
        let postmaster = servant.announced("PID ").await.parse().unwrap();
        let url = servant.announced("URL ").await;
        Self {
            servant,
            url,
            postmaster,
            is_paused: false,
        }
    }

    /// Stops all its processes where they are: connections stay open and nothing answers.
    pub fn pause(&mut self) {
        self.is_paused = true;
        // The postmaster first, so that it starts no process that is then missed.
        signal(self.postmaster, "STOP");
        for id in children(self.postmaster) {
            signal(id, "STOP");
        }
    }

    /// Lets them go on.
    pub fn resume(&mut self) {
        self.is_paused = false;
        for id in children(self.postmaster) {
            signal(id, "CONT");
        }
        signal(self.postmaster, "CONT");
    }

    /// Ends it at once, as a crash would.
    pub async fn stop(&mut self) {
        self.servant.obey("stop").await;
    }

    /// Starts it again, at the same address.
    pub async fn start_again(&mut self) {
        self.servant.obey("start").await;
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if self.is_paused {
            self.resume();
        }
    }
}

/// The processes that a process has started.
fn children(parent: u32) -> Vec<u32> {
    let parent_of = |id: u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name in parentheses may hold spaces; the state and the parent follow it.
        let (_, rest) = stat.rsplit_once(')')?;
        rest.split_whitespace().nth(1)?.parse().ok()
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|id| parent_of(*id) == Some(parent))
        .collect()
}
