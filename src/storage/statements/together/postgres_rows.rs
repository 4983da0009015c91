//! The rows that PostgreSQL is given for several attempts, and the statements that they are the parameters of.

use std::sync::Arc;

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text};

use crate::charges::model::failure_kind_word;
use crate::charges::repository::{AttemptRecord, NewAttempt, Settlement};
use crate::payments::outcome::Failure;

/// Defines the rows of a statement, a vector for each column, and the statement that they are the parameters of.
macro_rules! rows {
    ($(#[$doc:meta])* $name:ident<$life:lifetime> -> $returned:ty, $sql:ident { $($column:ident: $sql_type:ty = $rust:ty),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name<$life> {
            $($column: Vec<$rust>,)+
        }

        impl<$life> QueryFragment<Pg> for $name<$life> {
            fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
                let (before, after) = $sql;
                out.push_sql(before);
                let mut comma = "";
                $(
                    out.push_sql(comma);
                    out.push_bind_param::<Array<$sql_type>, _>(&self.$column)?;
                    comma = ", ";
                )+
                let _ = comma;
                let mut opening = ") AS given (";
                $(
                    out.push_sql(opening);
                    out.push_sql(stringify!($column));
                    opening = ", ";
                )+
                let _ = opening;
                out.push_sql(after);
                Ok(())
            }
        }

        impl QueryId for $name<'_> {
            type QueryId = $name<'static>;
            const HAS_STATIC_QUERY_ID: bool = true;
        }

        impl Query for $name<'_> {
            type SqlType = $returned;
        }

        impl<C> diesel::RunQueryDsl<C> for $name<'_> {}
    };
}

/// Reserves. A key without its charge must not stay: then the statement fails as a whole.
///
/// The look at the invoice before the key is written spares nearly every such failure; the look under its lock is the one that
/// counts. `(… IN …) IS TRUE` keeps a look into what another part returned a hash table, where a join would compare each row
/// with each.
///
/// What status a row that is found by its key must have is asked by CASE, here and in [`SETTLE`], because no partial index answers
/// that. Else the server, who counts next to nothing that is open when it makes its plan, would go through all that is open, for each
/// batch.
const RESERVE: (&str, &str) = (
    "WITH clock AS MATERIALIZED (SELECT clock_ms(0) AS ms), given AS MATERIALIZED (SELECT * FROM unnest(",
    ")), reserved AS (
        INSERT INTO idempotency_keys (key, operation, status, attempt, fingerprint, lease_token, lease_expires_at_ms, recovery,
            first_sent_at_ms, last_sent_at_ms, takeovers, created_at_ms, updated_at_ms)
        SELECT given.key, given.operation, 'in_progress', given.attempt, given.fingerprint, given.lease_token,
            clock.ms + given.lease_ms, 'resend', clock.ms, clock.ms, 0, clock.ms, clock.ms
        FROM clock, given JOIN invoices ON invoices.id = given.invoice_id
        WHERE CASE invoices.status WHEN 'open' THEN TRUE END AND invoices.revision = given.invoice_revision
            AND NOT EXISTS (SELECT FROM charges WHERE charges.invoice_id = given.invoice_id AND charges.status <> 'failed')
        ORDER BY given.key
        ON CONFLICT (key) DO NOTHING
        RETURNING key, lease_token, lease_expires_at_ms, first_sent_at_ms
    ), held AS (
        SELECT id, revision FROM invoices
        WHERE CASE status WHEN 'open' THEN TRUE END AND id = ANY (ARRAY(
            SELECT invoice_id FROM given WHERE (lease_token IN (SELECT lease_token FROM reserved)) IS TRUE
        ))
        ORDER BY id
        FOR SHARE
    ), begun AS (
        INSERT INTO charges (id, invoice_id, attempt, idempotency_key, status, amount_cents, currency, customer_id,
            payment_method_id, invoice_revision, provider, request_path, request_body, provider_payment_id,
            provider_payment_open, created_at_ms, updated_at_ms, asked_key, asked_request, asked_session)
        SELECT charge_id, invoice_id, attempt, key, 'pending', amount_cents, currency, customer_id, payment_method_id,
            invoice_revision, provider, request_path, request_body, provider_payment_id, FALSE, created_at_ms, created_at_ms,
            asked_key, asked_request, asked_session
        FROM given
        WHERE (lease_token IN (SELECT lease_token FROM reserved)) IS TRUE
            AND ((invoice_id, invoice_revision) IN (SELECT id, revision FROM held)) IS TRUE
        ON CONFLICT DO NOTHING
        RETURNING idempotency_key
    )
    SELECT lease_token, first_sent_at_ms, lease_expires_at_ms,
        CASE WHEN (key IN (SELECT idempotency_key FROM begun)) IS TRUE THEN FALSE ELSE refuse_half(key) END
    FROM reserved",
);

