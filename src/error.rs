//! Problem documents (RFC 9457): the one table of error codes, and the only place that gives them an HTTP status.
//!
//! Every problem carries the two answers of the charge contract (`customerCharged`, `retry`), and a `detail` of one or
//! two plain sentences that a language model can act on. Causes stay in the log: nothing internal reaches a caller.

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::charges::dto::ChargeBody;
use crate::charges::lifecycle::{Outlook, seconds_up};
use crate::charges::model::{CustomerCharged, Retry};
use crate::idempotency::key::HeaderKeyError;
use crate::idempotency::service::KeyedError;
use crate::openapi::schemas::{ErrorCode, ProblemType, Seconds};
use crate::storage::StorageError;

/// The media type of a problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// How long a caller waits before it asks again when the store is away, in seconds.
const STORAGE_WAIT_SECONDS: i64 = 5;

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
    /// The store cannot be reached.
    StorageUnavailable = "storage_unavailable", 503, "The service's database is not available";
    /// The service cannot work with its store as it is.
    NotReady = "not_ready", 503, "The service is not ready";
    /// A defect.
    InternalError = "internal_error", 500, "Something is wrong in this service";
}

/// A problem document.
#[derive(Debug, Clone)]
pub struct Problem(Box<Document>);

/// What went wrong, and what to do about it (RFC 9457).
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub(crate) struct Document {
    /// `urn:chargeonce:problem:{code}`.
    #[serde(rename = "type")]
    #[schema(value_type = ProblemType)]
    kind: String,
    /// What the code means, for people.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    #[serde(serialize_with = "code_word")]
    #[schema(value_type = ErrorCode)]
    code: Code,
    /// One or two sentences: what happened, and what to do.
    detail: String,
    customer_charged: CustomerCharged,
    retry: Retry,
    /// There with `retry: later`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Seconds, required = false)]
    retry_after_seconds: Option<i64>,
    /// The field, parameter or header at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    field: Option<String>,
    /// The attempt that the problem is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ChargeBody, required = false)]
    charge: Option<ChargeBody>,
    #[serde(skip)]
    allow: Option<String>,
    #[serde(skip)]
    authenticate: bool,
}

fn code_word<S: serde::Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.as_str())
}

impl Problem {
    /// A problem of a request that charged nobody and has to be changed.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Document {
            kind: format!("urn:chargeonce:problem:{}", code.as_str()),
            title: code.title(),
            status: code.status(),
            code,
            detail: detail.into(),
            customer_charged: CustomerCharged::No,
            retry: Retry::AfterChange,
            retry_after_seconds: None,
            field: None,
            charge: None,
            allow: None,
            authenticate: false,
        }))
    }

    /// Names the field, parameter or header that is at fault.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    /// Sets the two answers.
    pub fn outlook(mut self, outlook: Outlook) -> Self {
        self.0.customer_charged = outlook.customer_charged;
        self.0.retry = outlook.retry;
        self.0.retry_after_seconds = outlook.retry_after_seconds;
        self
    }

    /// Sets the two answers to "later" and what is known about the money.
    pub fn later(self, customer_charged: CustomerCharged, seconds: i64) -> Self {
        self.outlook(Outlook {
            customer_charged,
            retry: Retry::Later,
            retry_after_seconds: Some(seconds),
        })
    }

    /// Sets the two answers to "now" and what is known about the money.
    pub fn now(self, customer_charged: CustomerCharged) -> Self {
        self.outlook(Outlook {
            customer_charged,
            retry: Retry::Now,
            retry_after_seconds: None,
        })
    }

    /// Sets whether the customer was charged and that nothing is to be repeated.
    pub fn never(self, customer_charged: CustomerCharged) -> Self {
        self.outlook(Outlook {
            customer_charged,
            retry: Retry::Never,
            retry_after_seconds: None,
        })
    }

    /// Adds the charge that the problem is about.
    pub fn charge(mut self, charge: ChargeBody) -> Self {
        self.0.charge = Some(charge);
        self
    }

    /// Adds the methods that the path does answer to.
    pub fn allow(mut self, methods: impl Into<String>) -> Self {
        self.0.allow = Some(methods.into());
        self
    }

    /// Says how a caller shows who it is.
    pub fn authenticate(mut self) -> Self {
        self.0.authenticate = true;
        self
    }

    /// A defect of ours, about which a caller can do nothing.
    pub fn internal() -> Self {
        Self::new(
            Code::InternalError,
            "Something is wrong in this service. The operator has to look at it; send the same request again later.",
        )
        .later(CustomerCharged::Unknown, DEFECT_WAIT_SECONDS)
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What it says.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The document's text.
    pub fn to_body(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_else(|error| {
            tracing::error!(%error, "a problem document could not be written");
            String::from(r#"{"code":"internal_error","status":500,"customerCharged":"unknown","retry":"later"}"#)
        })
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.0.code.as_str(), self.0.detail)
    }
}

impl std::error::Error for Problem {}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        response.content_type(PROBLEM_JSON);
        if let Some(seconds) = self.0.retry_after_seconds {
            response.insert_header((RETRY_AFTER, seconds.to_string()));
        }
        if let Some(allow) = self
            .0
            .allow
            .as_deref()
            .and_then(|allow| HeaderValue::from_str(allow).ok())
        {
            response.insert_header((ALLOW, allow));
        }
        if self.0.authenticate {
            response.insert_header((WWW_AUTHENTICATE, "Bearer"));
        }
        response.body(self.to_body())
    }
}

impl From<StorageError> for Problem {
    /// The cause goes to the log, here and only here. Whether an earlier call charged somebody cannot be told without
    /// the store.
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Unavailable(_) => {
                tracing::warn!(error = %error, "storage unavailable");
                Self::new(
                    Code::StorageUnavailable,
                    "The service's database is not available, so nothing was sent to the payment provider by this call. Send the same request again later.",
                )
                .later(CustomerCharged::Unknown, STORAGE_WAIT_SECONDS)
            }
            StorageError::Inconsistent(_) | StorageError::Guard => {
                tracing::error!(error = %error, "storage inconsistent");
                Self::internal()
            }
        }
    }
}

/// How long a caller waits before it asks again after a defect, in seconds.
const DEFECT_WAIT_SECONDS: i64 = 60;

impl From<HeaderKeyError> for Problem {
    fn from(error: HeaderKeyError) -> Self {
        Self::new(Code::InvalidIdempotencyKey, error.to_string()).field("Idempotency-Key")
    }
}

impl From<KeyedError> for Problem {
    fn from(error: KeyedError) -> Self {
        match error {
            KeyedError::Reused => Self::new(
                Code::IdempotencyKeyReused,
                "This Idempotency-Key was sent with other content before. Send the first content again, or use a new key for a new action.",
            )
            .field("Idempotency-Key"),
            KeyedError::InUse { retry_after_ms } => Self::new(
                Code::IdempotencyKeyInUse,
                "The first request with this Idempotency-Key is still running. Do not change the request; send it again shortly.",
            )
            .field("Idempotency-Key")
            .later(CustomerCharged::No, seconds_up(retry_after_ms)),
            KeyedError::Storage(error) => error.into(),
        }
    }
}
