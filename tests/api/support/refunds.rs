//! Refunds: steps that many tests share, and what must hold after every test that gave money back.

use std::collections::BTreeMap;

use chargeonce::payments::mock::{Fault, FaultRule, RefundRow};
use serde_json::{Value, json};

use super::{Reply, TestApp};

impl TestApp {
    /// The id of a charge that took 12.50 USD for a new invoice.
    pub async fn paid(&self, invoice_id: &str) -> String {
        self.paid_with(invoice_id, json!({})).await
    }

    /// The same with more fields of the invoice.
    pub async fn paid_with(&self, invoice_id: &str, more: Value) -> String {
        self.invoice_with(invoice_id, more).await;
        let charge = self.charge(invoice_id).await;
        charge.assert(201, "", "yes", "not_needed");
        charge.text("id")
    }

    /// Gives all back that is left of a charge.
    pub async fn give_back(&self, charge_id: &str) -> Reply {
        self.post("/v1/refunds", &json!({"chargeId": charge_id}))
            .await
    }

    /// Gives a part of it back, under a key of the caller's.
    pub async fn give_part(&self, charge_id: &str, amount: i64, key: &str) -> Reply {
        let body = json!({"chargeId": charge_id, "amountCents": amount});
        self.post_with("/v1/refunds", &body, &[("Idempotency-Key", key)])
            .await
    }

    /// Lets the next sends of the first attempt to give back what is left of a charge fail in this way.
    pub fn refund_fault(&self, charge_id: &str, fault: Fault, times: u32) {
        self.mock.add_fault(FaultRule {
            times,
            ..FaultRule::once(fault).for_key(format!("refund:{charge_id}"))
        });
    }

    /// Lets the next sends of any refund fail in this way.
    pub fn next_refund_fault(&self, fault: Fault, times: u32) {
        self.mock.add_fault(FaultRule {
            times,
            ..FaultRule::once(fault)
        });
    }

    /// The statuses of a charge's refunds, oldest first.
    pub async fn refunds_of(&self, charge_id: &str) -> Vec<String> {
        let sql = format!(
            "SELECT status AS value FROM refunds WHERE charge_id = '{charge_id}' ORDER BY id"
        );
        self.database.words(&sql).await
    }

    /// The sum of a charge's refunds that have not failed, in our books.
    pub async fn refunded(&self, charge_id: &str) -> i64 {
        let sql = format!("SELECT refunded_cents AS value FROM charges WHERE id = '{charge_id}'");
        self.database.number(&sql).await
    }

    /// The amounts that the provider gave back of a charge, oldest first.
    pub fn given(&self, charge_id: &str) -> Vec<i64> {
        let ledger = self.mock.ledger();
        let given = ledger.given_back(charge_id);
        given.iter().map(|refund| refund.amount).collect()
    }

    /// The provider keys of the refunds that were asked for, in order, each repeat included.
    pub fn refund_sends(&self) -> Vec<String> {
        let mut sends = self.sends();
        sends.retain(|key| key.starts_with("refund:"));
        sends
    }

    /// Checks every refund that the provider or the store knows:
    ///
    /// - R1: under one key the provider gave money back at most once.
    /// - R2: all success answers of one refund are equal (of the `replies` given).
    /// - R3: of no charge was more given back than it took.
    /// - R4: what the provider gave back is recorded, unless the refund is still in progress; and the reverse.
    /// - R5: a charge's sum is that of its refunds that have not failed.
    /// - R6: no key without its refund, and the two agree.
    ///
    /// And every one of the replies keeps the contract of answers about refunds; and all that holds of the charges.
    pub async fn check_refunds(&self, replies: &[Reply]) {
        replies.iter().for_each(Reply::check_refund_contract);
        check_equal_successes(replies);
        self.check_given().await;
        self.check_sums().await;
        self.check_refund_keys().await;
        self.check_oracles(&[]).await;
    }

