//! The API keys: reading their settings, and finding the one that a caller has shown. Pure. Only digests are kept.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

/// The shortest secret, in characters: below it, guessing becomes thinkable.
pub const SECRET_LENGTH_MIN: usize = 16;

/// The longest secret, in characters.
const SECRET_LENGTH_MAX: usize = 512;

/// The longest name of a key, in characters.
const NAME_LENGTH_MAX: usize = 64;

/// What callers without a key are called; no key may have this name.
pub const NAMELESS: &str = "anonymous";

/// Stands before a secret that is given by its digest.
const DIGEST_PREFIX: &str = "sha256:";

type Sha256Digest = [u8; 32];

/// What a key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Reading, and charging invoices.
    Agent,
    /// Everything.
    Admin,
}

/// A key's name and scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOwner {
    /// The name in logs, books and limits.
    pub name: Arc<str>,
    /// What it is good for.
    pub scope: Scope,
}

#[derive(Clone)]
struct ApiKey {
    owner: KeyOwner,
    digest: Sha256Digest,
}

/// All keys. Shows names and scopes, never a secret or its digest.
#[derive(Clone, Default)]
pub struct ApiKeys(Vec<ApiKey>);

/// Why a list of keys is refused. Says where, never what: the text may be a secret in the wrong place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyListError {
    /// Only commas.
    #[error("names no key; leave it unset for none")]
    Empty,
    /// No `=`.
    #[error("entry {0} is not name=secret or name=sha256:<64 hex digits>")]
    Shape(usize),
    /// The name.
    #[error(
        "entry {0} has a bad name: 1 to 64 letters, digits and _ - . are allowed, and the name anonymous is not"
    )]
    Name(usize),
    /// The secret.
    #[error("entry {0} has a bad secret: at least 16 visible ASCII characters and no commas")]
    Secret(usize),
    /// The digest.
    #[error("entry {0} has a bad digest: 64 hex digits must follow sha256:")]
    Digest(usize),
    /// The secret is that of another entry.
    #[error("entry {0} has the secret of another entry; each needs its own")]
    SameSecret(usize),
    /// The name is there in the other scope.
    #[error("entry {0} has the name of a key of the other scope; a name has one scope")]
    OtherScope(usize),
}

impl ApiKeys {
    /// Adds a setting's list of keys. The same name more than once is rotation: each of its secrets is good.
    ///
    /// # Errors
    /// Names the entry at fault, counted from 1.
    pub fn add(&mut self, scope: Scope, list: &str) -> Result<(), KeyListError> {
        let entries = list
            .split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty());
        let before = self.0.len();
        for (number, entry) in (1..).zip(entries) {
            let (name, secret) = entry.split_once('=').ok_or(KeyListError::Shape(number))?;
            let (name, secret) = (name.trim_end(), secret.trim_start());
            if !is_name(name) {
                return Err(KeyListError::Name(number));
            }
            let digest = digest_of(secret, number)?;
            if self.0.iter().any(|key| key.digest == digest) {
                return Err(KeyListError::SameSecret(number));
            }
            let same_name = self.0.iter().find(|key| &*key.owner.name == name);
            if same_name.is_some_and(|key| key.owner.scope != scope) {
                return Err(KeyListError::OtherScope(number));
            }
            let name = same_name.map_or_else(|| Arc::from(name), |key| Arc::clone(&key.owner.name));
            let owner = KeyOwner { name, scope };
            self.0.push(ApiKey { owner, digest });
        }
        if self.0.len() == before {
            return Err(KeyListError::Empty);
        }
        Ok(())
    }

    /// True when there are no keys, and so no question who may call.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of a scope's keys, each once.
    pub fn names(&self, scope: Scope) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = self
            .0
            .iter()
            .filter(|key| key.owner.scope == scope)
            .map(|key| Arc::clone(&key.owner.name))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Whose secret this is. Digests are compared, all of them and each to its end, so that the time it takes tells nothing
    /// of how near a guess came nor of which key it came near to.
    pub fn owner_of(&self, secret: &[u8]) -> Option<&KeyOwner> {
        let shown: Sha256Digest = Sha256::digest(secret).into();
        let mut found = u32::MAX;
        for (position, key) in (0_u32..).zip(&self.0) {
            let is_this = shown.as_slice().ct_eq(key.digest.as_slice());
            found.conditional_assign(&position, is_this);
        }
        let position = usize::try_from(found).ok()?;
        self.0.get(position).map(|key| &key.owner)
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|key| &key.owner))
            .finish()
    }
}

