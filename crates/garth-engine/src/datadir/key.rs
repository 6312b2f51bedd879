//! API keys: what they may do, how they look as text, and why their secret never reaches the disk.

use std::fmt;
use std::str::FromStr;

use subtle::ConstantTimeEq;

use crate::env::Env;
use crate::error::{Error, Result};
use crate::model::{Timestamp, hex};

/// Random bytes of a key's public id; 64 bits keep ids distinct without a check.
const ID_BYTES: usize = 8;
/// Random bytes of a key's secret: 256 bits.
const SECRET_BYTES: usize = 32;
/// Longest label, in bytes.
pub const MAX_KEY_LABEL: usize = 256;

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `memory:read`: get, list, glob, history.
    MemoryRead,
    /// `memory:write`: put, delete.
    MemoryWrite,
    /// `search:read`: search.
    SearchRead,
    /// `admin`: everything.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 4] = [Self::MemoryRead, Self::MemoryWrite, Self::SearchRead, Self::Admin];

    /// The text form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MemoryRead => "memory:read",
            Self::MemoryWrite => "memory:write",
            Self::SearchRead => "search:read",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| {
            Error::invalid("a scope is one of memory:read, memory:write, search:read and admin")
        })
    }
}

/// A key as it is kept: everything but the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Public id: 16 lower-case hexadecimal digits.
    pub id: String,
    /// The account that it opens.
    pub account: String,
    /// What its owner calls it.
    pub label: String,
    /// What it may do, in a fixed order, each once.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created: Timestamp,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
}

impl ApiKey {
    /// Whether the key may do this. `admin` may do all.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|has| *has == scope || *has == Scope::Admin)
    }
}

/// A key's whole token, `garth_<id>.<secret>`: shown once to who made it, kept nowhere.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The token in clear, to show or to send. Never log it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// The random key of a data folder under which secrets are hashed: a stolen hash cannot be tried without it.
pub(super) struct Hasher([u8; 32]);

/// What is stored of a secret.
pub(super) type SecretHash = [u8; 32];

impl Hasher {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The hash covers the id too: a row's hash moved to another id opens nothing.
    fn hash(&self, token: &str) -> SecretHash {
        *blake3::keyed_hash(&self.0, token.as_bytes()).as_bytes()
    }

    /// Makes a token: its public id, itself, and the hash to keep.
    pub(super) fn issue(&self, env: &Env) -> Result<(String, Secret, SecretHash)> {
        let id = hex(&env.random::<ID_BYTES>()?);
        let token = format!("garth_{id}.{}", hex(&env.random::<SECRET_BYTES>()?));
        let hash = self.hash(&token);
        Ok((id, Secret(token), hash))
    }

    /// Whether a token has this hash. Takes the same time for any token and hash, and for no hash at all, so
    /// that an unknown id cannot be told from a wrong secret.
    pub(super) fn verify(&self, token: &str, stored: Option<&SecretHash>) -> bool {
        let dummy = SecretHash::default();
        let same = self.hash(token).ct_eq(stored.unwrap_or(&dummy));
        bool::from(same) && stored.is_some()
    }
}

/// The public id in a token; `None` unless the token has exactly the form of one.
pub(super) fn token_id(token: &str) -> Option<&str> {
    let (id, secret) = token.strip_prefix("garth_")?.split_once('.')?;
    (is_hex(id, ID_BYTES) && is_hex(secret, SECRET_BYTES)).then_some(id)
}

fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == 2 * bytes && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Scopes as they are stored: sorted, each once, separated by blanks.
pub(super) fn scopes_to_text(scopes: &[Scope]) -> Result<String> {
    if scopes.is_empty() {
        return Err(Error::invalid("a key has at least one scope"));
    }
    let mut sorted = scopes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    Ok(sorted.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "))
}

pub(super) fn check_label(label: &str) -> Result<()> {
    if label.len() <= MAX_KEY_LABEL && !label.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the label of a key has at most {MAX_KEY_LABEL} bytes and no control characters"
    )))
}
