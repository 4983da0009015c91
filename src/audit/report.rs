//! What an audit says: as a JSON document and as a table for people.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use serde::Serialize;

use super::compare::Counts;
use super::model::{Finding, FindingKind, Sum};
use crate::money::Money;
use crate::timestamp::rfc3339;

/// The outcome of an audit that could be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// When it began, by the database's clock; Unix milliseconds, UTC.
    pub checked_at_ms: i64,
    /// What was made since then was compared; Unix milliseconds, UTC.
    pub since_ms: i64,
    /// How much was compared.
    pub counts: Counts,
    /// What is wrong or open, the gravest kind first.
    pub findings: Vec<Finding>,
}

/// The report as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    clean: bool,
    checked_at: String,
    since: String,
    charges: u64,
    payments: u64,
    in_flight: u64,
    skipped_other_provider: u64,
    findings: &'a [Finding],
}

impl Report {
    /// True when there is no finding.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// One JSON document.
    ///
    /// # Errors
    /// When it cannot be written, which nothing in it should cause.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let document = Document {
            clean: self.is_clean(),
            checked_at: rfc3339(self.checked_at_ms),
            since: rfc3339(self.since_ms),
            charges: self.counts.charges,
            payments: self.counts.payments,
            in_flight: self.counts.in_flight,
            skipped_other_provider: self.counts.skipped_other_provider,
            findings: &self.findings,
        };
        serde_json::to_string_pretty(&document)
    }

    /// For people: what was compared, a table of the findings, and a sentence on each.
    pub fn to_text(&self) -> String {
        let counts = &self.counts;
        let mut text = format!(
            "compared     {} charges here, {} payments there, since {}\n",
            counts.charges,
            counts.payments,
            rfc3339(self.since_ms)
        );
        text.push_str(&format!(
            "in flight    {}; not due yet, no finding\n",
            counts.in_flight
        ));
        if counts.skipped_other_provider > 0 {
            text.push_str(&format!(
                "not compared {} charges of another provider: set PAYMENT_PROVIDER back to compare them\n",
                counts.skipped_other_provider
            ));
        }
        if self.is_clean() {
            text.push_str("clean        no differences\n");
            return text;
        }
        let mut kinds: BTreeMap<FindingKind, usize> = BTreeMap::new();
        for finding in &self.findings {
            *kinds.entry(finding.kind).or_default() += 1;
        }
        let each: Vec<String> = kinds
            .iter()
            .map(|(kind, count)| format!("{count} {}", kind.as_str()))
            .collect();
        text.push_str(&format!("findings     {}\n\n", each.join(", ")));
        text.push_str(&self.table().to_string());
        text.push_str("\n\n");
        for (number, finding) in (1..).zip(&self.findings) {
            text.push_str(&format!("{number:>3}. {}\n", printable(&finding.detail)));
        }
        text
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
            "", "finding", "invoice", "charge", "payment", "here", "there",
        ]);
        for (number, finding) in (1..).zip(&self.findings) {
            let id = |id: &Option<String>| id.as_deref().map_or("-".to_owned(), printable);
            table.add_row([
                format!("{number}"),
                finding.kind.as_str().to_owned(),
                id(&finding.invoice_id),
                id(&finding.charge_id),
                id(&finding.payment_id),
                finding.ours.as_ref().map_or("-".to_owned(), sum),
                finding.theirs.as_ref().map_or("-".to_owned(), sum),
            ]);
        }
        table
    }
}

/// An amount for people; one that no currency of ours has stays in minor units.
pub fn sum(sum: &Sum) -> String {
    Money::stored(sum.amount_cents, &sum.currency).map_or_else(
        |_| format!("{} {}", printable(&sum.currency), sum.amount_cents),
        |money| money.to_string(),
    )
}

/// Text for a terminal: what the provider holds may have been written by anybody, and must not steer it.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(findings: Vec<Finding>) -> Report {
        Report {
            checked_at_ms: 2_000,
            since_ms: 1_000,
            counts: Counts {
                charges: 3,
                payments: 2,
                in_flight: 1,
                skipped_other_provider: 0,
            },
            findings,
        }
    }

    fn finding() -> Finding {
        let sum = |amount_cents: i64, currency: &str| {
            Some(Sum {
                amount_cents,
                currency: currency.into(),
            })
        };
        Finding {
            kind: FindingKind::AmountDiffers,
            invoice_id: Some("inv_1\u{1b}[2J".into()),
            charge_id: None,
            payment_id: Some("pi_1".into()),
            ours: sum(1250, "usd"),
            theirs: sum(7, "x\u{1b}"),
            detail: "A\nsentence.".into(),
        }
    }

    #[test]
    fn a_clean_report_says_so_and_counts() {
        let text = report(vec![]).to_text();
        assert!(text.contains("3 charges here, 2 payments there"), "{text}");
        assert!(text.contains("clean        no differences"), "{text}");
        assert!(!text.contains("not compared"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&report(vec![]).to_json().unwrap()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "clean": true, "checkedAt": "1970-01-01T00:00:02.000Z", "since": "1970-01-01T00:00:01.000Z",
                "charges": 3, "payments": 2, "inFlight": 1, "skippedOtherProvider": 0, "findings": []
            })
        );
    }

    #[test]
    fn what_could_not_be_compared_is_said_even_where_all_else_is_clean() {
        let mut report = report(vec![]);
        report.counts.skipped_other_provider = 4;
        assert!(report.is_clean());
        assert!(
            report.to_text().contains("not compared 4 charges"),
            "{}",
            report.to_text()
        );
    }

    #[test]
    fn findings_have_a_row_a_sentence_and_no_say_over_the_terminal() {
        let report = report(vec![finding()]);
        assert!(!report.is_clean());
        let text = report.to_text();
        for part in ["1 amount_differs", "USD 12.50", "pi_1", "  1. A sentence."] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
        let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(
            json["findings"][0]["ours"],
            serde_json::json!({"amountCents": 1250, "currency": "usd"})
        );
        assert_eq!(json["findings"][0]["kind"], "amount_differs");
        assert_eq!(json["findings"][0]["chargeId"], serde_json::Value::Null);
    }
}
