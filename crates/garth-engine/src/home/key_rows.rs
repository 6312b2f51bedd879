//! Rows of keys, as homes with tables store them, and the judgement of requests on them.

use subtle::ConstantTimeEq as _;

use super::account::{REPEATABLE, key_reused};
use super::binding::Binding;
use super::key::{ApiKey, Rotation, Scope};
use super::key_owner::KeyOwner;
use super::token::{Issued, KeyOrigin, SecretHash};
use crate::error::{Error, ErrorKind, Result};
use crate::model::Timestamp;

/// Row of a key.
#[derive(Clone, Debug)]
pub struct KeyRow {
    /// Id of the key.
    pub id: String,
    /// Id of the account; `None` for a key of the home.
    pub account: Option<String>,
    /// Label.
    pub label: String,
    /// Scopes as [`scopes_to_text`](super::scopes_to_text) writes them.
    pub scopes: String,
    /// Binding as JSON; `None` for a key that is bound to nothing.
    pub binding: Option<String>,
    /// Time of creation.
    pub created: Timestamp,
    /// Time from which the key is rejected.
    pub expires: Option<Timestamp>,
    /// Time of revocation.
    pub revoked: Option<Timestamp>,
    /// Id of the key that created it.
    pub maker: Option<String>,
}

impl KeyRow {
    /// Returns the key.
    ///
    /// # Errors
    /// `Corrupt` if the scopes or the binding cannot be read.
    pub fn key(self) -> Result<ApiKey> {
        let scopes = self.scopes().collect::<Result<_>>().map_err(|error| damaged(error.into()))?;
        let binding = self.read_binding().map_err(|error| damaged(error.into()))?;
        Ok(self.with(scopes, binding))
    }

    /// Returns the key, to show it. One whose scopes or binding cannot be read is marked: it must neither
    /// hide the other keys of a list nor stay valid.
    pub fn listed(self) -> ApiKey {
        let binding = self.read_binding();
        let is_damaged = binding.is_err() || self.scopes().any(|scope| scope.is_err());
        let scopes = self.scopes().flatten().collect();
        ApiKey { is_damaged, ..self.with(scopes, binding.unwrap_or_default()) }
    }

    fn scopes(&self) -> impl Iterator<Item = Result<Scope>> {
        self.scopes.split(' ').map(str::parse)
    }

    /// Reads the binding. One that cannot be read must not make a free key.
    fn read_binding(&self) -> serde_json::Result<Binding> {
        self.binding.as_deref().map_or_else(|| Ok(Binding::default()), serde_json::from_str)
    }

    fn with(self, scopes: Vec<Scope>, binding: Binding) -> ApiKey {
        let Self { id, account, label, created, expires, revoked, maker, .. } = self;
        ApiKey { id, account, label, scopes, binding, created, expires, revoked, maker, is_damaged: false }
    }
}

fn damaged(cause: Box<dyn std::error::Error + Send + Sync>) -> Error {
    let message = "the scopes or the binding of an API key cannot be read; revoke it and create another one";
    Error::new(ErrorKind::Corrupt, message).with_source(cause)
}

/// Key with the id of a new token: that of an earlier try of the request, or of another one.
#[derive(Clone, Debug)]
pub struct EarlierKey {
    /// The key.
    pub key: ApiKey,
    /// Hash of its token.
    pub hash: SecretHash,
    /// Hash of the request that created it.
    pub request: Option<[u8; 32]>,
}

impl EarlierKey {
    /// Returns the key for a repeat of the request that created it.
    ///
    /// # Errors
    /// - `IdempotencyMismatch` if another request created it.
    /// - `Conflict` if the time for repeats is over, or the ids of two tokens are the same.
    pub fn repeated(self, issued: &Issued, origin: &KeyOrigin, now: Timestamp) -> Result<ApiKey> {
        if !bool::from(self.hash.ct_eq(&issued.hash)) {
            // Two of 2^64 ids are the same.
            let message = "this idempotency key cannot be used; use another one";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if self.request != Some(origin.request_hash()) {
            return Err(key_reused());
        }
        if self.key.created.plus_seconds(REPEATABLE) <= now {
            let message = format!(
                "this idempotency key created the API key {} more than a day ago; use a new one to create \
                 another",
                self.key.id
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok(self.key)
    }
}

/// Checks that a key can be replaced. `successor` is the key that has replaced it.
///
/// # Errors
/// `Conflict` if it was replaced already, revoked or expired.
pub fn check_replaceable(old: &ApiKey, successor: Option<&str>, now: Timestamp) -> Result<()> {
    if let Some(successor) = successor {
        // The end of its grace would become the expiry of another new key.
        let message = format!("this key was replaced by {successor} already; rotate that one");
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    if !old.is_valid(now) {
        let message = "this key is revoked or expired; create another one in its place";
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    Ok(())
}

/// Returns the expiry and the revocation of a key that is replaced now: it ends after the grace, or at once.
pub fn end_of_replaced(
    old: &ApiKey,
    rotation: &Rotation,
    now: Timestamp,
) -> (Option<Timestamp>, Option<Timestamp>) {
    let grace = i64::try_from(rotation.grace.as_nanos()).unwrap_or(i64::MAX);
    let end = Timestamp(now.0.saturating_add(grace));
    match grace {
        0 => (old.expires, Some(now)),
        // A grace never makes a key live longer.
        _ => (Some(old.expires.map_or(end, |expires| expires.min(end))), None),
    }
}

/// Checks that a new key does not expire at once.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_expiry(expires: Option<Timestamp>, now: Timestamp) -> Result<()> {
    match expires {
        Some(expires) if expires <= now => {
            Err(Error::invalid("the key would have expired already; name a later time"))
        }
        _ => Ok(()),
    }
}

/// Returns the error of a request by a key that may not create another one.
pub fn invalid_maker() -> Error {
    Error::new(ErrorKind::AccessDenied, "the API key that asks for another one is revoked or expired")
}

/// Returns the error of a call for a key that its owner does not have.
pub fn no_key(owner: &KeyOwner) -> Error {
    let owner = if owner.account().is_some() { "this account" } else { "the data folder" };
    Error::new(ErrorKind::NotFound, format!("{owner} has no key of that id"))
}
