//! Who may call what, how much an agent may spend, and how often it may call.
//!
//! Callers show an API key as a bearer token. A key has a name, which is what logs, books and limits know it by, and one of
//! two scopes: *agent* (read, and charge) or *admin* (everything). [`guard`] is the one place that lets a request in: it
//! looks the key up, asks the table in [`routes`] what the path needs, and counts an agent's requests, all before the body is
//! read. Without any keys, which a loopback address allows, everybody is an admin without a name.
//!
//! [`keys`], [`routes`] and [`limits`] are pure. What a limit on spending does to a charge is told in `charges::spending`.
pub mod caller;
pub mod guard;
pub mod hosts;
pub mod keys;
pub mod limits;
pub mod rate;
pub mod routes;
