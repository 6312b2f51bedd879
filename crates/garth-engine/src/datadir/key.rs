//! API keys: their scopes, their text form, and the hash that keeps their secrets off the disk.

use std::fmt;
use std::str::FromStr;

use subtle::ConstantTimeEq;

use crate::env::Env;
use crate::error::{Error, Result};
use crate::model::{Timestamp, hex};

/// Random bytes of the public id of a key; 64 bits make ids distinct without a check.
const ID_BYTES: usize = 8;
/// Random bytes of the secret of a key: 256 bits.
const SECRET_BYTES: usize = 32;
/// Longest label, in bytes.
pub const MAX_KEY_LABEL: usize = 256;

/// Permission of a key.
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
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::MemoryRead, Self::MemoryWrite, Self::SearchRead, Self::Admin];

    /// Returns the text form.
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

/// Stored form of a key: everything but the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Public id: 16 lower-case hexadecimal digits.
    pub id: String,
    /// Account that the key opens.
    pub account: String,
    /// Name chosen by its owner.
    pub label: String,
    /// Scopes, sorted and without duplicates.
    pub scopes: Vec<Scope>,
    /// Time of creation.
    pub created: Timestamp,
    /// Time of revocation.
    pub revoked: Option<Timestamp>,
}

impl ApiKey {
    /// Returns true if the key has the scope. `admin` includes all.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|has| *has == scope || *has == Scope::Admin)
    }
}

/// Complete token of a key, `garth_<id>.<secret>`: shown once to its creator, stored nowhere.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Returns the token in clear, to show or send it. Never log it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Random key of a data folder that keys the hashes of secrets: a stolen hash cannot be tried without it.
pub(super) struct Hasher([u8; 32]);

/// Stored hash of a secret.
pub(super) type SecretHash = [u8; 32];

impl Hasher {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Returns the hash of a token. It covers the id too: a hash moved to the row of another id opens
    /// nothing.
    fn hash(&self, token: &str) -> SecretHash {
        *blake3::keyed_hash(&self.0, token.as_bytes()).as_bytes()
    }

    /// Creates a token. Returns its public id, itself, and the hash to store.
    pub(super) fn issue(&self, env: &Env) -> Result<(String, Secret, SecretHash)> {
        let id = hex(&env.random::<ID_BYTES>()?);
        let token = format!("garth_{id}.{}", hex(&env.random::<SECRET_BYTES>()?));
        let hash = self.hash(&token);
        Ok((id, Secret(token), hash))
    }

    /// Returns true if the token has this hash. Takes the same time for any token and hash, and for no hash,
    /// so that an unknown id cannot be distinguished from a wrong secret.
    pub(super) fn verify(&self, token: &str, stored: Option<&SecretHash>) -> bool {
        let dummy = SecretHash::default();
        let same = self.hash(token).ct_eq(stored.unwrap_or(&dummy));
        bool::from(same) && stored.is_some()
    }
}

/// Returns the public id of a token; `None` unless it has exactly the form of a token.
pub(super) fn token_id(token: &str) -> Option<&str> {
    let (id, secret) = token.strip_prefix("garth_")?.split_once('.')?;
    (is_hex(id, ID_BYTES) && is_hex(secret, SECRET_BYTES)).then_some(id)
}

fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == 2 * bytes && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns scopes as they are stored: sorted, without duplicates, separated by spaces.
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
