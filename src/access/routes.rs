//! What each path needs. Pure, and the one place that says so: a path that is mounted and not in the table is for admins.

/// What a request must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Open,
    /// A key of any scope.
    Agent,
    /// A key of an admin.
    Admin,
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The method; `*` is any, which leaves the answer to a wrong one to the path.
    pub method: &'static str,
    /// The path's pattern, as it is mounted. With `/*` at its end: the path before it, and all below.
    pub pattern: &'static str,
    /// What it needs.
    pub access: Access,
}

const fn route(method: &'static str, pattern: &'static str, access: Access) -> Route {
    Route {
        method,
        pattern,
        access,
    }
}

/// The table. A test compares it with what is mounted.
#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    route("*", "/health/live", Access::Open),
    route("*", "/health/ready", Access::Open),
    // Its events are signed.
    route("*", "/v1/webhooks/stripe", Access::Open),
    route("*", "/openapi.json", Access::Open),
    route("*", "/docs/*", Access::Open),

    route("GET", "/v1/invoices", Access::Agent),
    route("GET", "/v1/invoices/{id}", Access::Agent),
    route("GET", "/v1/invoices/{id}/charge-status", Access::Agent),
    route("GET", "/v1/charges", Access::Agent),
    route("GET", "/v1/charges/{id}", Access::Agent),
    route("POST", "/v1/charges", Access::Agent),
    route("GET", "/v1/tools", Access::Agent),
    // Clients of MCP try methods that a server may not have, and want to hear so.
    route("*", "/mcp", Access::Agent),

    route("POST", "/v1/invoices", Access::Admin),
    route("PATCH", "/v1/invoices/{id}", Access::Admin),
    route("POST", "/v1/invoices/{id}/void", Access::Admin),
    route("GET", "/v1/charges/{id}/evidence", Access::Admin),
    route("POST", "/v1/charges/{id}/resolve", Access::Admin),
    // Agents take money at most; they give none back.
    route("GET", "/v1/refunds", Access::Admin),
    route("POST", "/v1/refunds", Access::Admin),
    route("GET", "/v1/refunds/{id}", Access::Admin),
    route("GET", "/v1/refunds/{id}/evidence", Access::Admin),
    route("POST", "/v1/refunds/{id}/resolve", Access::Admin),
    route("GET", "/metrics", Access::Admin),
];

/// What a request needs by its method and the pattern of its path; `None` is a path that is not there, which whoever has a
/// key may hear.
pub fn needed(method: &str, pattern: Option<&str>) -> Access {
    pattern.map_or(Access::Agent, |pattern| {
        line_of(method, pattern).map_or(Access::Admin, |line| line.access)
    })
}

/// The table's line for a method and a pattern.
pub fn line_of(method: &str, pattern: &str) -> Option<&'static Route> {
    ROUTES
        .iter()
        .find(|line| (line.method == "*" || line.method == method) && covers(line.pattern, pattern))
}

fn covers(line: &str, pattern: &str) -> bool {
    match line.strip_suffix("/*") {
        Some(root) => pattern
            .strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        None => line == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_not_in_the_table_is_for_admins() {
        #[rustfmt::skip]
        let table = [
            ("GET", Some("/health/live"), Access::Open),
            ("HEAD", Some("/health/live"), Access::Open),
            ("POST", Some("/v1/charges"), Access::Agent),
            ("GET", Some("/v1/charges/{id}"), Access::Agent),
            ("DELETE", Some("/v1/charges/{id}"), Access::Admin),
            ("post", Some("/v1/charges"), Access::Admin),
            ("POST", Some("/v1/invoices"), Access::Admin),
            ("GET", Some("/v1/charges/{id}/evidence"), Access::Admin),
            ("GET", Some("/v1/charges/{id}/anything"), Access::Admin),
            ("GET", Some("/docs"), Access::Open),
            ("GET", Some("/docs/{tail:.*}"), Access::Open),
            ("GET", Some("/docsecrets"), Access::Admin),
            ("DELETE", Some("/mcp"), Access::Agent),
            ("GET", Some("/v1/refunds/{id}"), Access::Admin),
            ("GET", Some("/metrics"), Access::Admin),
            ("GET", Some(""), Access::Admin),
            ("GET", None, Access::Agent),
        ];
        for (method, pattern, right) in table {
            assert_eq!(needed(method, pattern), right, "{method} {pattern:?}");
        }
    }
}
