//! Which declines may be tried again, and who has to act first. Pure policy: no I/O, no clock, no counters.
//!
//! Limits on the number of attempts are not here: even a decline that may be tried again is tried a bounded number of
//! times (Stripe docs, Declines: networks cap re-attempts, at most 8 retries of a charge).

/// What has to happen before a declined payment may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclineClass {
    /// The same payment method must not be tried again for this payment; another one may.
    StopThisPaymentMethod,
    /// The customer has to correct the payment method's details.
    CustomerMustFix,
    /// The customer has to authenticate in person (3-D Secure, a PIN).
    CustomerMustAuthenticate,
    /// The same payment method may work later.
    RetryLater,
}

/// Classifies a decline by its codes.
///
/// The network's advice wins over any table (Stripe docs, Declines: `advice_code`). Without it the issuer's reason
/// decides, then the code. A code that nobody knows is treated like `generic_decline`: an unexplained refusal, which
/// may be tried again later.
pub fn classify(code: &str, decline_code: Option<&str>, advice_code: Option<&str>) -> DeclineClass {
    advised(advice_code)
        .or_else(|| decline_code.and_then(listed))
        .or_else(|| listed(code))
        .unwrap_or(DeclineClass::RetryLater)
}

fn advised(advice_code: Option<&str>) -> Option<DeclineClass> {
    match advice_code? {
        "do_not_try_again" => Some(DeclineClass::StopThisPaymentMethod),
        "confirm_card_data" => Some(DeclineClass::CustomerMustFix),
        "try_again_later" => Some(DeclineClass::RetryLater),
        _ => None,
    }
}

/// The static table: Stripe Billing's own list of hard declines (Stripe docs, Smart Retries) first, the rest read from
/// what the codes mean (Stripe docs, Decline codes).
fn listed(code: &str) -> Option<DeclineClass> {
    match code {
        "incorrect_number"
        | "lost_card"
        | "pickup_card"
        | "stolen_card"
        | "revocation_of_authorization"
        | "revocation_of_all_authorizations"
        | "transaction_not_allowed"
        | "highest_risk_level"
        | "previously_declined_do_not_retry"
        | "restricted_card"
        | "security_violation"
        | "stop_payment_order"
        | "service_not_allowed"
        | "not_permitted"
        | "card_not_supported"
        | "currency_not_supported"
        | "invalid_account"
        | "merchant_blacklist"
        | "fraudulent"
        | "testmode_decline"
        | "do_not_try_again"
        | "pin_try_exceeded"
        | "new_account_information_available" => Some(DeclineClass::StopThisPaymentMethod),

        "expired_card"
        | "incorrect_address"
        | "incorrect_cvc"
        | "incorrect_pin"
        | "incorrect_zip"
        | "invalid_amount"
        | "invalid_cvc"
        | "invalid_expiry_month"
        | "invalid_expiry_year"
        | "invalid_number"
        | "invalid_pin" => Some(DeclineClass::CustomerMustFix),

        "authentication_required"
        | "authentication_not_handled"
        | "mobile_device_authentication_required"
        | "offline_pin_required"
        | "online_or_offline_pin_required"
        | "approve_with_id" => Some(DeclineClass::CustomerMustAuthenticate),

        "insufficient_funds"
        | "withdrawal_count_limit_exceeded"
        | "card_velocity_exceeded"
        | "issuer_not_available"
        | "processing_error"
        | "reenter_transaction"
        | "try_again_later"
        | "generic_decline"
        | "do_not_honor"
        | "call_issuer"
        | "no_action_taken" => Some(DeclineClass::RetryLater),

        _ => None,
    }
}

/// True when the reason must not be shown to the customer: it would tell a thief what the bank knows. A generic decline
/// is shown instead (Stripe docs, Decline codes).
pub fn is_confidential(code: &str) -> bool {
    matches!(
        code,
        "fraudulent"
            | "stolen_card"
            | "lost_card"
            | "pickup_card"
            | "merchant_blacklist"
            | "restricted_card"
            | "security_violation"
            | "highest_risk_level"
            | "previously_declined_do_not_retry"
    )
}

#[cfg(test)]
mod tests {
    use super::DeclineClass::*;
    use super::*;

    #[test]
    fn a_decline_is_classified_by_advice_then_reason_then_code() {
        #[rustfmt::skip]
        let rows = [
            ("advice wins over a hard reason", ("card_declined", Some("lost_card"), Some("try_again_later")), RetryLater),
            ("advice wins over a soft reason", ("card_declined", Some("insufficient_funds"), Some("do_not_try_again")), StopThisPaymentMethod),
            ("advice to correct the details", ("expired_card", Some("expired_card"), Some("confirm_card_data")), CustomerMustFix),
            ("unknown advice leaves it to the reason", ("card_declined", Some("stolen_card"), Some("hum_a_tune")), StopThisPaymentMethod),
            ("lost card", ("card_declined", Some("lost_card"), None), StopThisPaymentMethod),
            ("fraudulent comes without advice", ("card_declined", Some("fraudulent"), None), StopThisPaymentMethod),
            ("expired card by its code alone", ("expired_card", None, None), CustomerMustFix),
            ("a wrong CVC", ("incorrect_cvc", Some("incorrect_cvc"), None), CustomerMustFix),
            ("a wrong number is on the hard list", ("incorrect_number", None, None), StopThisPaymentMethod),
            ("3-D Secure", ("authentication_required", Some("authentication_required"), None), CustomerMustAuthenticate),
            ("no funds", ("card_declined", Some("insufficient_funds"), None), RetryLater),
            ("do_not_honor is no hard decline", ("card_declined", Some("do_not_honor"), None), RetryLater),
            ("an unknown reason falls back to the code", ("expired_card", Some("brand_new_reason"), None), CustomerMustFix),
            ("nothing known at all", ("brand_new_code", Some("brand_new_reason"), None), RetryLater),
            ("a decline without any reason", ("card_declined", None, None), RetryLater),
        ];
        for (name, (code, decline, advice), expected) in rows {
            assert_eq!(classify(code, decline, advice), expected, "{name}");
        }
    }

    #[test]
    fn fraud_reasons_are_confidential_and_funds_are_not() {
        assert!(is_confidential("stolen_card"));
        assert!(is_confidential("merchant_blacklist"));
        assert!(!is_confidential("insufficient_funds"));
    }
}
