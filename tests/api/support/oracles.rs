//! What must hold after every test, whatever happened in it. Checked from the provider's own books, not from ours.

use std::collections::{BTreeMap, BTreeSet};

use super::{Reply, TestApp};

impl TestApp {
    /// Checks every invoice that the provider or the store knows:
    ///
    /// - O1: the provider took money at most once.
    /// - O2: all success answers are equal (of the `replies` given).
    /// - O3: a new provider key appears only after the former attempt ended in a definitive failure.
    /// - O4: all requests under one key have the same bytes.
    /// - O5: what the provider took is recorded, unless the attempt is still in progress.
    /// - O6: no reservation without a charge, no charge without a reservation.
    ///
    /// And every one of the replies keeps the contract of answers ([`Reply::check_contract`]).
    pub async fn check_oracles(&self, replies: &[Reply]) {
        replies.iter().for_each(Reply::check_contract);
        self.check_ledger().await;
        check_equal_successes(replies);
        self.check_keys().await;
        self.check_bytes();
        self.check_no_orphans().await;
    }

    async fn check_ledger(&self) {
        let mut paid: BTreeMap<String, usize> = BTreeMap::new();
        for payment in self.mock.ledger().payments {
            if payment.status == "succeeded" {
                *paid
                    .entry(payment.invoice_id.unwrap_or_default())
                    .or_default() += 1;
            }
        }
        let mut last: BTreeMap<String, String> = BTreeMap::new();
        let attempts =
            "SELECT invoice_id || '=' || status AS value FROM charges ORDER BY invoice_id, attempt";
        for pair in self.database.words(attempts).await {
            let (invoice_id, status) = pair.rsplit_once('=').unwrap();
            last.insert(invoice_id.to_owned(), status.to_owned());
        }
        for (invoice_id, count) in &paid {
            assert_eq!(
                *count, 1,
                "O1: the provider charged {invoice_id} {count} times"
            );
            let last = last.get(invoice_id).map_or("", String::as_str);
            assert!(
                ["succeeded", "pending", "processing", "needs_review"].contains(&last),
                "O5: the provider charged {invoice_id}, but its last attempt is {last:?}"
            );
        }
        let recorded = "SELECT invoice_id AS value FROM charges WHERE status = 'succeeded'";
        for invoice_id in self.database.words(recorded).await {
            assert!(
                paid.contains_key(&invoice_id),
                "O1: {invoice_id} is paid here and not at the provider"
            );
        }
        let contradictions = "SELECT i.id AS value FROM invoices i WHERE (i.status = 'paid') <> EXISTS \
            (SELECT 1 FROM charges c WHERE c.invoice_id = i.id AND c.status = 'succeeded')";
        assert_eq!(
            self.database.words(contradictions).await,
            Vec::<String>::new(),
            "paid without a charge, or the reverse"
        );
    }

    async fn check_keys(&self) {
        let mut failed_or_live: BTreeMap<String, String> = BTreeMap::new();
        let sql = "SELECT idempotency_key || '=' || status AS value FROM charges";
        for pair in self.database.words(sql).await {
            let (key, status) = pair.rsplit_once('=').unwrap();
            failed_or_live.insert(key.to_owned(), status.to_owned());
        }
        for key in self.sends().into_iter().collect::<BTreeSet<_>>() {
            let Some(rest) = key.split_once("charge:").map(|(_, rest)| rest) else {
                continue;
            };
            let Some((invoice_id, attempt)) = rest.rsplit_once(':') else {
                continue;
            };
            let former = match attempt.parse::<i32>().unwrap() {
                2 => format!("charge:{invoice_id}"),
                attempt => format!("charge:{invoice_id}:{}", attempt - 1),
            };
            assert_eq!(
                failed_or_live.get(&former).map(String::as_str),
                Some("failed"),
                "O3: {key} was sent before {former} had failed"
            );
        }
    }

    fn check_bytes(&self) {
        let mut bodies = BTreeMap::new();
        for request in self.mock.requests() {
            if request.method != "POST" || is_of_another_program(&request.headers) {
                continue;
            }
            let sent = (request.path.clone(), request.body.clone());
            let key = request
                .idempotency_key
                .unwrap_or_else(|| panic!("a POST without a key: {}", sent.0));
            let first = bodies.entry(key.clone()).or_insert_with(|| sent.clone());
            assert_eq!(*first, sent, "O4: {key} was sent with other bytes");
        }
    }

    async fn check_no_orphans(&self) {
        let keys = "SELECT key AS value FROM idempotency_keys k WHERE operation = 'charge' AND NOT EXISTS \
            (SELECT 1 FROM charges c WHERE c.idempotency_key = k.key)";
        assert_eq!(
            self.database.words(keys).await,
            Vec::<String>::new(),
            "O6: reservations without a charge"
        );
        let mismatched = "SELECT k.key AS value FROM idempotency_keys k JOIN charges c ON c.idempotency_key = k.key \
            WHERE NOT ((k.status = 'done' AND c.status = 'succeeded') OR (k.status = 'failed' AND c.status = 'failed') \
            OR (k.status = 'in_progress' AND c.status IN ('pending', 'processing', 'needs_review')))";
        assert_eq!(
            self.database.words(mismatched).await,
            Vec::<String>::new(),
            "a key and its charge contradict each other"
        );
    }
}

/// A request that the test itself made, in the place of some other program on the same account.
fn is_of_another_program(headers: &[(String, String)]) -> bool {
    let is_marked = |(name, _): &(String, String)| name.eq_ignore_ascii_case("x-another-program");
    headers.iter().any(is_marked)
}

fn check_equal_successes(replies: &[Reply]) {
    let mut first: BTreeMap<String, &str> = BTreeMap::new();
    for reply in replies.iter().filter(|reply| reply.status == 201) {
        let body = first.entry(reply.text("invoiceId")).or_insert(&reply.body);
        assert_eq!(*body, reply.body, "O2: two successes of one invoice differ");
    }
}
