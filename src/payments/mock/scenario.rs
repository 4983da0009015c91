//! What each of Stripe's test cards does (Stripe docs, Testing). A table, no state and no chance.

/// A test card under its names as a PaymentMethod and as a token.
#[derive(Debug)]
pub(super) struct Scenario {
    /// Stripe's names, exactly: the prefixes are inconsistent there, and so they are here.
    names: &'static [&'static str],
    /// The card's brand.
    pub(super) brand: &'static str,
    /// The last four digits of the card number.
    pub(super) last4: &'static str,
    /// What happens when it is charged.
    pub(super) verdict: Verdict,
    /// Whether it can be saved to a customer.
    pub(super) attachable: bool,
    /// What becomes of its refunds.
    pub(super) refunds: RefundCourse,
}

/// What becomes of a refund, by the card that the money goes back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefundCourse {
    /// It succeeds at once and for good.
    Succeeds,
    /// It is pending at first, and succeeds some time later.
    PendingThenSucceeds,
    /// It succeeds at once, and some time later the bank sends the money back.
    SucceedsThenFails,
}

/// What happens when a card is charged.
#[derive(Debug, Clone, Copy)]
pub(super) enum Verdict {
    /// The charge succeeds.
    Approve,
    /// The charge is refused.
    Decline(Decline),
    /// The customer must authenticate, on session and off.
    Authenticate,
    /// The customer must authenticate on session only; off-session use was set up before.
    AuthenticateOnSession,
}

/// The reasons of a refusal, as they stand in the error and in the charge.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decline {
    /// The error's `code`.
    pub(super) code: &'static str,
    /// The issuer's reason.
    pub(super) decline_code: Option<&'static str>,
    /// What the network advises: `do_not_try_again`, `try_again_later`, `confirm_card_data`, or nothing.
    pub(super) advice_code: Option<&'static str>,
    /// The sentence for people.
    pub(super) message: &'static str,
    /// The parameter to blame.
    pub(super) param: Option<&'static str>,
    /// Radar's reason, when the payment was blocked before it reached the network.
    pub(super) blocked: Option<&'static str>,
}

/// The plain refusal without a reason.
pub(super) const GENERIC: Decline = declined(
    "generic_decline",
    Some("try_again_later"),
    "Your card was declined.",
);

/// The refusal of an off-session payment that needs the customer.
pub(super) const AUTHENTICATION_REQUIRED: Decline = Decline {
    code: "authentication_required",
    decline_code: Some("authentication_required"),
    message: "Your card was declined. This transaction requires authentication.",
    advice_code: None,
    ..GENERIC
};

/// The refusal that `error_on_requires_action` asks for.
pub(super) const AUTHENTICATION_NOT_HANDLED: Decline = Decline {
    decline_code: Some("authentication_not_handled"),
    ..AUTHENTICATION_REQUIRED
};

const fn declined(
    decline_code: &'static str,
    advice_code: Option<&'static str>,
    message: &'static str,
) -> Decline {
    let decline_code = Some(decline_code);
    Decline {
        code: "card_declined",
        decline_code,
        advice_code,
        message,
        param: None,
        blocked: None,
    }
}

const fn data_error(code: &'static str, param: &'static str, message: &'static str) -> Decline {
    let advice_code = Some("confirm_card_data");
    Decline {
        code,
        decline_code: None,
        advice_code,
        message,
        param: Some(param),
        blocked: None,
    }
}

const fn blocked(reason: &'static str) -> Decline {
    Decline {
        blocked: Some(reason),
        ..declined("fraudulent", None, "Your card was declined.")
    }
}

const fn card(
    names: &'static [&'static str],
    brand: &'static str,
    last4: &'static str,
) -> Scenario {
    Scenario {
        names,
        brand,
        last4,
        verdict: Verdict::Approve,
        attachable: true,
        refunds: RefundCourse::Succeeds,
    }
}

const fn refusing(
    names: &'static [&'static str],
    last4: &'static str,
    decline: Decline,
) -> Scenario {
    let attachable = false;
    Scenario {
        verdict: Verdict::Decline(decline),
        attachable,
        ..card(names, "visa", last4)
    }
}

const fn asking(names: &'static [&'static str], last4: &'static str, verdict: Verdict) -> Scenario {
    Scenario {
        verdict,
        ..card(names, "visa", last4)
    }
}

