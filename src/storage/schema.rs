//! The tables, as `diesel print-schema` prints them from the SQLite set; shared by both adapters.
#![expect(
    missing_docs,
    reason = "generated; the columns are explained in the migrations"
)]

diesel::table! {
    agent_spending (key_name) {
        key_name -> Text,
        updated_at_ms -> BigInt,
    }
}

diesel::table! {
    charges (id) {
        id -> Text,
        invoice_id -> Text,
        attempt -> Integer,
        idempotency_key -> Text,
        status -> Text,
        amount_cents -> BigInt,
        currency -> Text,
        customer_id -> Text,
        payment_method_id -> Nullable<Text>,
        invoice_revision -> Integer,
        provider -> Text,
        request_path -> Text,
        request_body -> Text,
        provider_payment_id -> Nullable<Text>,
        provider_payment_open -> Bool,
        failure_kind -> Nullable<Text>,
        failure_code -> Nullable<Text>,
        decline_code -> Nullable<Text>,
        advice_code -> Nullable<Text>,
        failure_message -> Nullable<Text>,
        evidence -> Nullable<Text>,
        created_at_ms -> BigInt,
        updated_at_ms -> BigInt,
        settled_at_ms -> Nullable<BigInt>,
        asked_key -> Nullable<Text>,
        asked_request -> Nullable<Text>,
        asked_session -> Nullable<Text>,
        refunded_cents -> BigInt,
    }
}

diesel::table! {
    charge_evidence (id) {
        id -> Text,
        charge_id -> Text,
        at_ms -> BigInt,
        what -> Text,
        detail -> Text,
    }
}

diesel::table! {
    idempotency_keys (key) {
        key -> Text,
        operation -> Text,
        status -> Text,
        attempt -> Integer,
        fingerprint -> Text,
        lease_token -> Text,
        lease_expires_at_ms -> BigInt,
        recovery -> Text,
        first_sent_at_ms -> BigInt,
        last_sent_at_ms -> BigInt,
        takeovers -> Integer,
        response_status -> Nullable<Integer>,
        response_location -> Nullable<Text>,
        response_body -> Nullable<Text>,
        created_at_ms -> BigInt,
        updated_at_ms -> BigInt,
        idle -> Bool,
        recover_after_ms -> BigInt,
        unanswered_since_ms -> Nullable<BigInt>,
    }
}

diesel::table! {
    installation (singleton) {
        singleton -> Integer,
        id -> Text,
    }
}

diesel::table! {
    invoices (id) {
        id -> Text,
        customer_id -> Text,
        amount_cents -> BigInt,
        currency -> Text,
        description -> Nullable<Text>,
        payment_method_id -> Nullable<Text>,
        metadata -> Text,
        status -> Text,
        revision -> Integer,
        created_at_ms -> BigInt,
        updated_at_ms -> BigInt,
    }
}

diesel::table! {
    provider_events (id) {
        id -> Text,
        kind -> Text,
        payment_id -> Text,
        created_at_ms -> BigInt,
        received_at_ms -> BigInt,
        status -> Text,
        outcome -> Nullable<Text>,
        tries -> Integer,
        next_try_at_ms -> BigInt,
        updated_at_ms -> BigInt,
    }
}

diesel::table! {
    refund_evidence (id) {
        id -> Text,
        refund_id -> Text,
        at_ms -> BigInt,
        what -> Text,
        detail -> Text,
    }
}

diesel::table! {
    refunds (id) {
        id -> Text,
        charge_id -> Text,
        attempt -> Integer,
        idempotency_key -> Text,
        header_key -> Nullable<Text>,
        status -> Text,
        amount_cents -> BigInt,
        currency -> Text,
        reason -> Nullable<Text>,
        provider -> Text,
        request_path -> Text,
        request_body -> Text,
        provider_refund_id -> Nullable<Text>,
        failure_kind -> Nullable<Text>,
        failure_code -> Nullable<Text>,
        failure_reason -> Nullable<Text>,
        failure_message -> Nullable<Text>,
        evidence -> Nullable<Text>,
        asked_key -> Nullable<Text>,
        asked_request -> Nullable<Text>,
        asked_session -> Nullable<Text>,
        created_at_ms -> BigInt,
        updated_at_ms -> BigInt,
        settled_at_ms -> Nullable<BigInt>,
    }
}

diesel::table! {
    unpaid_invoices (status, created_at_ms, invoice_id) {
        status -> Text,
        created_at_ms -> BigInt,
        invoice_id -> Text,
    }
}

diesel::joinable!(charge_evidence -> charges (charge_id));
diesel::joinable!(charges -> idempotency_keys (idempotency_key));
diesel::joinable!(charges -> invoices (invoice_id));
diesel::joinable!(refund_evidence -> refunds (refund_id));
diesel::joinable!(refunds -> charges (charge_id));
diesel::joinable!(refunds -> idempotency_keys (idempotency_key));
diesel::joinable!(unpaid_invoices -> invoices (invoice_id));

diesel::allow_tables_to_appear_in_same_query!(
    agent_spending,
    charge_evidence,
    charges,
    idempotency_keys,
    installation,
    invoices,
    provider_events,
    refund_evidence,
    refunds,
    unpaid_invoices,
);
