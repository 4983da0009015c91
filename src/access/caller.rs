//! Who is calling, as the services are told.

use std::sync::Arc;

use super::keys::{NAMELESS, Scope};
use crate::charges::model::AskedBy;
use crate::error::{Code, Problem};

/// The longest name of a session, in characters.
pub const SESSION_LENGTH_MAX: usize = 128;

/// Names an agent's session or task, for the books; nothing is decided by it.
pub const SESSION_HEADER: &str = "X-Agent-Session";

/// Who is calling. A handler takes it as an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The API key's name; `None` where no keys are configured.
    pub key_name: Option<Arc<str>>,
    /// What the key is good for; without keys everybody is an admin.
    pub scope: Scope,
    /// The request's id, as the answer has it in `X-Request-Id`.
    pub request_id: String,
    /// What the caller calls its session (`X-Agent-Session`).
    pub session: Option<String>,
}

impl Caller {
    /// True for a caller that may see and do everything.
    pub fn is_admin(&self) -> bool {
        self.scope == Scope::Admin
    }

    /// Whose header keys are whose: the key's name, which a rotated secret keeps.
    pub fn principal(&self) -> &str {
        self.key_name.as_deref().unwrap_or(NAMELESS)
    }

    /// The name of the agent's key, whose spending may be limited. Admins have no limits.
    pub fn agent(&self) -> Option<&str> {
        match self.scope {
            Scope::Agent => self.key_name.as_deref(),
            Scope::Admin => None,
        }
    }

    /// What the books keep of it.
    pub fn asked(&self) -> AskedBy {
        AskedBy {
            key_name: self.key_name.as_deref().map(str::to_owned),
            request_id: self.request_id.clone(),
            session: self.session.clone(),
        }
    }
}

/// The session that the headers of this name give.
///
/// # Errors
/// When there is more than one, or its text is not fit for the books and the log.
pub fn session(values: &[&[u8]]) -> Result<Option<String>, Problem> {
    let text = match values {
        [] => return Ok(None),
        [value] => std::str::from_utf8(value).ok(),
        _ => None,
    };
    let is_fit = |text: &&str| {
        (1..=SESSION_LENGTH_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match text.filter(is_fit) {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Problem::new(
            Code::InvalidRequest,
            "X-Agent-Session must be sent once and have 1 to 128 visible ASCII characters. Correct it, or leave it out.",
        )
        .field(SESSION_HEADER)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_one_short_visible_text_or_refused() {
        let longest = "s".repeat(128);
        let too_long = "s".repeat(129);
        #[rustfmt::skip]
        let table: Vec<(&str, Vec<&[u8]>, Result<Option<&str>, ()>)> = vec![
            ("none", vec![], Ok(None)),
            ("one", vec![b"task-7/step-3"], Ok(Some("task-7/step-3"))),
            ("the longest", vec![longest.as_bytes()], Ok(Some(&longest))),
            ("too long", vec![too_long.as_bytes()], Err(())),
            ("empty", vec![b""], Err(())),
            ("white space", vec![b"a b"], Err(())),
            ("not ASCII", vec!["sitzung-ü".as_bytes()], Err(())),
            ("not UTF-8", vec![b"\xff"], Err(())),
            ("twice", vec![b"a", b"a"], Err(())),
        ];
        for (case, values, right) in table {
            let read = session(&values).map_err(|_| ());
            assert_eq!(read, right.map(|text| text.map(str::to_owned)), "{case}");
        }
    }
}
