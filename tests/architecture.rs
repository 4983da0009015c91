//! The house rules that a compiler does not check: who may import what, that pure files stay pure, and sizes.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 400;

fn rust_files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder),
        &mut found,
    );
    assert!(found.len() > 5, "no sources found in {folder}");
    found
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

fn relative(path: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    path.strip_prefix(root)
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

/// The code of a file without its comments and without its tests.
fn code(text: &str) -> String {
    let production = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let lines = production
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn only_the_places_that_may_know_a_library_know_it() {
    let rules: &[(&str, &[&str])] = &[
        ("diesel", &["src/storage/"]),
        ("deadpool", &["src/storage/"]),
        ("tokio_postgres", &["src/storage/"]),
        (
            "reqwest",
            &[
                "src/payments/stripe/",
                "src/payments/mock/",
                "src/tools/remote.rs",
                "src/telemetry/export.rs",
            ],
        ),
        ("opentelemetry", &["src/telemetry/"]),
        ("rmcp", &["src/tools/", "src/mcp_command.rs"]),
        (
            "actix_web",
            &[
                "src/app.rs",
                "src/server.rs",
                "src/router.rs",
                "src/error.rs",
                "src/http/",
                "/controller.rs",
                "src/access/guard.rs",
                "src/payments/mock/http.rs",
                "src/payments/mock/tests/",
                "src/payments/mock/control.rs",
            ],
        ),
        ("std::env", &["src/config.rs", "src/charges/crash.rs"]),
    ];
    let mut broken = Vec::new();
    for (path, text) in rust_files("src") {
        let name = relative(&path);
        let code = code(&text);
        for (library, allowed) in rules {
            let uses = code.contains(&format!("{library}::"));
            if uses && !allowed.iter().any(|place| name.contains(place)) {
                broken.push(format!("{name} uses {library}"));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn decisions_are_pure() {
    let pure = [
        "src/access/keys.rs",
        "src/access/routes.rs",
        "src/access/limits.rs",
        "src/access/caller.rs",
        "src/idempotency/decision.rs",
        "src/idempotency/fingerprint.rs",
        "src/idempotency/key.rs",
        "src/charges/lifecycle.rs",
        "src/charges/ownership.rs",
        "src/charges/settlement.rs",
        "src/charges/takeover.rs",
        "src/charges/journal.rs",
        "src/refunds/answer.rs",
        "src/refunds/asking.rs",
        "src/refunds/lifecycle.rs",
        "src/refunds/settlement.rs",
        "src/reconciler/plan.rs",
        "src/webhooks/plan.rs",
        "src/webhooks/signature.rs",
        "src/webhooks/dto.rs",
        "src/charges/answer.rs",
        "src/charges/status.rs",
        "src/tools/catalogue.rs",
        "src/tools/schema.rs",
        "src/tools/render.rs",
        "src/tools/arguments.rs",
        "src/tools/wording.rs",
        "src/audit/compare.rs",
        "src/audit/judge.rs",
        "src/telemetry/caller_trace.rs",
        "src/telemetry/shape.rs",
        "src/payments/outcome.rs",
        "src/payments/declines.rs",
        "src/payments/stripe/decision.rs",
        "src/payments/stripe/request.rs",
    ];
    for name in pure {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
        let code = code(&text);
        for impure in [
            "async ",
            ".await",
            "Instant::now",
            "SystemTime",
            "Utc::now",
            "tokio::",
            "std::env",
        ] {
            assert!(!code.contains(impure), "{name} is pure, but has {impure}");
        }
    }
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    for folder in ["src", "tests"] {
        for (path, text) in rust_files(folder) {
            let lines = text.lines().count();
            assert!(
                lines <= FILE_LINES_MAX,
                "{} has {lines} lines",
                relative(&path)
            );
        }
    }
}

#[test]
fn nobody_knows_the_money_path_but_through_its_port() {
    for (path, text) in rust_files("src/payments/mock") {
        let code = code(&text);
        for ours in [
            "crate::charges",
            "crate::invoices",
            "crate::storage",
            "crate::idempotency",
        ] {
            assert!(
                !code.contains(ours),
                "{} knows {ours}: the stand-in knows nothing of this service",
                relative(&path)
            );
        }
    }
}

#[test]
fn every_setting_is_explained_and_every_explained_setting_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    for file in [
        "src/config.rs",
        "src/config/access.rs",
        "src/config/traces.rs",
        "src/config/load.rs",
    ] {
        code.push_str(&fs::read_to_string(root.join(file)).unwrap());
    }
    let example = fs::read_to_string(root.join(".env.example")).unwrap();
    let is_name = |word: &str| {
        word.len() > 3
            && word
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    let mut read: Vec<&str> = code.split('"').filter(|word| is_name(word)).collect();
    read.push("RUST_LOG");
    read.sort_unstable();
    read.dedup();
    let mut explained: Vec<&str> = example
        .lines()
        .filter_map(|line| line.trim_start_matches('#').split_once('='))
        .map(|(name, _)| name)
        .filter(|name| is_name(name))
        .collect();
    explained.sort_unstable();
    assert_eq!(read, explained);
}

/// A path in a page that is not there any more is worse than none.
#[test]
fn every_file_that_a_page_links_to_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/agents.md",
        "docs/access.md",
        "docs/api.md",
        "docs/building-tools.md",
        "docs/mock-stripe.md",
        "docs/running.md",
        "examples/README.md",
    ] {
        let path = root.join(page);
        let text = fs::read_to_string(&path).unwrap();
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
            assert!(
                path.parent().unwrap().join(target).exists(),
                "{page} links to {target}"
            );
        }
    }
}
