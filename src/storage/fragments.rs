//! Query pieces without a backend.

use diesel::backend::Backend;
use diesel::dsl::sql;
use diesel::expression::{SqlLiteral, ValidGrouping, is_aggregate};
use diesel::prelude::*;
use diesel::query_builder::{AstPass, QueryFragment, QueryId, UpdateStatement};
use diesel::sql_types::{BigInt, Bool};

use super::schema::{charges, idempotency_keys, invoices, provider_events, refunds};

diesel::table! {
    /// The migrations that have run, as diesel_migrations keeps them.
    __diesel_schema_migrations (version) {
        /// The migration's version: its name's date and number, as digits.
        version -> Text,
    }
}

#[diesel::declare_sql_function]
extern "SQL" {
    /// The database's time in Unix milliseconds, plus an offset. A function of the schema in PostgreSQL; in SQLite, which
    /// has no clock but its process's, registered with each connection.
    fn clock_ms(offset_ms: BigInt) -> BigInt;
}

/// The database's time, as an expression.
pub fn now() -> clock_ms<i64> {
    clock_ms(0)
}

/// The database's time in so many milliseconds, as an expression.
pub fn now_plus(milliseconds: i64) -> clock_ms<i64> {
    clock_ms(milliseconds)
}

/// The same, read once for the whole statement: a limit by which an index can be entered. Where the clock is read anew for each row,
/// every row is looked at.
pub fn moment(offset_ms: i64) -> SqlLiteral<BigInt> {
    sql(&format!("(SELECT clock_ms({offset_ms}))"))
}

/// The key's row, while this token holds it.
#[diesel::dsl::auto_type]
pub fn held<'a>(key: &'a str, lease_token: &'a str) -> _ {
    let open: Condition = key_still_open();
    idempotency_keys::table
        .filter(idempotency_keys::key.eq(key))
        .filter(idempotency_keys::lease_token.eq(lease_token))
        .filter(open)
}

// Conditions in the words of partial indexes, without parameters. A plan that is made once for all values cannot enter such an index
// by a parameter, and reads the whole table instead: millions of rows, to find the few that are open. (SQLite, which knows nothing of how
// many rows there are, still prefers an index in the wanted order to one that has only the open ones, for lists by status.)

/// A condition without parameters, of which a statement stays prepared. (Diesel's own literal may hold anything, so statements with one
/// are prepared with each use.)
#[derive(Debug, Clone, Copy)]
pub struct Condition(&'static str);

impl Expression for Condition {
    type SqlType = Bool;
}

impl<DB: Backend> QueryFragment<DB> for Condition {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql("(");
        out.push_sql(self.0);
        out.push_sql(")");
        Ok(())
    }
}

