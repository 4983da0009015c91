//! The examples on the pages: every block with a `curl` in it is run as it stands there, page by page and in order, against a
//! service of the page's own, and what it shows is held against what was answered.
//!
//! A block that cannot be run has the line `<!-- not run: the reason -->` before it, and is counted. A new block that is neither
//! marked nor true makes the test fail.

mod blocks;
mod shown;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use chargeonce::payments::mock::{MockStripe, serve};

use self::blocks::{Block, Step, blocks};
use self::shown::{Answer, faults};
use crate::support::{Engine, TestApp};

/// Blocks that are marked as not to be run, on all pages. A new one needs a reason.
const MARKED: usize = 0;

/// Steps that are run on all pages, at least.
const STEPS_MIN: usize = 15;

/// Where the pages say that things listen.
const OF_THE_SERVICE: [&str; 2] = ["127.0.0.1:3000", "localhost:3000"];
const OF_THE_MOCK: &str = "127.0.0.1:12111";

/// Stands between the outputs of two steps.
const MARK: &str = "=== the step has ended with";

/// Every page of the project.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["", "docs", "examples", "migrations"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// What a page came to.
#[derive(Debug, Default)]
struct Tried {
    steps: usize,
    marked: usize,
    faults: Vec<String>,
}

/// Runs a page's blocks against a new service and a new stand-in for Stripe.
async fn tried(name: &str, text: &str) -> Tried {
    let mut tried = Tried::default();
    let mut steps: Vec<Step> = Vec::new();
    for block in blocks(text) {
        match block {
            Ok(Block::Steps(of_block)) => steps.extend(of_block),
            Ok(Block::Marked) => tried.marked += 1,
            Err(fault) => tried.faults.push(format!("{name}:{fault}")),
        }
    }
    tried.steps = steps.len();
    if steps.is_empty() {
        return tried;
    }
    let app = TestApp::start(Engine::Sqlite).await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mock = listener.local_addr().unwrap().to_string();
    // It ends with the test's runtime.
    tokio::spawn(serve(MockStripe::new(), listener).unwrap());
    let service = app.url.trim_start_matches("http://").to_owned();
    let mut script = script(&steps).replace(OF_THE_MOCK, &mock);
    for address in OF_THE_SERVICE {
        script = script.replace(address, &service);
    }
    let answers = tokio::task::spawn_blocking(move || run(&script)).await;
    let answers = answers.unwrap();
    assert_eq!(answers.len(), steps.len(), "{name}: {answers:#?}");
    for (step, answer) in steps.iter().zip(answers) {
        let wrong = faults(step, &answer).join("; ");
        if !wrong.is_empty() {
            let (line, command) = (step.line, &step.command);
            let said = answer.said;
            tried
                .faults
                .push(format!("{name}:{line}: {wrong}\n{command}\n{said}"));
        }
    }
    app.check_oracles(&[]).await;
    tried
}

/// All steps as one script, because later ones use what earlier ones have set.
fn script(steps: &[Step]) -> String {
    let lines = steps
        .iter()
        .map(|step| format!("{}\nprintf '\\n{MARK} %s\\n' \"$?\"\n", step.command));
    lines.collect()
}

/// Runs a script, and cuts its output at the marks.
fn run(script: &str) -> Vec<Answer> {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("script");
    std::fs::write(&file, script).unwrap();
    let ran = Command::new("bash")
        .arg(&file)
        .current_dir(home.path())
        // Nobody's own settings of curl.
        .env("HOME", home.path())
        .env("CURL_HOME", home.path())
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    let (mut answers, mut said) = (Vec::new(), String::new());
    for line in text.split_inclusive('\n') {
        let Some(code) = line.strip_prefix(MARK) else {
            said.push_str(line);
            continue;
        };
        // The new line before the mark is not the step's.
        said.pop();
        answers.push(Answer {
            said: std::mem::take(&mut said),
            code: code.trim().parse().unwrap(),
        });
    }
    answers
}

fn is_there(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|ran| ran.status.success())
}

