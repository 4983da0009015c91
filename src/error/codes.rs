//! The error codes with their HTTP statuses: one line each.

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $status:literal, $title:literal;)*) => {
        /// A stable error code. Programs branch on it; titles and details may be reworded.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Its HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// Its title.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }
        }
    };
}

codes! {
    /// The body is not JSON.
    MalformedJson = "malformed_json", 400, "The body is not valid JSON";
    /// A path or query parameter cannot be read.
    InvalidParameter = "invalid_parameter", 400, "A parameter is not valid";
    /// The `Idempotency-Key` header cannot be used.
    InvalidIdempotencyKey = "invalid_idempotency_key", 400, "The Idempotency-Key header is not valid";
    /// There is no `Idempotency-Key` header where one is needed.
    IdempotencyKeyRequired = "idempotency_key_required", 400, "The call needs an Idempotency-Key header";
    /// The request cannot be read as HTTP.
    BadRequest = "bad_request", 400, "The request cannot be read";
    /// The body arrives too slowly.
    RequestTimeout = "request_timeout", 408, "The body did not arrive in time";
    /// The body is too large.
    PayloadTooLarge = "payload_too_large", 413, "The body is too large";
    /// The body is not announced as JSON.
    UnsupportedMediaType = "unsupported_media_type", 415, "The body must be JSON";
    /// A field of the body is missing, unknown or has a value that is not allowed.
    InvalidRequest = "invalid_request", 422, "The request is not valid";
    /// The key was used for another request.
    IdempotencyKeyReused = "idempotency_key_reused", 422, "The idempotency key was used for another request";
    /// The first request with the key still runs.
    IdempotencyKeyInUse = "idempotency_key_in_use", 409, "A request with this idempotency key is still running";
    /// There is no valid API key.
    Unauthorized = "unauthorized", 401, "The call needs a valid API key";
    /// The API key is not good for this.
    Forbidden = "forbidden", 403, "The API key does not allow this";
    /// Without API keys: the call does not name this service.
    HostNotAllowed = "host_not_allowed", 403, "The call does not name this service";
    /// The charge is over a limit of the API key.
    LimitExceeded = "limit_exceeded", 403, "The charge is over a limit of the API key";
    /// The API key has made too many requests.
    RateLimited = "rate_limited", 429, "Too many requests with this API key";
    /// There is no such path.
    RouteNotFound = "route_not_found", 404, "There is nothing at this path";
    /// The path has no such method.
    MethodNotAllowed = "method_not_allowed", 405, "This path does not answer to this method";
    /// There is no such invoice.
    InvoiceNotFound = "invoice_not_found", 404, "There is no such invoice";
    /// The id belongs to an invoice with other content.
    InvoiceExists = "invoice_exists", 409, "An invoice with this id exists and has other content";
    /// The invoice is void.
    InvoiceNotChargeable = "invoice_not_chargeable", 409, "The invoice cannot be charged";
    /// The invoice is paid or void and does not change any more.
    InvoiceNotChangeable = "invoice_not_changeable", 409, "The invoice cannot be changed any more";
    /// There is no such charge.
    ChargeNotFound = "charge_not_found", 404, "There is no such charge";
    /// Somebody is charging the invoice right now.
    ChargeInProgress = "charge_in_progress", 409, "The invoice is being charged right now";
    /// A person must decide about the charge.
    ChargeNeedsReview = "charge_needs_review", 409, "A person must decide about this charge";
    /// The charge does not wait for a decision.
    ChargeNotInReview = "charge_not_in_review", 409, "The charge does not wait for a decision";
    /// The provider shows something else than the operator has found.
    ResolutionContradicted = "resolution_contradicted", 409, "The payment provider contradicts the decision";
    /// The charge took no money that could be given back.
    ChargeNotRefundable = "charge_not_refundable", 409, "The charge cannot be refunded";
    /// More is to be given back than is left of the charge.
    RefundExceedsCharge = "refund_exceeds_charge", 409, "More is to be refunded than is left of the charge";
    /// There is no such refund.
    RefundNotFound = "refund_not_found", 404, "There is no such refund";
    /// Somebody is making the refund right now.
    RefundInProgress = "refund_in_progress", 409, "The refund is being made right now";
    /// A person must decide about the refund.
    RefundNeedsReview = "refund_needs_review", 409, "A person must decide about this refund";
    /// The refund does not wait for a decision.
    RefundNotInReview = "refund_not_in_review", 409, "The refund does not wait for a decision";
    /// The refund gave nothing back, or the money came back.
    RefundFailed = "refund_failed", 402, "The refund has failed";
    /// A webhook's signature does not fit its bytes, its time or our secrets.
    WebhookSignatureInvalid = "webhook_signature_invalid", 400, "The webhook's signature is not valid";
    /// No secret is set with which a webhook could be checked.
    WebhooksNotConfigured = "webhooks_not_configured", 503, "Webhooks are not set up";
    /// The bank or the provider's risk rules refused the payment.
    ChargeDeclined = "charge_declined", 402, "The payment was declined";
    /// The provider refused the request.
    ChargeRefused = "charge_refused", 402, "The payment provider refused the request";
    /// The payment was cancelled before it took money.
    ChargeCanceled = "charge_canceled", 409, "The payment was cancelled before it took money";
    /// The provider has no trace of the attempt.
    ChargeNeverExecuted = "charge_never_executed", 409, "The payment provider has no trace of the attempt";
    /// A hard decline of the same payment method.
    RetryNotAdvised = "retry_not_advised", 402, "This payment method must not be tried again";
    /// All attempts are used up.
    AttemptsExhausted = "attempts_exhausted", 402, "All attempts for this invoice are used up";
    /// The customer has no payment method that could be charged.
    NoPaymentMethod = "no_payment_method", 409, "The customer cannot be charged";
    /// The provider cannot be reached; surely nothing was sent.
    ProviderUnavailable = "provider_unavailable", 503, "The payment provider is not available";
    /// `chargeonce mcp` cannot reach the service that it asks. The service itself never says so.
    ServiceUnreachable = "service_unreachable", 503, "The service cannot be reached";
    /// As much is going on as this process takes on at a time.
    Overloaded = "overloaded", 503, "The service has too much to do";
    /// The store cannot be reached.
    StorageUnavailable = "storage_unavailable", 503, "The service's database is not available";
    /// The service cannot work with its store as it is.
    NotReady = "not_ready", 503, "The service is not ready";
    /// A defect.
    InternalError = "internal_error", 500, "Something is wrong in this service";
}
