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
        match &self.json()[member] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }
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
}
