//! What a run of Schemathesis came to: its report in JSON, and the end of what it said.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

/// Findings that are told in short, at most; all are in what it said.
const TOLD_MAX: usize = 8;

/// One run, or several together.
pub struct Report {
    /// Scenarios of calls that follow each other.
    pub scenarios: usize,
    /// All that it said.
    pub said: String,
    /// How often each operation answered with each status.
    answers: BTreeMap<String, BTreeMap<u16, usize>>,
    /// Requests that were made up and sent.
    cases: u64,
    /// Why it is no clean run; empty: it is one.
    faults: Vec<String>,
}

impl Report {
    /// Reads what a run has left: its report, and the answers in lines such as `200 GET /metrics`.
    pub fn read(ran: &Output, report: &Path, answers: &Path) -> Self {
        let said =
            String::from_utf8_lossy(&[&ran.stdout[..], &ran.stderr[..]].concat()).into_owned();
        let text = fs::read_to_string(report).unwrap_or_else(|_| panic!("no report\n{said}"));
        let report: Value = serde_json::from_str(&text).unwrap();
        let mut faults = findings(&said);
        let is_whole = report["complete"] == true && ran.status.success();
        let is_clean = ["failures", "errors"]
            .iter()
            .all(|list| report[list] == json!([]));
        if !(is_whole && is_clean) && faults.is_empty() {
            faults.push(format!("{}, {}", ran.status, report["stop_reason"]));
        }
        let mut counted: BTreeMap<String, BTreeMap<u16, usize>> = BTreeMap::new();
        for line in fs::read_to_string(answers).unwrap().lines() {
            let (status, operation) = line.split_once(' ').unwrap();
            let of_operation = counted.entry(operation.to_owned()).or_default();
            *of_operation.entry(status.parse().unwrap()).or_default() += 1;
        }
        Self {
            scenarios: scenarios(&said),
            said,
            answers: counted,
            cases: report["test_cases"]["generated"].as_u64().unwrap(),
            faults,
        }
    }

    /// Adds another run.
    pub fn add(&mut self, other: Self) {
        self.scenarios += other.scenarios;
        self.said.push_str(&other.said);
        for (operation, answers) in other.answers {
            let ours = self.answers.entry(operation).or_default();
            for (status, count) in answers {
                *ours.entry(status).or_default() += count;
            }
        }
        self.cases += other.cases;
        self.faults.extend(other.faults);
    }

    /// Fails with the first findings in short, and then with all that was said.
    pub fn assert_nothing_found(&self) {
        let count = self.faults.len();
        let told = self.faults[..count.min(TOLD_MAX)].join("\n");
        assert!(count == 0, "{count} findings\n{told}\n\n{}", self.said);
    }

    /// The operations that have answered with success.
    pub fn succeeded(&self) -> Vec<&str> {
        let answers = self.answers.iter();
        let successful =
            answers.filter(|(_, answers)| answers.keys().any(|status| (200..300).contains(status)));
        successful
            .map(|(operation, _)| operation.as_str())
            .collect()
    }

    /// True when the operation has answered so.
    pub fn has_answered(&self, operation: &str, status: u16) -> bool {
        self.answers
            .get(operation)
            .is_some_and(|answers| answers.contains_key(&status))
    }

    /// What was tried and answered, in lines.
    pub fn told(&self) -> String {
        let mut told = format!("{} cases, {} scenarios\n", self.cases, self.scenarios);
        for (operation, answers) in &self.answers {
            told.push_str(&format!("{operation}: {answers:?}\n"));
        }
        told
    }
}

/// The number in the line `Scenarios:    21`.
fn scenarios(said: &str) -> usize {
    let line = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("Scenarios:"));
    line.map_or(0, |number| number.trim().parse().unwrap())
}

/// Each finding in one line: the operation, what is wrong, the answer, and the request.
fn findings(said: &str) -> Vec<String> {
    let is_title = |line: &str, title: &str| line.starts_with('=') && line.contains(title);
    let mut lines = said
        .lines()
        .skip_while(|line| !is_title(line, " FAILURES ") && !is_title(line, " ERRORS "));
    let section = std::iter::from_fn(|| lines.next().filter(|line| !is_title(line, " SUMMARY ")));
    let mut operation = "";
    let mut found: Vec<String> = Vec::new();
    for line in section {
        let line = line.trim();
        if line.starts_with("__") {
            operation = line.trim_matches('_').trim();
        } else if let Some(wrong) = line.strip_prefix("- ") {
            found.push(format!("{operation}: {wrong}"));
        } else if (line.starts_with("curl ") || line.starts_with('['))
            && let Some(last) = found.last_mut()
        {
            last.push_str("; ");
            last.push_str(line);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_told_in_one_line_each() {
        let said = "\
Scenarios:    21
=========== FAILURES ===========
____________ POST /v1/invoices ____________
1. Test Case ID: TmnkrZ

- ST202 Schema-valid request rejected

    Valid data should have been accepted

[422] Unprocessable Content:

    `{}`

Reproduce with:

    curl -X POST http://127.0.0.1/v1/invoices

____________ GET /metrics ____________
1. Test Case ID: TmnkrA

- ST100 Server error

[500] Internal Server Error:
=========== SUMMARY ===========
- nothing
";
        assert_eq!(
            findings(said),
            [
                "POST /v1/invoices: ST202 Schema-valid request rejected; [422] Unprocessable Content:; curl -X POST http://127.0.0.1/v1/invoices",
                "GET /metrics: ST100 Server error; [500] Internal Server Error:"
            ]
        );
        assert_eq!(scenarios(said), 21);
        assert_eq!(findings("nothing"), Vec::<String>::new());
    }
}
