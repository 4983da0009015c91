//! Stripe's error bodies (Stripe docs, Errors): one builder, one constructor for each kind that the mock can give.

use serde_json::{Map, Value, json};

use super::scenario::Decline;

/// An answer that is not a 2xx.
#[derive(Debug, Clone)]
pub(super) struct ApiError {
    /// The HTTP status.
    pub(super) status: u16,
    /// Whether the endpoint had begun to execute. Only then is the answer stored under the idempotency key
    /// (Stripe docs, Idempotent requests).
    pub(super) begun: bool,
    /// Headers that belong to this error.
    pub(super) headers: Vec<(&'static str, &'static str)>,
    fields: Map<String, Value>,
}

impl ApiError {
    fn new(status: u16, kind: &str, message: impl Into<String>) -> Self {
        let mut fields = Map::new();
        fields.insert("type".into(), kind.into());
        fields.insert("message".into(), message.into().into());
        Self {
            status,
            begun: false,
            headers: Vec::new(),
            fields,
        }
    }

    /// A 400 that is found before the endpoint executes, and so is never stored.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// A 400 that depends on the state of an object; the endpoint had begun, so it is stored.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self {
            begun: true,
            ..Self::invalid(message)
        }
    }

    /// Sets `code`, and `doc_url` with it.
    pub(super) fn code(self, code: &str) -> Self {
        let page = format!(
            "https://stripe.com/docs/error-codes/{}",
            code.replace('_', "-")
        );
        self.with("code", code.into()).with("doc_url", page.into())
    }

    /// Sets `param`, the parameter that is to blame.
    pub(super) fn param(self, param: &str) -> Self {
        self.with("param", param.into())
    }

    /// Sets any other field.
    pub(super) fn with(mut self, name: &str, value: Value) -> Self {
        self.fields.insert(name.into(), value);
        self
    }

    /// A required parameter that was not sent.
    pub(super) fn missing(param: &str) -> Self {
        Self::invalid(format!("Missing required param: {param}."))
            .code("parameter_missing")
            .param(param)
    }

    /// A parameter that the endpoint does not know.
    pub(super) fn unknown_parameter(param: &str) -> Self {
        Self::invalid(format!("Received unknown parameter: {param}"))
            .code("parameter_unknown")
            .param(param)
    }

    /// An object that is named by a parameter and does not exist: 400.
    pub(super) fn no_such(noun: &str, id: &str, param: &str) -> Self {
        Self::refused(format!("No such {noun}: '{id}'"))
            .code("resource_missing")
            .param(param)
    }

    /// An object that is named by the path and does not exist: 404.
    pub(super) fn not_found(noun: &str, id: &str, param: &str) -> Self {
        Self {
            status: 404,
            ..Self::no_such(noun, id, param)
        }
    }

    /// A path or method that Stripe does not have.
    pub(super) fn unrecognized_url(method: &str, path: &str) -> Self {
        let message = format!(
            "Unrecognized request URL ({method}: {path}). Please see https://stripe.com/docs or we can help at \
             https://support.stripe.com/."
        );
        Self::new(404, "invalid_request_error", message)
    }

    /// No usable API key.
    pub(super) fn unauthorized(message: &str) -> Self {
        Self::new(401, "invalid_request_error", message)
    }

    /// The key is known with other parameters or another endpoint; 400 with neither code nor param.
    pub(super) fn key_mismatch(key: &str) -> Self {
        let message = format!(
            "Keys for idempotent requests can only be used with the same parameters they were first used with. Try \
             using a key other than '{key}' if you meant to execute a different request."
        );
        Self::new(400, "idempotency_error", message)
    }

    /// A request with this key is running at this moment.
    pub(super) fn key_in_use(key: &str) -> Self {
        let message = format!(
            "There is currently another in-progress request using this Idempotent Key (that probably means you \
             submitted twice, and the other request is still going through): {key}. Please try again later."
        );
        Self::new(409, "invalid_request_error", message).code("idempotency_key_in_use")
    }

    /// Stripe's own failure: the outcome is indeterminate, and the answer is stored and never changes.
    pub(super) fn internal() -> Self {
        let message = "Sorry! There was an error while talking to one of our backends. Support has been notified.";
        // A retry with this key would only replay the stored 500, and Stripe says so.
        let headers = vec![("Stripe-Should-Retry", "false")];
        Self {
            begun: true,
            headers,
            ..Self::new(500, "api_error", message)
        }
    }

    /// Stripe is not reachable behind its own front.
    pub(super) fn unavailable() -> Self {
        Self::new(
            503,
            "api_error",
            "The service is temporarily unavailable. Please try again later.",
        )
    }

    /// The rate limiter, which stands in front of everything.
    pub(super) fn rate_limited() -> Self {
        let headers = vec![("Stripe-Rate-Limited-Reason", "global-rate")];
        let message = "Request rate limit exceeded. Learn more about it at https://stripe.com/docs/rate-limits.";
        Self {
            headers,
            ..Self::new(429, "invalid_request_error", message).code("rate_limit")
        }
    }

    /// Another request holds the lock of the object for too long.
    pub(super) fn lock_timeout() -> Self {
        let message = "This object cannot be accessed right now because another API request or Stripe process is \
                       currently accessing it. If you see this error intermittently, retry the request.";
        Self::new(429, "invalid_request_error", message).code("lock_timeout")
    }

    /// A payment that was refused: 402, stored.
    pub(super) fn declined(decline: &Decline) -> Self {
        let mut error = Self {
            begun: true,
            ..Self::new(402, "card_error", decline.message)
        }
        .code(decline.code);
        for (name, value) in [
            ("decline_code", decline.decline_code),
            ("advice_code", decline.advice_code),
            ("param", decline.param),
        ] {
            if let Some(value) = value {
                error = error.with(name, value.into());
            }
        }
        error
    }

    /// A card number instead of a token: 402, as seen from Stripe's test mode.
    pub(super) fn raw_card_number() -> Self {
        let message = "Sending credit card numbers directly to the Stripe API is generally unsafe. To continue \
                       processing use Stripe.js, the Stripe mobile bindings, or Stripe Elements. In tests use a token \
                       such as tok_visa.";
        Self::new(402, "invalid_request_error", message)
    }

    /// A legacy charge of a customer who has nothing to pay with: 402, stored.
    pub(super) fn no_active_card() -> Self {
        let message = "Cannot charge a customer that has no active card";
        Self {
            begun: true,
            ..Self::new(402, "card_error", message)
        }
        .code("missing")
        .param("card")
    }

    /// The error object itself, the shape of `last_payment_error`.
    pub(super) fn object(&self) -> Value {
        Value::Object(self.fields.clone())
    }

    /// The whole body, with the link to the request's log as Stripe adds it.
    pub(super) fn body(&self, request_id: &str) -> Value {
        let mut fields = self.fields.clone();
        let log = format!("https://dashboard.stripe.com/test/logs/{request_id}");
        fields.insert("request_log_url".into(), log.into());
        json!({ "error": fields })
    }
}
