//! API keys: scopes, and the stored form of a key.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::binding::Binding;
use super::key_owner::KeyOwner;
use super::token::{KeyOrigin, Secret};
use crate::error::{Error, ErrorKind, Result};
use crate::model::Timestamp;

/// Longest label, in bytes.
pub const MAX_KEY_LABEL: usize = 256;
/// Keys of a page by default.
const PAGE: usize = 100;

/// Permission of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `memory:read`: reads values, memories, sessions, workspaces and media.
    MemoryRead,
    /// `memory:write`: changes them.
    MemoryWrite,
    /// `search:read`: searches and recalls.
    SearchRead,
    /// `files:read`: reads the tree.
    FilesRead,
    /// `files:write`: changes the tree.
    FilesWrite,
    /// `admin`: everything.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 6] = [
        Self::MemoryRead,
        Self::MemoryWrite,
        Self::SearchRead,
        Self::FilesRead,
        Self::FilesWrite,
        Self::Admin,
    ];

    /// Returns the text form.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MemoryRead => "memory:read",
            Self::MemoryWrite => "memory:write",
            Self::SearchRead => "search:read",
            Self::FilesRead => "files:read",
            Self::FilesWrite => "files:write",
            Self::Admin => "admin",
        }
    }

    /// Returns true if the scope permits changes and nothing else.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::MemoryWrite | Self::FilesWrite)
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
            Error::invalid(
                "a scope is one of memory:read, memory:write, search:read, files:read, files:write and admin",
            )
        })
    }
}

/// Stored form of a key: everything but the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Public id: 16 lower-case hexadecimal digits.
    pub id: String,
    /// Account that the key opens. `None`: a key of the data folder, which opens no account.
    pub account: Option<String>,
    /// Name chosen by its owner.
    pub label: String,
    /// Scopes, sorted and without duplicates.
    pub scopes: Vec<Scope>,
    /// Names and limits of its calls.
    pub binding: Binding,
    /// Time of creation.
    pub created: Timestamp,
    /// Time from which the key is rejected.
    pub expires: Option<Timestamp>,
    /// Time of revocation.
    pub revoked: Option<Timestamp>,
    /// Id of the key that created it. `None`: the command line or the library did.
    pub maker: Option<String>,
    /// True if the stored scopes or binding cannot be read, and are incomplete here. Requests with such a key
    /// fail; it can be listed and revoked.
    pub is_damaged: bool,
}

impl ApiKey {
    /// Returns true if the key has the scope. `admin` includes all. A read-only key has no scope that permits
    /// changes.
    pub fn allows(&self, scope: Scope) -> bool {
        if self.binding.read_only && scope.is_write() {
            return false;
        }
        self.scopes.iter().any(|has| *has == scope || *has == Scope::Admin)
    }

    /// Returns the name under which the work of the key is counted: the account, or the empty text for a key
    /// of the data folder.
    pub fn share(&self) -> &str {
        self.account.as_deref().unwrap_or_default()
    }

    /// Returns true if the key is neither revoked nor expired at this time. The time of expiry itself is
    /// past it.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| expires > now)
    }
}

/// Key that was authenticated, with the tree of its account.
#[derive(Clone, Debug)]
pub struct Admitted {
    key: ApiKey,
    /// `None` for a key of the home.
    folder: Option<String>,
}

impl Admitted {
    /// Returns a key with the tree of its account ([`Account::folder`](super::Account::folder)), which is
    /// `None` for a key of the home.
    pub fn new(key: ApiKey, folder: Option<String>) -> Self {
        Self { key, folder }
    }

    /// Returns the key.
    pub fn key(&self) -> &ApiKey {
        &self.key
    }

    /// Returns the name of the tree that the key opens: another one for an account that is created again
    /// under an old id. Empty for a key of the home.
    pub fn tree(&self) -> &str {
        self.folder.as_deref().unwrap_or_default()
    }

    /// Returns the owner of the key, by its tree.
    pub fn owner(&self) -> KeyOwner {
        match (&self.key.account, &self.folder) {
            (Some(account), Some(folder)) => KeyOwner::of_tree(account, folder),
            (account, _) => KeyOwner::from(account.as_deref()),
        }
    }

    /// Returns the account and the name of its tree.
    ///
    /// # Errors
    /// `AccessDenied` for a key of the home, which opens no account.
    pub fn account(&self) -> Result<(&str, &str)> {
        if let (Some(account), Some(folder)) = (&self.key.account, &self.folder) {
            return Ok((account, folder));
        }
        let message = "this API key is of the data folder and opens no account: use a key of the account";
        Err(Error::new(ErrorKind::AccessDenied, message))
    }
}

