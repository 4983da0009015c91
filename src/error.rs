//! Problem documents (RFC 9457): the one table of error codes, and the only place that gives them an HTTP status.
//!
//! Every problem carries the two answers of the charge contract (`customerCharged`, `retry`), and a `detail` of one or
//! two plain sentences that a language model can act on. Causes stay in the log: nothing internal reaches a caller.
//! Those about a refund carry `refunded` besides.

mod codes;

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
use crate::refunds::dto::RefundBody;
use crate::refunds::lifecycle::RefundOutlook;
use crate::refunds::model::Refunded;
use crate::storage::StorageError;

pub use codes::Code;

/// The media type of a problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// How long a caller waits before it asks again when the store is away, in seconds.
const STORAGE_WAIT_SECONDS: i64 = 5;

/// How long a caller waits before it asks again when there is too much to do, in seconds. What is going on ends within it, or
/// the next refusal costs as little as this one.
const OVERLOAD_WAIT_SECONDS: i64 = 2;

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
    /// Of a refund: was the money given back that the call is about?
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Refunded, required = false)]
    refunded: Option<Refunded>,
    /// The refund that the problem is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = RefundBody, required = false)]
    refund: Option<RefundBody>,
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
            refunded: None,
            refund: None,
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

    /// Sets the two answers about a refund. `customerCharged` stays what it is.
    pub fn refund_outlook(mut self, outlook: RefundOutlook) -> Self {
        self.0.refunded = Some(outlook.refunded);
        self.0.retry = outlook.retry;
        self.0.retry_after_seconds = outlook.retry_after_seconds;
        self
    }

    /// Says whether the customer was charged, which is known of the charge.
    pub fn customer_charged(mut self, customer_charged: CustomerCharged) -> Self {
        self.0.customer_charged = customer_charged;
        self
    }

    /// Of an answer about refunds that does not say what is known of the money: nothing was given back where nothing was
    /// done, and else it is not known.
    pub fn of_refunds(mut self) -> Self {
        let told = match self.0.customer_charged {
            CustomerCharged::No => Refunded::No,
            CustomerCharged::Yes | CustomerCharged::Unknown => Refunded::Unknown,
        };
        self.0.refunded.get_or_insert(told);
        self
    }

    /// Adds the refund that the problem is about.
    pub fn refund(mut self, refund: RefundBody) -> Self {
        self.0.refund = Some(refund);
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

    /// More than this process takes on at a time. The call did nothing, so what became of earlier ones cannot be told.
    pub fn overloaded() -> Self {
        Self::new(
            Code::Overloaded,
            format!(
                "This service has as much to do as it takes on at a time, so this call did nothing. Send the same request again in {OVERLOAD_WAIT_SECONDS} seconds."
            ),
        )
        .later(CustomerCharged::Unknown, OVERLOAD_WAIT_SECONDS)
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
