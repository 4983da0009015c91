//! A child process that never outlives its test.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::eventually;

/// What the operating system allows a process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// Open files at most.
    pub open_files: Option<u32>,
}

/// The built binary, run in an empty folder so that no `.env` is read, and with nothing of this process's environment.
pub struct Process {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
    _folder: tempfile::TempDir,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ran {
    /// `None` after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Process {
    /// Starts it.
    pub fn start(arguments: &[&str], variables: &[(String, String)], limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A crash leaves no dump behind; a file that may not grow is an error of the write and not a signal.
        let mut script = String::from("ulimit -c 0; trap '' XFSZ; ");
        if let Some(files) = limits.open_files {
            script.push_str(&format!("ulimit -n {files}; "));
        }
        script.push_str("exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script, env!("CARGO_BIN_EXE_chargeonce")])
            .args(arguments)
            .env_clear()
            .envs(variables.iter().cloned())
            .current_dir(folder.path());
        Self::spawn(command, folder)
    }

    /// Starts any command, to be looked after in the same way.
    pub fn spawn(mut command: Command, folder: tempfile::TempDir) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        Self {
            child,
            stdout,
            stderr,
            _folder: folder,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How many files it may have open; changed while it runs. Those that are open stay.
    pub fn limit_open_files(&self, limit: &str) {
        let changed = Command::new("prlimit")
            .args([
                "--pid",
                &self.id().to_string(),
                &format!("--nofile={limit}:"),
            ])
            .status()
            .unwrap();
        assert!(changed.success());
    }

    /// Writes to its standard input.
    pub fn say(&mut self, line: &str) {
        use std::io::Write;
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    }

    pub fn stdout(&self) -> String {
        self.stdout.lock().unwrap().clone()
    }

    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// The rest of the first line on standard output that begins so.
    pub async fn announced(&mut self, prefix: &str) -> String {
        eventually(prefix, async || {
            let rest = |line: &str| line.strip_prefix(prefix).map(|rest| rest.trim().to_owned());
            let found = self.stdout().lines().find_map(rest);
            if found.is_none()
                && let Some(status) = self.child.try_wait().unwrap()
            {
                panic!("{status} before {prefix:?}: {}", self.stderr());
            }
            found
        })
        .await
    }

    /// Waits until standard error has a text; its end may come a moment after that of the process.
    pub async fn written_to_stderr(&self, text: &str) {
        eventually(text, async || self.stderr().contains(text).then_some(())).await;
    }

    /// Sends a signal by name. Only to a process that still is ours.
    pub fn signal(&mut self, name: &str) {
        assert!(self.is_running(), "it has ended: {}", self.stderr());
        signal(self.id(), name);
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        eventually("the end of a process", async || {
            self.child.try_wait().unwrap()
        })
        .await
    }

    /// Waits for its end, and for the end of what it writes.
    pub async fn ran(mut self) -> Ran {
        let status = self.ended().await;
        eventually("the end of its output", async || {
            let is_read = |text: &Arc<Mutex<String>>| Arc::strong_count(text) == 1;
            (is_read(&self.stdout) && is_read(&self.stderr)).then_some(())
        })
        .await;
        Ran {
            code: status.code(),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    /// Closes its standard input and waits for its end.
    pub fn hang_up_and_wait(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }

    /// As `kill -9`: no destructor runs and nothing is flushed.
    pub async fn kill(&mut self) {
        self.signal("KILL");
        assert_eq!(self.ended().await.signal(), Some(9));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that ended is not signalled: the handle knows that its id is free for others.
        self.child.kill().ok();
        self.child.wait().ok();
        if thread::panicking() {
            let text = self.stderr();
            let end: Vec<&str> = text.lines().rev().take(30).collect();
            for line in end.into_iter().rev() {
                eprintln!("[{}] {line}", self.id());
            }
        }
    }
}

/// Sends a signal to a process by its id.
pub fn signal(id: u32, name: &str) {
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -s {name} {id}")])
        .status()
        .unwrap();
    assert!(sent.success(), "kill -s {name} {id}");
}

/// Reads a stream to its end in a thread, so that the writer never waits for us.
fn collect(stream: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&text);
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while let Ok(1..) = reader.read_until(b'\n', &mut line) {
            sink.lock()
                .unwrap()
                .push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    text
}

/// Waits, where only real time can show what is to be shown: an operating system's clock cannot be moved.
pub async fn real_time(duration: Duration) {
    tokio::time::sleep(duration).await;
}
