//! Reads the blocks of a page that have a `curl` or an answer in them.

use std::process::{Command, Stdio};

/// What stands on the line before a block that is not to be run.
const NOT_RUN: &str = "<!-- not run: ";

/// A block of a page.
pub enum Block {
    /// To be run.
    Steps(Vec<Step>),
    /// Not to be run, for a reason that stands there.
    Marked,
}

/// One command with what the page says about it.
#[derive(Debug)]
pub struct Step {
    /// Its line on the page.
    pub line: usize,
    pub command: String,
    /// The lines below it that show its answer.
    pub shown: Vec<String>,
    /// The comment behind it.
    pub comment: String,
}

/// The blocks, or what is wrong with one, with its line.
pub fn blocks(page: &str) -> Vec<Result<Block, String>> {
    let lines: Vec<&str> = page.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(info) = lines[at].strip_prefix("```") else {
            at += 1;
            continue;
        };
        let is_marked = at > 0 && lines[at - 1].starts_with(NOT_RUN);
        let length = lines[at + 1..]
            .iter()
            .take_while(|line| **line != "```")
            .count();
        let body = &lines[at + 1..at + 1 + length];
        if body.iter().any(|line| is_of_interest(line)) {
            let block = match is_marked {
                true => Ok(Block::Marked),
                // Lines are counted from 1.
                false => read(info, body, at + 2).map(Block::Steps),
            };
            found.push(block);
        }
        at += length + 2;
    }
    found
}

fn is_of_interest(line: &str) -> bool {
    line.starts_with("HTTP/1.1 ") || line.split_whitespace().any(|word| word == "curl")
}

fn read(info: &str, body: &[&str], first: usize) -> Result<Vec<Step>, String> {
    match info {
        "" | "console" => transcript(body, first),
        "bash" => script(body, first),
        _ => Err(format!(
            "{first}: curl in a block of {info}; mark it, if it cannot be run"
        )),
    }
}

/// Commands after a `$`, each with its answer below it.
fn transcript(body: &[&str], first: usize) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_continued = false;
    for (line, at) in body.iter().zip(first..) {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(step(at, command));
        } else {
            let Some(last) = steps.last_mut() else {
                return Err(format!("{at}: an answer without a command before it"));
            };
            if is_continued {
                last.command.push('\n');
                last.command.push_str(line);
            } else {
                last.shown.push((*line).to_owned());
                continue;
            }
        }
        is_continued = line.ends_with('\\');
    }
    Ok(steps)
}

/// Commands of a script, some of which go over several lines, with a comment behind some.
fn script(body: &[&str], first: usize) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut begun: Option<Step> = None;
    for (line, at) in body.iter().zip(first..) {
        let mut open = begun.take().unwrap_or_else(|| step(at, ""));
        open.command.push_str(line);
        if let Some((_, comment)) = line.split_once("  # ") {
            open.comment = comment.to_owned();
        }
        if is_whole(&open.command) {
            steps.push(open);
        } else {
            open.command.push('\n');
            begun = Some(open);
        }
    }
    match begun {
        Some(open) => Err(format!("{}: the command is not whole", open.line)),
        None => Ok(steps),
    }
}

fn step(line: usize, command: &str) -> Step {
    Step {
        line,
        command: command.to_owned(),
        shown: Vec::new(),
        comment: String::new(),
    }
}

/// The shell itself knows best.
fn is_whole(command: &str) -> bool {
    let mut bash = Command::new("bash");
    let read = bash
        .args(["-n", "-c", command])
        .stderr(Stdio::null())
        .status();
    !command.ends_with('\\') && read.unwrap().success()
}