/// Key to be created.
///
/// ```
/// # use garth_engine as garth;
/// use garth::home::{Binding, NewKey, Scope};
///
/// let mut binding = Binding::default();
/// binding.agent = Some("scout".to_owned());
/// let mut key = NewKey::new(Some("acme"), &[Scope::FilesRead]);
/// key.label = "scout".to_owned();
/// key.binding = binding;
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct NewKey {
    /// Account that the key opens. `None`: a key of the data folder, whose only scope is `admin`.
    pub account: Option<String>,
    /// Name of the tree that the account must have ([`KeyOwner::tree`]). `None`: any.
    pub tree: Option<String>,
    /// Name chosen by its owner.
    pub label: String,
    /// Scopes; at least one.
    pub scopes: Vec<Scope>,
    /// Names and limits of its calls.
    pub binding: Binding,
    /// Time from which the key is rejected.
    pub expires: Option<Timestamp>,
    /// Id of the key that creates it, which must be valid then.
    pub maker: Option<String>,
    /// Request from which the token is derived. `None`: the token is random.
    pub origin: Option<KeyOrigin>,
}

impl NewKey {
    /// Returns a key of an account, or of the data folder, that is bound to nothing and does not expire.
    pub fn new(account: Option<&str>, scopes: &[Scope]) -> Self {
        Self::of(&KeyOwner::from(account), scopes)
    }

    /// Returns a key of an owner that is bound to nothing and does not expire.
    pub fn of(owner: &KeyOwner, scopes: &[Scope]) -> Self {
        let [account, tree] = [owner.account(), owner.tree()].map(|name| name.map(str::to_owned));
        Self { account, tree, scopes: scopes.to_vec(), ..Self::default() }
    }

    /// Returns the owner of the key.
    pub fn owner(&self) -> KeyOwner {
        match (&self.account, &self.tree) {
            (Some(account), Some(tree)) => KeyOwner::of_tree(account, tree),
            (account, _) => KeyOwner::from(account.as_deref()),
        }
    }

    /// Checks the parts that need no stored data.
    ///
    /// # Errors
    /// `InvalidArgument`: the label exceeds [`MAX_KEY_LABEL`] bytes or contains control characters; a key
    /// without an account has another scope than `admin`; a bound key has the scope `admin` or no account;
    /// the binding is malformed.
    pub fn check(&self) -> Result<()> {
        check_label(&self.label)?;
        self.binding.check()?;
        match (self.binding.is_free(), &self.account) {
            (false, None) => Err(Error::invalid("a key of the data folder cannot be bound; name an account")),
            (false, _) if self.scopes.contains(&Scope::Admin) => {
                Err(Error::invalid("a bound key cannot have the scope admin, which reaches everything"))
            }
            // It makes no other calls. No default adds `admin`: whoever forgets the account must not get it.
            (true, None) if self.scopes.iter().any(|scope| *scope != Scope::Admin) => Err(Error::invalid(
                "a key of the data folder has the scope admin alone; name that scope, or an account",
            )),
            _ => Ok(()),
        }
    }
}

/// Page of the keys of an account, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeysPage {
    /// Creation time and id of the key before the page. `None`: the first page.
    pub after: Option<(Timestamp, String)>,
    /// Limit on the keys of the page.
    pub limit: usize,
    /// True to include revoked keys.
    pub revoked: bool,
}

impl Default for KeysPage {
    fn default() -> Self {
        Self { after: None, limit: PAGE, revoked: false }
    }
}

impl KeysPage {
    /// Returns the first page of all keys, including revoked ones.
    pub fn with_revoked() -> Self {
        Self { revoked: true, ..Self::default() }
    }

    /// Returns the page after a key.
    #[must_use]
    pub fn after(self, key: &ApiKey) -> Self {
        Self { after: Some((key.created, key.id.clone())), ..self }
    }

    /// Sets the limit on the keys of the page. Default: 100.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

/// Replacement of a key by a new one with the same label, scopes, binding and expiry.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Rotation {
    /// Time for which the old key stays valid. Zero revokes it at once.
    pub grace: Duration,
    /// Id of the key that replaces it, which must be valid then.
    pub maker: Option<String>,
    /// Request from which the new token is derived. `None`: the token is random.
    pub origin: Option<KeyOrigin>,
}

impl Rotation {
    /// Returns a rotation after which the old key stays valid for a time.
    pub fn new(grace: Duration) -> Self {
        Self { grace, ..Self::default() }
    }
}

/// Result of a rotation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rotated {
    /// New key.
    pub key: ApiKey,
    /// Token of the new key.
    pub secret: Secret,
    /// Replaced key.
    pub old: ApiKey,
}

impl Rotated {
    /// Returns the result of a rotation: the new key with its token, and the old key.
    #[doc(hidden)]
    pub fn new(key: ApiKey, secret: Secret, old: ApiKey) -> Self {
        Self { key, secret, old }
    }
}

/// Returns scopes as they are stored: sorted, without duplicates, separated by spaces.
///
/// # Errors
/// `InvalidArgument` without a scope.
pub fn scopes_to_text(scopes: &[Scope]) -> Result<String> {
    if scopes.is_empty() {
        return Err(Error::invalid("a key has at least one scope"));
    }
    let mut sorted = scopes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    Ok(sorted.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "))
}

fn check_label(label: &str) -> Result<()> {
    if label.len() <= MAX_KEY_LABEL && !label.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the label of a key has at most {MAX_KEY_LABEL} bytes and no control characters"
    )))
}