rows! {
    /// The attempts to reserve.
    Reserve<'a> -> (Text, BigInt, BigInt, Bool), RESERVE {
        key: Text = &'a str,
        operation: Text = &'a str,
        attempt: Integer = i32,
        fingerprint: Text = &'a str,
        lease_token: Text = &'a str,
        lease_ms: BigInt = i64,
        charge_id: Text = &'a str,
        invoice_id: Text = &'a str,
        amount_cents: BigInt = i64,
        currency: Text = &'a str,
        customer_id: Text = &'a str,
        payment_method_id: Nullable<Text> = Option<&'a str>,
        invoice_revision: Integer = i32,
        provider: Text = &'a str,
        request_path: Text = &'a str,
        request_body: Text = &'a str,
        provider_payment_id: Nullable<Text> = Option<&'a str>,
        created_at_ms: BigInt = i64,
        asked_key: Nullable<Text> = Option<&'a str>,
        asked_request: Nullable<Text> = Option<&'a str>,
        asked_session: Nullable<Text> = Option<&'a str>,
    }
}

/// Settles: the key while its token holds it, then the invoice of a success, then the charge. A verdict of which only a part can
/// be written contradicts the books: then the statement fails as a whole. The look into `paid` stands first, so that the invoices
/// are locked before any charge.
const SETTLE: (&str, &str) = (
    "WITH clock AS MATERIALIZED (SELECT clock_ms(0) AS ms), given AS MATERIALIZED (SELECT * FROM unnest(",
    ")), ended AS (
        UPDATE idempotency_keys SET status = given.key_status, response_status = given.response_status,
            response_location = given.response_location, response_body = given.response_body, updated_at_ms = clock.ms
        FROM given, clock
        WHERE idempotency_keys.key = given.key AND idempotency_keys.lease_token = given.lease_token
            AND CASE idempotency_keys.status WHEN 'in_progress' THEN TRUE END
        RETURNING idempotency_keys.key, idempotency_keys.lease_token
    ), paid AS (
        UPDATE invoices SET status = 'paid', updated_at_ms = clock.ms
        FROM clock
        WHERE CASE invoices.status WHEN 'open' THEN TRUE END AND invoices.id = ANY (ARRAY(
            SELECT invoice_id FROM given
            WHERE charge_status = 'succeeded' AND (lease_token IN (SELECT lease_token FROM ended)) IS TRUE
        ))
        RETURNING invoices.id
    ), settled AS (
        UPDATE charges SET status = given.charge_status, provider_payment_id = given.payment_id,
            provider_payment_open = given.payment_open, failure_kind = given.failure_kind, failure_code = given.failure_code,
            decline_code = given.decline_code, advice_code = given.advice_code, failure_message = given.failure_message,
            settled_at_ms = given.settled_at_ms, updated_at_ms = clock.ms
        FROM given, clock
        WHERE charges.id = given.charge_id
            AND CASE WHEN charges.status NOT IN ('succeeded', 'failed') THEN TRUE END
            AND (given.lease_token IN (SELECT lease_token FROM ended)) IS TRUE
            AND ((given.invoice_id IN (SELECT id FROM paid)) IS TRUE OR given.charge_status = 'failed')
        RETURNING charges.idempotency_key
    )
    SELECT lease_token,
        CASE WHEN (key IN (SELECT idempotency_key FROM settled)) IS TRUE THEN FALSE ELSE refuse_half(key) END
    FROM ended",
);

rows! {
    /// The verdicts to record.
    Settle<'a> -> (Text, Bool), SETTLE {
        key: Text = &'a str,
        lease_token: Text = &'a str,
        key_status: Text = &'a str,
        response_status: Integer = i32,
        response_location: Nullable<Text> = Option<&'a str>,
        response_body: Text = &'a str,
        charge_id: Text = &'a str,
        invoice_id: Text = &'a str,
        charge_status: Text = &'a str,
        payment_id: Nullable<Text> = Option<&'a str>,
        payment_open: Bool = bool,
        failure_kind: Nullable<Text> = Option<&'a str>,
        failure_code: Nullable<Text> = Option<&'a str>,
        decline_code: Nullable<Text> = Option<&'a str>,
        advice_code: Nullable<Text> = Option<&'a str>,
        failure_message: Nullable<Text> = Option<&'a str>,
        settled_at_ms: BigInt = i64,
    }
}