static SCENARIOS: &[Scenario] = &[
    card(
        &["pm_card_visa", "tok_visa", "pm_card_us", "tok_us"],
        "visa",
        "4242",
    ),
    card(&["pm_card_visa_debit", "tok_visa_debit"], "visa", "5556"),
    card(
        &["pm_card_mastercard", "tok_mastercard"],
        "mastercard",
        "4444",
    ),
    card(
        &["pm_card_mastercard_debit", "tok_mastercard_debit"],
        "mastercard",
        "8210",
    ),
    card(
        &["pm_card_mastercard_prepaid", "tok_mastercard_prepaid"],
        "mastercard",
        "5100",
    ),
    card(&["pm_card_amex", "tok_amex"], "amex", "0005"),
    card(&["pm_card_discover", "tok_discover"], "discover", "1117"),
    card(&["pm_card_diners", "tok_diners"], "diners", "0004"),
    card(&["pm_card_jcb", "tok_jcb"], "jcb", "0505"),
    card(&["pm_card_unionpay", "tok_unionpay"], "unionpay", "0005"),
    refusing(
        &[
            "pm_card_visa_chargeDeclined",
            "tok_visa_chargeDeclined",
            "pm_card_chargeDeclined",
            "tok_chargeDeclined",
        ],
        "0002",
        GENERIC,
    ),
    refusing(
        &[
            "pm_card_visa_chargeDeclinedInsufficientFunds",
            "tok_visa_chargeDeclinedInsufficientFunds",
        ],
        "9995",
        declined(
            "insufficient_funds",
            Some("try_again_later"),
            "Your card has insufficient funds.",
        ),
    ),
    refusing(
        &[
            "pm_card_visa_chargeDeclinedLostCard",
            "tok_visa_chargeDeclinedLostCard",
        ],
        "9987",
        declined(
            "lost_card",
            Some("do_not_try_again"),
            "Your card was declined.",
        ),
    ),
    refusing(
        &[
            "pm_card_visa_chargeDeclinedStolenCard",
            "tok_visa_chargeDeclinedStolenCard",
        ],
        "9979",
        declined(
            "stolen_card",
            Some("do_not_try_again"),
            "Your card was declined.",
        ),
    ),
    refusing(
        &[
            "pm_card_chargeDeclinedExpiredCard",
            "tok_chargeDeclinedExpiredCard",
        ],
        "0069",
        data_error("expired_card", "exp_month", "Your card has expired."),
    ),
    refusing(
        &[
            "pm_card_chargeDeclinedIncorrectCvc",
            "tok_chargeDeclinedIncorrectCvc",
        ],
        "0127",
        data_error(
            "incorrect_cvc",
            "cvc",
            "Your card's security code is incorrect.",
        ),
    ),
    refusing(
        &[
            "pm_card_chargeDeclinedProcessingError",
            "tok_chargeDeclinedProcessingError",
        ],
        "0119",
        Decline {
            code: "processing_error",
            decline_code: None,
            message: "An error occurred while processing your card. Try again in a little bit.",
            ..GENERIC
        },
    ),
    refusing(
        &[
            "pm_card_chargeDeclinedFraudulent",
            "tok_visa_chargeDeclinedFraudulent",
        ],
        "0019",
        declined("fraudulent", None, "Your card was declined."),
    ),
    refusing(
        &[
            "pm_card_visa_chargeDeclinedVelocityLimitExceeded",
            "tok_visa_chargeDeclinedVelocityLimitExceeded",
        ],
        "6975",
        declined(
            "card_velocity_exceeded",
            Some("try_again_later"),
            "Your card was declined for making repeated attempts too frequently or exceeding its amount limit.",
        ),
    ),
    // The one card that can be saved and is declined only when it is charged.
    Scenario {
        attachable: true,
        ..refusing(
            &["pm_card_chargeCustomerFail", "tok_chargeCustomerFail"],
            "0341",
            GENERIC,
        )
    },
    // Radar judges payments, not cards, so these can be saved.
    asking(
        &["pm_card_radarBlock", "tok_radarBlock"],
        "0019",
        Verdict::Decline(blocked("rule")),
    ),
    asking(
        &["pm_card_riskLevelHighest", "tok_riskLevelHighest"],
        "4954",
        Verdict::Decline(blocked("highest_risk_level")),
    ),
    asking(
        &["pm_card_authenticationRequired"],
        "3184",
        Verdict::Authenticate,
    ),
    asking(
        &["pm_card_authenticationRequiredOnSetup"],
        "3155",
        Verdict::Authenticate,
    ),
    asking(
        &["pm_card_authenticationRequiredSetupForOffSession"],
        "0446",
        Verdict::AuthenticateOnSession,
    ),
    card(
        &["pm_card_createDispute", "tok_createDispute"],
        "visa",
        "0259",
    ),
    card(
        &[
            "pm_card_createDisputeProductNotReceived",
            "tok_createDisputeProductNotReceived",
        ],
        "visa",
        "2685",
    ),
    Scenario {
        refunds: RefundCourse::PendingThenSucceeds,
        ..card(
            &["pm_card_pendingRefund", "tok_pendingRefund"],
            "visa",
            "7726",
        )
    },
    Scenario {
        refunds: RefundCourse::SucceedsThenFails,
        ..card(&["pm_card_refundFail", "tok_refundFail"], "visa", "5126")
    },
];

/// The test card of that name, if Stripe has one.
pub(super) fn by_name(name: &str) -> Option<&'static Scenario> {
    SCENARIOS
        .iter()
        .find(|scenario| scenario.names.contains(&name))
}