    async fn check_given(&self) {
        let lives = |refund: &RefundRow| ["succeeded", "pending"].contains(&refund.status.as_str());
        let mut by_key: BTreeMap<String, Vec<RefundRow>> = BTreeMap::new();
        let mut by_charge: BTreeMap<String, i64> = BTreeMap::new();
        for refund in self.mock.ledger().refunds {
            // One that was made by hand carries no charge of ours.
            let Some(charge_id) = refund.charge_id.clone().filter(|_| lives(&refund)) else {
                continue;
            };
            *by_charge.entry(charge_id).or_default() += refund.amount;
            let key = refund.idempotency_key.clone().unwrap();
            by_key.entry(key).or_default().push(refund);
        }
        for (key, refunds) in &by_key {
            assert_eq!(refunds.len(), 1, "R1: {key} gave money back more than once");
            let sql =
                format!("SELECT status AS value FROM refunds WHERE idempotency_key = '{key}'");
            let status = self.database.words(&sql).await.concat();
            let known = ["succeeded", "pending", "processing", "needs_review"];
            assert!(
                known.contains(&status.as_str()),
                "R4: {key} gave money back, and our books say {status:?}"
            );
        }
        for (charge_id, sum) in by_charge {
            let sql = format!("SELECT amount_cents AS value FROM charges WHERE id = '{charge_id}'");
            let amount = self.database.number(&sql).await;
            assert!(
                sum <= amount,
                "R3: {sum} of {amount} were given back of {charge_id}"
            );
        }
        let recorded = "SELECT idempotency_key || '=' || provider_refund_id AS value FROM refunds WHERE status = 'succeeded'";
        for pair in self.database.words(recorded).await {
            let (key, id) = pair.rsplit_once('=').unwrap();
            let given = by_key.get(key).and_then(|refunds| refunds.first());
            assert_eq!(
                given.map(|refund| refund.id.as_str()),
                Some(id),
                "R4: {key} is given back here and not there"
            );
        }
    }

    async fn check_sums(&self) {
        let wrong = "SELECT c.id AS value FROM charges c WHERE c.refunded_cents <> COALESCE((SELECT SUM(r.amount_cents) FROM refunds r \
            WHERE r.charge_id = c.id AND r.status NOT IN ('failed', 'returned')), 0)";
        assert_eq!(
            self.database.words(wrong).await,
            Vec::<String>::new(),
            "R5: a sum is not that of its refunds"
        );
    }

    async fn check_refund_keys(&self) {
        let orphans = "SELECT key AS value FROM idempotency_keys k WHERE operation = 'refund' AND NOT EXISTS \
            (SELECT 1 FROM refunds r WHERE r.idempotency_key = k.key)";
        let contradictions = "SELECT k.key AS value FROM idempotency_keys k JOIN refunds r ON r.idempotency_key = k.key \
            WHERE NOT ((k.status = 'done' AND r.status IN ('succeeded', 'returned')) OR (k.status = 'failed' AND r.status = 'failed') \
            OR (k.status = 'in_progress' AND r.status IN ('pending', 'processing', 'needs_review')))";
        for sql in [orphans, contradictions] {
            let found = self.database.words(sql).await;
            assert_eq!(found, Vec::<String>::new(), "R6: {sql}");
        }
    }
}

impl Reply {
    /// [`assert`](Self::assert) for an answer about a refund, with `refunded` in the place of `customerCharged`.
    #[track_caller]
    pub fn assert_refund(&self, status: u16, code: &str, refunded: &str, retry: &str) -> &Self {
        let found = (
            self.status,
            self.text("code"),
            self.text("refunded"),
            self.text("retry"),
        );
        let right = (
            status,
            code.to_owned(),
            refunded.to_owned(),
            retry.to_owned(),
        );
        assert_eq!(found, right, "{self:#?}");
        self
    }

    /// What every answer to a refund owes its caller, as [`check_contract`](Self::check_contract) has it for charges.
    #[track_caller]
    pub fn check_refund_contract(&self) {
        let refunded = self.text("refunded");
        let words = ["yes", "no", "unknown"];
        assert!(words.contains(&refunded.as_str()), "{self:#?}");
        let retry = self.text("retry");
        let words = ["not_needed", "now", "later", "after_change", "never"];
        assert!(words.contains(&retry.as_str()), "{self:#?}");
        assert_eq!(retry == "not_needed", self.status == 201, "{self:#?}");
        assert!(self.status != 201 || refunded == "yes", "{self:#?}");
        assert!(self.status != 202 || refunded == "unknown", "{self:#?}");
        let seconds = self.json()["retryAfterSeconds"].as_i64();
        assert_eq!(retry == "later", seconds.is_some(), "{self:#?}");
        let header = self.header("retry-after").map(str::to_owned);
        let seconds = seconds.map(|seconds| seconds.to_string());
        assert_eq!(header, seconds, "{self:#?}");
        if self.status >= 400 {
            let media_type = self.header("content-type");
            assert_eq!(media_type, Some("application/problem+json"), "{self:#?}");
            let detail = self.text("detail");
            assert!(detail.ends_with('.') && detail.len() < 300, "{detail}");
        }
    }
}

fn check_equal_successes(replies: &[Reply]) {
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    for reply in replies.iter().filter(|reply| reply.status == 201) {
        let body = first.entry(reply.text("id")).or_insert(&reply.body);
        assert_eq!(*body, reply.body, "R2: two successes of one refund differ");
    }
}
