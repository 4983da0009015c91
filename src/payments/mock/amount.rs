//! The amount of a payment, within Stripe's limits.

use super::errors::ApiError;
use super::form::Params;

/// The smallest amounts in minor units (Stripe docs, Currencies). Stripe judges by the settlement currency; the mock
/// settles in the currency of the charge, and knows no minimum for the others.
const MINIMUM_AMOUNTS: &[(i64, &[&str])] = &[
    (30, &["gbp"]),
    (
        50,
        &[
            "usd", "aud", "cad", "nzd", "sgd", "brl", "chf", "eur", "inr", "jpy",
        ],
    ),
    (200, &["aed", "myr", "pln", "ron"]),
    (300, &["nok", "sek"]),
    (1000, &["mxn", "thb"]),
];
/// The largest amount in minor units: eight digits.
const AMOUNT_MAX: i64 = 99_999_999;

/// The amount and currency of a new payment, within Stripe's limits.
pub(super) fn amount_and_currency(params: &Params) -> Result<(i64, String), ApiError> {
    params.required("amount")?;
    let currency = params.required("currency")?.to_ascii_lowercase();
    let amount = params.integer("amount")?.unwrap_or_default();
    if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Err(ApiError::invalid(format!("Invalid currency: {currency}.")).param("currency"));
    }
    if amount < 1 {
        let error = ApiError::invalid("This value must be greater than or equal to 1.");
        return Err(error.code("parameter_invalid_integer").param("amount"));
    }
    let known = MINIMUM_AMOUNTS
        .iter()
        .find(|(_, currencies)| currencies.contains(&currency.as_str()));
    if known.is_some_and(|(minimum, _)| amount < *minimum) {
        let error =
            ApiError::invalid("Amount must be at least the minimum charge amount of its currency.");
        return Err(error.code("amount_too_small").param("amount"));
    }
    if amount > AMOUNT_MAX && currency != "idr" {
        let error = ApiError::invalid(format!("Amount must be no more than {AMOUNT_MAX}."));
        return Err(error.code("amount_too_large").param("amount"));
    }
    Ok((amount, currency))
}
