//! What every controller shares of HTTP: reading a JSON body or a query, headers, request ids, how many requests at once. No business rules.
pub mod crowd;
pub mod explain;
pub mod headers;
pub mod holding;
pub mod json;
pub mod query;
pub mod request_id;
pub mod respond;
pub mod text;
pub mod twins;
pub mod unread;