/// True where examples can be run; else says what could not.
fn can_run() -> bool {
    let missing = ["bash", "curl"]
        .into_iter()
        .find(|program| !is_there(program));
    if let Some(program) = missing {
        use std::io::Write as _;
        // Not by a macro: the test harness would keep what that prints to itself.
        writeln!(
            std::io::stderr(),
            "NOT RUN: the examples on the pages ({program} is not installed)"
        )
        .unwrap();
    }
    missing.is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_on_the_pages_do_what_they_show() {
    if !can_run() {
        return;
    }
    let mut all = Tried::default();
    for page in pages() {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        let tried = tried(&name, &std::fs::read_to_string(&page).unwrap()).await;
        all.steps += tried.steps;
        all.marked += tried.marked;
        all.faults.extend(tried.faults);
    }
    assert!(all.faults.is_empty(), "\n{}", all.faults.join("\n"));
    assert_eq!(all.marked, MARKED, "blocks that are not run");
    assert!(all.steps >= STEPS_MIN, "{} steps", all.steps);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_example_that_is_not_true_is_found() {
    if !can_run() {
        return;
    }
    let invoice = r#"-H 'Content-Type: application/json' -d '{"id":"inv_1","customerId":"cus_1","amountCents":1250,"currency":"usd"}'"#;
    let create = format!("$ curl -is localhost:3000/v1/invoices {invoice}");
    let block = |info: &str, text: &str| format!("```{info}\n{text}\n```\n");
    #[rustfmt::skip]
    let table = [
        ("true", block("console", &format!("{create}\nHTTP/1.1 201 Created\nlocation: /v1/invoices/inv_1\n…\n{{\"id\":\"inv_1\",…}}")), None),
        ("another status", block("console", &format!("{create}\nHTTP/1.1 200 OK")), Some("201 Created")),
        ("a header that is not there", block("", &format!("{create}\nHTTP/1.1 201 Created\nretry-after: 5")), Some("retry-after")),
        ("another value of a header", block("", &format!("{create}\nHTTP/1.1 201 Created\nlocation: /v1/invoices/2")), Some("location")),
        ("a member that is not there", block("", &format!("{create}\nHTTP/1.1 201 Created\n\n{{\"id\":\"inv_1\",\"total\":1,…}}")), Some("total")),
        ("another value", block("", &format!("{create}\nHTTP/1.1 201 Created\n\n{{\"amountCents\":1,…}}")), Some("amountCents")),
        ("members that are not shown", block("", &format!("{create}\nHTTP/1.1 201 Created\n\n{{\"id\":\"inv_1\"}}")), Some("customerId")),
        ("a refusal that is not shown", block("console", "$ curl -s localhost:3000/v1/invoices?x=1"), Some("invalid_parameter")),
        ("nobody there", block("console", "$ curl -s 127.0.0.1:1/v1/invoices"), Some("ended with 7")),
        ("an answer to nothing", block("", "HTTP/1.1 200 OK"), Some("without a command")),
        ("a script that is no shell's", block("python", "curl -s localhost:3000"), Some("python")),
        ("half a command", block("bash", "pay() {\n  curl -s localhost:3000/health/live"), Some("is not whole")),
        ("another end of curl", block("bash", "curl -s localhost:3000/health/live  # curl: (52) Empty reply"), Some("ended with 0")),
        ("other members in a comment", block("bash", "curl -s localhost:3000/health/live  # {\"state\": \"live\"}"), Some("state")),
        ("no marked block", block("console", "<!-- not run: because -->\n$ curl -s 127.0.0.1:1"), Some("without a command")),
        ("a marked block", format!("<!-- not run: because -->\n{}", block("console", "$ curl -s 127.0.0.1:1")), None),
    ];
    for (case, page, fault) in table {
        let tried = tried(case, &page).await;
        match fault {
            None => assert!(tried.faults.is_empty(), "{case}: {tried:#?}"),
            Some(fault) => {
                assert_eq!(tried.faults.len(), 1, "{case}: {tried:#?}");
                assert!(tried.faults[0].contains(fault), "{case}: {tried:#?}");
            }
        }
        assert_eq!(
            tried.marked,
            usize::from(case == "a marked block"),
            "{case}"
        );
    }
}