/// True for a text that may be a key's name.
pub fn is_name(name: &str) -> bool {
    (1..=NAME_LENGTH_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        && name != NAMELESS
}

fn digest_of(secret: &str, number: usize) -> Result<Sha256Digest, KeyListError> {
    if let Some(hex) = secret.strip_prefix(DIGEST_PREFIX) {
        return from_hex(hex).ok_or(KeyListError::Digest(number));
    }
    let is_fit = (SECRET_LENGTH_MIN..=SECRET_LENGTH_MAX).contains(&secret.len())
        && secret.bytes().all(|byte| byte.is_ascii_graphic());
    if is_fit {
        Ok(Sha256::digest(secret.as_bytes()).into())
    } else {
        Err(KeyListError::Secret(number))
    }
}

fn from_hex(hex: &str) -> Option<Sha256Digest> {
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut digest = Sha256Digest::default();
    for (position, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * position..2 * position + 2)?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbb";

    fn keys(admin: &str, agent: &str) -> Result<ApiKeys, KeyListError> {
        let mut keys = ApiKeys::default();
        keys.add(Scope::Admin, admin)?;
        keys.add(Scope::Agent, agent)?;
        Ok(keys)
    }

    #[test]
    fn a_secret_names_its_owner_and_nothing_else_does() {
        let digest = "0".repeat(64);
        let real: String = Sha256::digest(b"cccccccccccccccc")
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        let agents = format!(" bot = {B} , bot=sha256:{real},other=sha256:{digest},");
        let keys = keys(&format!("ops={A}"), &agents).unwrap();
        let owner = |secret: &str| {
            let owner = keys.owner_of(secret.as_bytes());
            owner.map(|owner| (owner.name.to_string(), owner.scope))
        };
        assert_eq!(owner(A), Some(("ops".into(), Scope::Admin)));
        assert_eq!(owner(B), Some(("bot".into(), Scope::Agent)));
        assert_eq!(
            owner("cccccccccccccccc"),
            Some(("bot".into(), Scope::Agent))
        );
        for wrong in [
            "",
            "ops",
            "aaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaaaa",
            "AAAAAAAAAAAAAAAA",
            &digest,
            &real,
        ] {
            assert_eq!(owner(wrong), None, "{wrong}");
        }
        assert_eq!(
            keys.names(Scope::Agent),
            [Arc::from("bot"), Arc::from("other")]
        );
        assert_eq!(ApiKeys::default().owner_of(b""), None);
    }

    #[test]
    fn a_bad_list_is_refused_by_the_entrys_number_and_never_shows_a_secret() {
        let long = "x".repeat(513);
        let long_name = format!("{}={A}", "n".repeat(65));
        #[rustfmt::skip]
        let table: Vec<(&str, String, KeyListError)> = vec![
            ("only commas", ", ,".into(), KeyListError::Empty),
            ("no name", format!("bot={B},hunter2hunter2hunter2"), KeyListError::Shape(2)),
            ("empty name", format!("={B}"), KeyListError::Name(1)),
            ("a colon in a name", format!("a:b={B}"), KeyListError::Name(1)),
            ("white space in a name", format!("a b={B}"), KeyListError::Name(1)),
            ("a star", format!("*={B}"), KeyListError::Name(1)),
            ("the name of nobody", format!("anonymous={B}"), KeyListError::Name(1)),
            ("a long name", long_name, KeyListError::Name(1)),
            ("no secret", "bot=".into(), KeyListError::Secret(1)),
            ("a short secret", "bot=hunter2".into(), KeyListError::Secret(1)),
            ("a long secret", format!("bot={long}"), KeyListError::Secret(1)),
            ("white space in a secret", "bot=hunter2 hunter2 hunter2".into(), KeyListError::Secret(1)),
            ("not ASCII", "bot=schlüsselschlüssel".into(), KeyListError::Secret(1)),
            ("a short digest", "bot=sha256:abcdef".into(), KeyListError::Digest(1)),
            ("no hex", format!("bot=sha256:{}", "g".repeat(64)), KeyListError::Digest(1)),
            ("the same secret in one list", format!("bot={B},other={B}"), KeyListError::SameSecret(2)),
            ("the same secret in both lists", format!("bot={A}"), KeyListError::SameSecret(1)),
            ("the same name in both lists", format!("ops={B}"), KeyListError::OtherScope(1)),
        ];
        for (case, agents, right) in table {
            let refused = keys(&format!("ops={A}"), &agents).map(|_| ()).unwrap_err();
            assert_eq!(refused, right, "{case}");
            let said = refused.to_string();
            assert!(
                !said.contains("hunter2") && !said.contains(B),
                "{case}: {said}"
            );
        }
    }

    #[test]
    fn neither_secrets_nor_digests_show() {
        let shown = format!(
            "{:?}",
            keys(&format!("ops={A}"), &format!("bot={B}")).unwrap()
        );
        let digest = format!("{:?}", Sha256::digest(A.as_bytes()));
        assert!(shown.contains("ops") && shown.contains("bot"), "{shown}");
        assert!(
            !shown.contains(A) && !shown.contains(B) && !shown.contains(&digest),
            "{shown}"
        );
    }
}
