//! Tools for AI agents: one catalogue, given to models in the form of each vendor, and served over the Model Context
//! Protocol (MCP), at `/mcp` and by `chargeonce mcp`.
//!
//! A tool has no parameter that a model would have to invent: no amount, no currency, no key, and a customer only as the
//! filter of a list. Every tool is one call of the REST API and answers what that call answers; nothing is decided here.
pub mod arguments;
pub mod backend;
pub mod catalogue;
pub mod controller;
pub mod dto;
pub mod local;
pub mod remote;
pub mod render;
pub mod schema;
pub mod server;
pub mod wording;
