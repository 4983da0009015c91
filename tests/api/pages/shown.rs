//! Holds what a page shows against what was answered. Ids and times differ from day to day, so that of those only the form
//! counts; `…` stands for what is left out.

use chrono::DateTime;
use serde_json::Value;

use super::blocks::Step;

/// The fewest hexadecimal digits that are the random part of an id.
const RANDOM_DIGITS_MIN: usize = 8;

/// What a step has printed, and how it has ended.
#[derive(Debug)]
pub struct Answer {
    pub said: String,
    pub code: i32,
}

/// All that is not as it is shown.
pub fn faults(step: &Step, answer: &Answer) -> Vec<String> {
    let mut faults = Vec::new();
    let code = of_curl(&step.comment).unwrap_or(0);
    if answer.code != code {
        faults.push(format!("it ended with {}, not with {code}", answer.code));
        return faults;
    }
    let shown = Shown::read(&step.shown);
    let (head, body) = answer
        .said
        .split_once("\r\n\r\n")
        .unwrap_or(("", &answer.said));
    let real = serde_json::from_str::<Value>(body).unwrap_or(Value::Null);
    shown.check_head(head, &mut faults);
    if let Some(text) = &shown.body {
        check_body(text, &real, &mut faults);
    }
    if let Some(text) = json_in(&step.comment) {
        check_body(text, &real, &mut faults);
    }
    let is_refusal = real["code"].is_string() || real["error"].is_object();
    if shown.is_nothing() && is_refusal {
        faults.push(format!("it was refused, which is not shown: {body}"));
    }
    faults
}

/// The code in a comment such as `curl: (52) Empty reply`.
fn of_curl(comment: &str) -> Option<i32> {
    let (_, rest) = comment.split_once("curl: (")?;
    rest.split(')').next()?.parse().ok()
}

/// The object in a comment.
fn json_in(comment: &str) -> Option<&str> {
    comment.get(comment.find('{')?..=comment.rfind('}')?)
}

/// The lines below a command.
#[derive(Default)]
struct Shown {
    status: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Shown {
    fn read(lines: &[String]) -> Self {
        let mut shown = Self::default();
        for line in lines {
            if let Some(body) = &mut shown.body {
                body.push('\n');
                body.push_str(line);
            } else if line.starts_with('{') {
                shown.body = Some(line.clone());
            } else if line.starts_with("HTTP/1.1 ") {
                shown.status = Some(line.clone());
            } else if line.starts_with('…') {
                // Left out.
            } else if let Some((name, value)) = line.split_once(": ") {
                shown
                    .headers
                    .push((name.to_ascii_lowercase(), value.to_owned()));
            }
        }
        shown
    }

    fn is_nothing(&self) -> bool {
        self.status.is_none() && self.body.is_none()
    }

    fn check_head(&self, head: &str, faults: &mut Vec<String>) {
        let mut lines = head.lines();
        let status = lines.next().unwrap_or_default();
        if self.status.as_ref().is_some_and(|shown| shown != status) {
            faults.push(format!("the answer is {status:?}, not {:?}", self.status));
        }
        let real: Vec<(String, &str)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        for (name, value) in &self.headers {
            let found = real.iter().find(|(found, _)| found == name);
            if found.is_none_or(|(_, found)| form(found) != form(value)) {
                faults.push(format!("the header {name} is {found:?}, not {value:?}"));
            }
        }
    }
}

fn check_body(text: &str, real: &Value, faults: &mut Vec<String>) {
    // What is left out at the end of an object, and whole objects.
    let cut = text
        .replace(", …}", "}")
        .replace(",…}", "}")
        .replace("{…}", "{}");
    let is_cut = cut != text;
    match serde_json::from_str::<Value>(&cut) {
        Ok(shown) => compare(&shown, real, is_cut, "", faults),
        Err(error) => faults.push(format!("what is shown cannot be read: {error}")),
    }
}

/// `is_cut`: there may be more members than are shown.
fn compare(shown: &Value, real: &Value, is_cut: bool, place: &str, faults: &mut Vec<String>) {
    match (shown, real) {
        (Value::Object(shown), Value::Object(real)) => {
            for (name, value) in shown {
                match real.get(name) {
                    Some(real) => compare(value, real, is_cut, &format!("{place}.{name}"), faults),
                    None => faults.push(format!("{place}.{name} is not there")),
                }
            }
            let more = real
                .keys()
                .filter(|name| !is_cut && !shown.contains_key(*name));
            faults.extend(more.map(|name| format!("{place}.{name} is not shown")));
        }
        (Value::Array(shown), Value::Array(real)) if shown.len() == real.len() => {
            for (at, (shown, real)) in shown.iter().zip(real).enumerate() {
                compare(shown, real, is_cut, &format!("{place}[{at}]"), faults);
            }
        }
        (Value::String(shown), Value::String(real)) if is_alike(shown, real) => {}
        (Value::String(_) | Value::Object(_) | Value::Array(_), _) => {
            faults.push(format!("{place} is {real}, not {shown}"));
        }
        (Value::Null | Value::Bool(_) | Value::Number(_), _) => {
            if shown != real {
                faults.push(format!("{place} is {real}, not {shown}"));
            }
        }
    }
}

fn is_alike(shown: &str, real: &str) -> bool {
    match shown.strip_suffix('…') {
        // The kind of an id, and the beginning of its random part.
        Some(begun) => begun
            .rfind('_')
            .is_some_and(|at| real.starts_with(&begun[..=at])),
        None => form(shown) == form(real),
    }
}

/// A text without what is random in it.
fn form(text: &str) -> String {
    if DateTime::parse_from_rfc3339(text).is_ok() {
        return "a time".into();
    }
    let mut form = String::new();
    let mut digits = String::new();
    for letter in text.chars().chain(['\0']) {
        if matches!(letter, '0'..='9' | 'a'..='f') {
            digits.push(letter);
            continue;
        }
        match digits.len() >= RANDOM_DIGITS_MIN {
            true => form.push('#'),
            false => form.push_str(&digits),
        }
        digits.clear();
        form.push(letter);
    }
    form
}

#[test]
fn only_what_is_random_may_differ() {
    let alike = [
        ("2026-11-29T23:25:31.849Z", "2027-01-01T00:00:00Z"),
        (
            "chg_01a229a0c56676d7b7931968a3d019e8",
            "chg_01a22bdae0d277b29dcdf5435c5e3ee3",
        ),
        (
            "/v1/charges/chg_01a229a0c56676d7",
            "/v1/charges/chg_01a22bdae0d277b2",
        ),
        ("chg_01a2…", "chg_99"),
        ("usd", "usd"),
    ];
    for (shown, real) in alike {
        assert!(is_alike(shown, real), "{shown} {real}");
    }
    let unlike = [
        ("2026-11-29T23:25:31.849Z", "yesterday"),
        ("chg_01a229a0c56676d7", "pi_01a22bdae0d277b2"),
        ("chg_01a2…", "pi_01a2"),
        ("charge:2026-0001", "charge:2026-0002"),
        ("usd", "eur"),
        ("…", "x"),
    ];
    for (shown, real) in unlike {
        assert!(!is_alike(shown, real), "{shown} {real}");
    }
}