impl<'a> Reserve<'a> {
    /// Those of them.
    pub fn of(attempts: &'a [Arc<NewAttempt>]) -> Self {
        let mut rows = Self::default();
        for attempt in attempts {
            let NewAttempt {
                reservation,
                charge,
            } = attempt.as_ref();
            let asked = charge.asked_by.as_ref();
            rows.key.push(&reservation.key);
            rows.operation.push(reservation.operation);
            rows.attempt.push(reservation.attempt);
            rows.fingerprint.push(&reservation.fingerprint);
            rows.lease_token.push(&reservation.lease_token);
            rows.lease_ms.push(reservation.lease_ms);
            rows.charge_id.push(&charge.id);
            rows.invoice_id.push(&charge.invoice_id);
            rows.amount_cents.push(charge.amount_minor);
            rows.currency.push(&charge.currency);
            rows.customer_id.push(&charge.customer_id);
            rows.payment_method_id
                .push(charge.payment_method_id.as_deref());
            rows.invoice_revision.push(charge.invoice_revision);
            rows.provider.push(&charge.provider);
            rows.request_path.push(&charge.request.path);
            rows.request_body.push(&charge.request.body);
            rows.provider_payment_id
                .push(charge.provider_payment_id.as_deref());
            rows.created_at_ms.push(charge.created_at_ms);
            rows.asked_key
                .push(asked.and_then(|asked| asked.key_name.as_deref()));
            rows.asked_request
                .push(asked.map(|asked| asked.request_id.as_str()));
            rows.asked_session
                .push(asked.and_then(|asked| asked.session.as_deref()));
        }
        rows
    }
}

impl<'a> Settle<'a> {
    /// `None` when one of them is no verdict.
    pub fn of(settlements: &'a [Arc<Settlement>]) -> Option<Self> {
        let mut rows = Self::default();
        for settlement in settlements {
            let Settlement {
                charge,
                lease_token,
                record,
            } = settlement.as_ref();
            let (response, settled_at_ms) = match record {
                AttemptRecord::Succeeded {
                    payment_id,
                    settled_at_ms,
                    response,
                } => {
                    rows.key_status.push("done");
                    rows.charge_status.push("succeeded");
                    rows.payment_id.push(Some(payment_id));
                    rows.failure(None);
                    (response, settled_at_ms)
                }
                AttemptRecord::Failed {
                    failure,
                    settled_at_ms,
                    response,
                } => {
                    let payment_id = failure.payment_id.as_deref();
                    rows.key_status.push("failed");
                    rows.charge_status.push("failed");
                    rows.payment_id
                        .push(payment_id.or(charge.provider_payment_id.as_deref()));
                    rows.failure(Some(failure));
                    (response, settled_at_ms)
                }
                AttemptRecord::Processing { .. }
                | AttemptRecord::NeedsReview { .. }
                | AttemptRecord::Unknown { .. }
                | AttemptRecord::Released => return None,
            };
            rows.key.push(&charge.idempotency_key);
            rows.lease_token.push(lease_token);
            rows.response_status.push(i32::from(response.status));
            rows.response_location.push(response.location.as_deref());
            rows.response_body.push(&response.body);
            rows.charge_id.push(&charge.id);
            rows.invoice_id.push(&charge.invoice_id);
            rows.settled_at_ms.push(*settled_at_ms);
        }
        Some(rows)
    }

    fn failure(&mut self, failure: Option<&'a Failure>) {
        self.payment_open
            .push(failure.is_some_and(|failure| failure.payment_open));
        self.failure_kind
            .push(failure.map(|failure| failure_kind_word(failure.kind)));
        self.failure_code
            .push(failure.map(|failure| failure.code.as_str()));
        self.decline_code
            .push(failure.and_then(|failure| failure.decline_code.as_deref()));
        self.advice_code
            .push(failure.and_then(|failure| failure.advice_code.as_deref()));
        self.failure_message
            .push(failure.and_then(|failure| failure.message.as_deref()));
    }
}
