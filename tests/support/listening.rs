//! A process of the built binary that says on its first line where it listens.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// It is stopped when the test ends, however it ends.
pub struct Listening {
    pub process: Child,
    pub url: String,
}

impl Listening {
    /// Starts it. `name` is what the first line calls it.
    pub fn start(command: &mut Command, name: &str) -> Self {
        let mut process = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut lines = BufReader::new(process.stdout.take().expect("it has an output")).lines();
        let line = lines.next().expect("it speaks").expect("it speaks text");
        let url = line.strip_prefix(&format!("{name} listens on "));
        let url = url.expect("the first line names the address").to_owned();
        // Whatever it prints later is read, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, url }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}
