//! By what names callers reach this service. Pure.
//!
//! A page in a browser can send requests to any address that the browser reaches, a service on the same machine included: by a form
//! or a script from a site of its own (it shows in `Origin`), or by having its own name resolve to the address of the service (it
//! shows in `Host`; "DNS rebinding"). Where no API key is asked for, these two headers are all that tells such a page from a
//! program of the operator's.

use std::net::IpAddr;

use http::Uri;
use http::uri::Authority;

/// The names of this machine, by which a program on it reaches the service.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names of a service, without ports.
#[derive(Debug, Clone)]
pub struct OwnNames(Vec<String>);

impl OwnNames {
    /// The loopback names, the address that it listens on, and `others`.
    pub fn new(listens_on: IpAddr, others: &[String]) -> Self {
        let mut names: Vec<String> = LOOPBACK_NAMES.map(str::to_owned).to_vec();
        names.push(match listens_on {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
        names.extend_from_slice(others);
        Self(names)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// True when a `Host` header's value (RFC 9110, "Host and :authority") names this service, on whatever port.
    pub fn is_host(&self, value: &str) -> bool {
        value
            .parse::<Authority>()
            .is_ok_and(|authority| self.names(&authority))
    }

    /// True when an `Origin` header's value (RFC 6454, part 7) is a page of this service or of a program beside it. `null`, which
    /// stands for a page that hides where it is from, is none.
    pub fn is_origin(&self, value: &str) -> bool {
        let Ok(uri) = value.parse::<Uri>() else {
            return false;
        };
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri
                .authority()
                .is_some_and(|authority| self.names(authority))
    }

    fn names(&self, authority: &Authority) -> bool {
        let host = authority.host();
        !authority.as_str().contains('@') && self.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> OwnNames {
        OwnNames::new(
            IpAddr::from([127, 0, 0, 2]),
            &["billing.example.com".to_owned()],
        )
    }

    #[test]
    fn a_host_is_one_of_the_names_on_any_port() {
        let table = [
            ("localhost", true),
            ("LocalHost:3000", true),
            ("127.0.0.1:3000", true),
            ("127.0.0.2", true),
            ("[::1]:3000", true),
            ("billing.example.com", true),
            ("127.0.0.3", false),
            ("evil.example.com", false),
            ("localhost.evil.example.com", false),
            ("evil.localhost", false),
            ("localhost@evil.example.com", false),
            ("evil@localhost", false),
            ("", false),
            ("local host", false),
        ];
        for (host, right) in table {
            assert_eq!(names().is_host(host), right, "{host}");
        }
    }

    #[test]
    fn an_origin_is_a_page_of_one_of_the_names() {
        let table = [
            ("http://localhost:3000", true),
            ("https://billing.example.com", true),
            ("http://[::1]:8080", true),
            ("http://evil.example.com", false),
            ("null", false),
            ("", false),
            ("localhost:3000", false),
            ("file://localhost", false),
            ("http://localhost.evil.example.com", false),
            ("http://user@localhost", false),
        ];
        for (origin, right) in table {
            assert_eq!(names().is_origin(origin), right, "{origin}");
        }
    }
}
