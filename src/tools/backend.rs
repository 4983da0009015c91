//! The port under the tools: whoever answers a call, in this process or over HTTP.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::arguments::ToolCall;
use crate::access::caller::Caller;
use crate::bound::Place;
use crate::error::{Code, Problem};

/// Answers the calls of tools, as the REST API answers the same calls.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Answers one. Dropping the future stops the waiting and never a charge.
    async fn answer(&self, call: ToolCall, context: CallContext) -> ToolReply;
}

/// Who calls, and within what. Made where the HTTP request is, and carried to the backend.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The request's span: what is logged about the call names the request.
    pub span: tracing::Span,
    /// Who the request's key says is calling; `None` where there was no request over HTTP.
    pub caller: Option<Caller>,
    /// The request's place among all that are worked on: the protocol answers in a task of its own, which would go on without.
    pub place: Option<Arc<Place>>,
}

impl Default for CallContext {
    fn default() -> Self {
        Self {
            span: tracing::Span::current(),
            caller: None,
            place: None,
        }
    }
}

/// An answer of the REST API, taken apart.
#[derive(Debug, Clone)]
pub struct ToolReply {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// True when the answer was given before and this call did nothing.
    pub replayed: bool,
}

impl ToolReply {
    /// An answer without any problem.
    pub fn new(status: u16, body: Value) -> Self {
        Self {
            status,
            body,
            replayed: false,
        }
    }

    /// From a body's text.
    pub fn parse(status: u16, body: &str) -> Self {
        match serde_json::from_str(body) {
            Ok(body) => Self::new(status, body),
            Err(error) => {
                tracing::error!(%error, "an answer cannot be read");
                Problem::internal().into()
            }
        }
    }

    /// Says that it was given before. A stored failure tells the wait as of its first time; `retry_after_seconds` is what is
    /// left of it.
    pub fn replayed(mut self, replayed: bool, retry_after_seconds: Option<i64>) -> Self {
        self.replayed = replayed;
        if let Some(seconds) = retry_after_seconds
            && self.body.get("retryAfterSeconds").is_some()
        {
            self.body["retryAfterSeconds"] = seconds.into();
        }
        self
    }

    /// True when the call did not get what it wanted and never will by waiting. A charge that runs is no error.
    pub fn is_error(&self) -> bool {
        self.status >= 400
            && self.body.get("code").and_then(Value::as_str)
                != Some(Code::ChargeInProgress.as_str())
    }
}

impl From<Problem> for ToolReply {
    fn from(problem: Problem) -> Self {
        let body = serde_json::from_str(&problem.to_body()).unwrap_or_default();
        Self::new(problem.code().status(), body)
    }
}
