//! An answer of the service, taken apart.

use serde_json::Value;

/// Status, headers and body.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub async fn read(response: reqwest::Response) -> Self {
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| {
                (
                    name.as_str().to_owned(),
                    String::from_utf8_lossy(value.as_bytes()).into_owned(),
                )
            })
            .collect();
        Self {
            status,
            headers,
            body: response.text().await.unwrap(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }

    /// A member of the body as text; empty when it is absent or null.
    pub fn text(&self, member: &str) -> String {
        let json = self.json();
        let value = &json[member];
        if value.is_null() {
            return String::new();
        }
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    }

    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// Fails with the whole answer when the status, the code and the two answers are not these. A success has no code: "".
    #[track_caller]
    pub fn assert(&self, status: u16, code: &str, customer_charged: &str, retry: &str) -> &Self {
        let found = (
            self.status,
            self.text("code"),
            self.text("customerCharged"),
            self.text("retry"),
        );
        let right = (
            status,
            code.to_owned(),
            customer_charged.to_owned(),
            retry.to_owned(),
        );
        assert_eq!(found, right, "{self:#?}");
        self
    }

    /// What every answer about a charge owes its caller: whether money was taken, whether to call again and when, and
    /// with a problem a sentence that says so.
    #[track_caller]
    pub fn check_contract(&self) {
        let body = self.json();
        let charged = self.text("customerCharged");
        assert!(
            ["yes", "no", "unknown"].contains(&charged.as_str()),
            "{self:#?}"
        );
        let retry = self.text("retry");
        let words = ["not_needed", "now", "later", "after_change", "never"];
        assert!(words.contains(&retry.as_str()), "{self:#?}");
        assert_eq!(retry == "not_needed", self.status == 201, "{self:#?}");
        assert_eq!(charged == "yes", self.status == 201, "{self:#?}");
        assert_eq!(
            retry == "later",
            body["retryAfterSeconds"].is_i64(),
            "{self:#?}"
        );
        if retry == "later" && [202, 409, 503].contains(&self.status) {
            let header = self
                .header("retry-after")
                .unwrap_or_else(|| panic!("no Retry-After: {self:#?}"));
            assert!(
                header.parse::<u64>().is_ok_and(|seconds| seconds >= 1),
                "{self:#?}"
            );
        }
        if self.status >= 400 {
            assert_eq!(
                self.header("content-type"),
                Some("application/problem+json"),
                "{self:#?}"
            );
            assert!(self.text("detail").ends_with('.'), "{self:#?}");
            assert!(
                !self.text("code").is_empty() && !self.text("title").is_empty(),
                "{self:#?}"
            );
        }
    }
}
