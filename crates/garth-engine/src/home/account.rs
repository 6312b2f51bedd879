//! Accounts of a home: their ids, and figures about their storage.

use std::fmt;

use icu_normalizer::ComposingNormalizerBorrowed;

use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Timestamp, hex};
use crate::path::check_id;

/// Seconds for which a repeat of a request returns the result of the first attempt: as long as the record of
/// any other write.
pub const REPEATABLE: i64 = 24 * 60 * 60;

/// Limit on the recorded requests that create or delete accounts. The oldest ones make room for new ones.
pub const MAX_REQUESTS: i64 = 100_000;

/// An account: one tree, stored apart from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Name for operators. See [`check_account_id`]; accounts of an earlier garth may have other names.
    pub id: String,
    /// Name of its tree: 32 random hexadecimal digits, never reused. In a data folder, the folder below
    /// `accounts/`.
    pub folder: String,
    /// Time of creation.
    pub created: Timestamp,
    /// Lifecycle status.
    pub state: AccountState,
}

/// Lifecycle status of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountState {
    /// In use.
    Active,
    /// Being deleted: its keys are rejected, and its tree is about to be removed.
    Deleted,
}

/// Returns true for an error of an account whose deletion has begun and has not ended: a call did not find
/// the account, or its files cannot be removed yet.
pub fn is_being_deleted(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<BeingDeleted>())
}

/// Returns the error of a call that needs an account whose deletion has begun.
pub fn being_deleted() -> Error {
    let message = "the account is being deleted";
    Error::new(ErrorKind::NotFound, message).with_source(BeingDeleted(None))
}

/// Returns the error of a deletion whose files cannot be removed yet.
pub fn not_removed(cause: Error) -> Error {
    let message = "the account is being deleted: its keys and files are out of reach, but the files cannot be \
        removed yet; garth tries again";
    Error::new(cause.kind(), message).with_source(BeingDeleted(Some(cause)))
}

/// Returns the error of a call that names an account that does not exist.
pub fn no_account() -> Error {
    Error::new(ErrorKind::NotFound, "there is no account of that name")
}

/// Returns the error of a call on an account that was deleted since it was found.
pub fn account_gone() -> Error {
    Error::new(ErrorKind::NotFound, "the account was deleted")
}

/// Returns the error of a creation for an id that an account in this state has.
pub fn taken(state: AccountState) -> Error {
    let message = match state {
        AccountState::Active => "an account of that name exists already",
        AccountState::Deleted => "an account of that name is being deleted; its name is free after that",
    };
    Error::new(ErrorKind::AlreadyExists, message)
}

/// Returns the error of a request whose idempotency key belongs to another one.
pub fn key_reused() -> Error {
    let message = "the idempotency key was used before with another request; use a new key";
    Error::new(ErrorKind::IdempotencyMismatch, message)
}

/// Returns a new name of a tree ([`Account::folder`]).
///
/// # Errors
/// `Io` if the system has no random bytes.
pub fn new_tree_name(env: &Env) -> Result<String> {
    Ok(hex(&env.random::<16>()?))
}

/// Cause of the errors of an account that is being deleted, with the error that keeps its files.
#[derive(Debug)]
struct BeingDeleted(Option<Error>);

impl fmt::Display for BeingDeleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(error) = &self.0 else { return f.write_str("its deletion has begun") };
        match std::error::Error::source(error) {
            Some(cause) => write!(f, "{error}: {cause}"),
            None => error.fmt(f),
        }
    }
}

impl std::error::Error for BeingDeleted {}

/// Request with an idempotency key that creates or deletes an account. A repeat by the same caller changes
/// nothing, also if another account of the id was created since.
///
/// ```
/// # use garth_engine as garth;
/// # fn main() -> garth::Result<()> { futures::executor::block_on(async {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let home = garth::DataDir::open(folder.path(), garth::Env::system(), garth::rule::Registry::empty())?;
/// use garth::Home as _;
/// use garth::home::AccountRequest;
///
/// home.create_account("acme").await?;
/// let request = AccountRequest::new("0123456789abcdef", "delete-acme", [7; 32]);
/// assert!(home.delete_account_once("acme", &request).await?);
/// home.create_account("acme").await?;
/// assert!(home.delete_account_once("acme", &request).await?, "the answer of the first attempt");
/// home.account("acme").await?;
/// # Ok(()) }) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountRequest {
    /// Id of the key that makes the request.
    pub caller: String,
    /// Idempotency key, unique among those of the caller.
    pub idempotency_key: String,
    /// Hash of all that the request asks for.
    pub request_hash: [u8; 32],
}