/// It is found again by its text.
impl QueryId for Condition {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<T> AppearsOnTable<T> for Condition {}

impl<T> SelectableExpression<T> for Condition {}

impl<G> ValidGrouping<G> for Condition {
    type IsAggregate = is_aggregate::Never;
}

/// Keys in progress: the index `keys_in_progress`.
pub fn key_in_progress() -> Condition {
    Condition("idempotency_keys.status = 'in_progress'")
}

/// Charges that took money: the index `charges_paid_by_payment`.
pub fn charge_paid() -> Condition {
    Condition("charges.status = 'succeeded'")
}

/// All other charges: the index `charges_tried_by_payment`.
pub fn charge_not_paid() -> Condition {
    Condition("charges.status <> 'succeeded'")
}

/// Charges without a verdict: the index `charges_without_verdict`.
pub fn charge_without_verdict() -> Condition {
    Condition("charges.status IN ('pending', 'processing', 'needs_review')")
}

/// A key in progress, as a condition on a row that is found by its key: no index answers it, so that not all that is in progress is gone
/// through for it, where a plan is made with these words and the server counts few of them.
pub fn key_still_open() -> Condition {
    Condition("CASE idempotency_keys.status WHEN 'in_progress' THEN TRUE END")
}

/// An event that nobody has dealt with, likewise.
pub fn event_still_open() -> Condition {
    Condition("CASE provider_events.status WHEN 'pending' THEN TRUE END")
}

/// Charges that somebody has to go on with, as a condition on rows that are found by their key: no index answers it, so that none is
/// gone through for each key.
pub fn charge_under_way() -> Condition {
    Condition("CASE WHEN charges.status IN ('pending', 'processing') THEN TRUE END")
}

/// Refunds that somebody has to go on with, likewise.
pub fn refund_under_way() -> Condition {
    Condition("CASE WHEN refunds.status IN ('pending', 'processing') THEN TRUE END")
}

/// Refunds without a verdict: the index `refunds_without_verdict`.
pub fn refund_without_verdict() -> Condition {
    Condition("refunds.status IN ('pending', 'processing', 'needs_review')")
}

/// Events that nobody has dealt with: the index `provider_events_pending`.
pub fn pending_event() -> Condition {
    Condition("provider_events.status = 'pending'")
}

/// True for the statuses of [`charge_without_verdict`] and [`refund_without_verdict`].
pub fn is_without_verdict(status: &str) -> bool {
    matches!(status, "pending" | "processing" | "needs_review")
}

/// The charge's row, while it has no verdict.
#[diesel::dsl::auto_type]
pub fn undecided<'a>(charge_id: &'a str) -> _ {
    charges::table
        .filter(charges::id.eq(charge_id))
        .filter(charges::status.ne("succeeded"))
        .filter(charges::status.ne("failed"))
}

/// The refund's row, while it has no verdict.
#[diesel::dsl::auto_type]
pub fn undecided_refund<'a>(refund_id: &'a str) -> _ {
    refunds::table
        .filter(refunds::id.eq(refund_id))
        .filter(refunds::status.ne("succeeded"))
        .filter(refunds::status.ne("failed"))
        .filter(refunds::status.ne("returned"))
}

/// The invoice's row, while it is open.
#[diesel::dsl::auto_type]
pub fn open_invoice<'a>(invoice_id: &'a str) -> _ {
    invoices::table
        .filter(invoices::id.eq(invoice_id))
        .filter(invoices::status.eq("open"))
}

/// The charge that keeps an invoice from being changed: one that took money or still may.
#[diesel::dsl::auto_type]
pub fn live_charge<'a>(invoice_id: &'a str) -> _ {
    charges::table
        .filter(charges::invoice_id.eq(invoice_id))
        .filter(charges::status.ne("failed"))
}

/// The event's row, while nobody has dealt with it.
#[diesel::dsl::auto_type]
pub fn open_event<'a>(id: &'a str) -> _ {
    let open: Condition = event_still_open();
    provider_events::table
        .filter(provider_events::id.eq(id))
        .filter(open)
}

/// The event's row, while it is as it was claimed for its n-th try.
#[diesel::dsl::auto_type]
pub fn claimed_event<'a>(id: &'a str, tries: i32) -> _ {
    let open: open_event<'a> = open_event(id);
    open.filter(provider_events::tries.eq(tries))
}

/// An update that the connection keeps prepared. Diesel prepares each one anew, as what it sets may depend on its values; to do
/// so costs SQLite, which reads the triggers and indexes of the table again, more than the update. For those of every charge, whose text is
/// one of a few.
pub struct Kept<S>(S);

impl<DB: Backend, S: QueryFragment<DB>> QueryFragment<DB> for Kept<S> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        self.0.walk_ast(out)
    }

    fn is_safe_to_cache_prepared(&self, _backend: &DB) -> QueryResult<bool> {
        Ok(true)
    }
}

/// It is found again by its text.
impl<S> QueryId for Kept<S> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

/// To keep an update prepared.
pub trait Keep: Sized {
    /// See [`Kept`].
    fn kept(self) -> Kept<Self> {
        Kept(self)
    }
}

impl<T: QuerySource, U, V, R> Keep for UpdateStatement<T, U, V, R> {}