impl AccountRequest {
    /// Returns a request: the id of its caller, its idempotency key, and a hash of all that it asks for.
    pub fn new(
        caller: impl Into<String>,
        idempotency_key: impl Into<String>,
        request_hash: [u8; 32],
    ) -> Self {
        Self { caller: caller.into(), idempotency_key: idempotency_key.into(), request_hash }
    }
}

/// Mark of the state of an account. A different mark means that there may have been commits.
///
/// An equal mark does not rule out a commit in the same tick of the clock that [`Mark::changed`] follows,
/// some milliseconds: a mark taken just after a change has to be taken again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    value: u128,
    changed: Option<Timestamp>,
}

impl Mark {
    /// Returns the mark of a state. `value` differs from state to state.
    pub const fn new(value: u128, changed: Option<Timestamp>) -> Self {
        Self { value, changed }
    }

    /// Returns the time of the last change, by the clock of the storage.
    pub const fn changed(&self) -> Option<Timestamp> {
        self.changed
    }
}

/// Space that an account takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredSize {
    /// Bytes, without those of pack files.
    pub bytes: u64,
    /// Pack files of large contents, counted up to [`StoredSize::MAX_PACKS`].
    pub packs: usize,
    /// True if there are more pack files.
    pub more_packs: bool,
}

impl StoredSize {
    /// Limit on the pack files that are counted.
    pub const MAX_PACKS: usize = 1000;
}

/// Validates the id of an account to be created: an id (see [`check_id`]) in the normalization form NFC,
/// without format characters, other invisible characters, and white space except for spaces inside. Letters
/// of two scripts may still look alike.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_account_id(id: &str) -> Result<()> {
    check_id("account", id)?;
    let is_plain = !id.starts_with(' ')
        && !id.ends_with(' ')
        && !id.chars().any(is_invisible)
        && ComposingNormalizerBorrowed::new_nfc().is_normalized(id);
    if is_plain {
        return Ok(());
    }
    // `Debug` would show some of these characters as they are.
    Err(Error::invalid(format!(
        "`{}` is not a valid account id: use visible characters in the form NFC, and spaces only inside",
        id.escape_default()
    )))
}

/// Returns true for characters that show nothing, or change only how others are shown: the category `Cf` and
/// the property `Default_Ignorable_Code_Point` of Unicode 16, the empty pattern of Braille, and white space
/// other than the space.
#[rustfmt::skip]
fn is_invisible(letter: char) -> bool {
    letter.is_control() || (letter != ' ' && letter.is_whitespace()) || matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
        | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_account_ids_that_hide_characters() {
        for id in ["acme", "a b", "zo\u{eb}", "\u{30c6}\u{30b9}\u{30c8}", "\u{939}\u{93f}", "%", "a-b.c_d@e"]
        {
            check_account_id(id).unwrap_or_else(|error| panic!("{id:?}: {error}"));
        }
        for id in [
            "acme\u{200b}",
            "default ",
            " default",
            "a\u{a0}b",
            "a\u{3000}b",
            "zoe\u{308}",
            "a\u{ad}b",
            "a\u{202e}b",
            "a\u{2028}b",
            "a\u{200d}b",
            "a\u{feff}",
            "a\u{fe0f}",
            "a\u{e0041}",
            "\u{3164}",
            "\u{2800}",
            "a\tb",
            "\u{212b}",
            " ",
            "",
            "..",
            "a/b",
        ] {
            let error = check_account_id(id).unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument), "{id:?}: {error}");
            assert!(error.message().is_ascii(), "{id:?}: {error}");
        }
    }
}
