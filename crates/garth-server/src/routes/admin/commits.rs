//! Commits of administrators, and the account that they are on.

use std::borrow::Cow;

use garth_engine::model::{Author, Batch};

use crate::errors::Refusal;
use crate::routes::call::Call;
use crate::routes::identity::named_account;

/// Returns the id of the account of a call: that of the key, or the one that a key of the data folder names.
pub(super) fn account_of(call: &Call<'_>) -> Result<String, Refusal> {
    match &call.key.account {
        Some(own) => Ok(own.clone()),
        None => Ok(named_account(call.tree, &call.fields)?.map(Cow::into_owned).unwrap_or_default()),
    }
}

/// Returns a batch without operations, by the key of the caller. The message has no path or pattern, which
/// may be as long as a message: a record that cannot be committed would be lost after its call has run.
pub(super) fn batch(call: &Call<'_>, message: &str) -> Batch {
    Batch::default().author(Author::key(&*call.key.id)).message(message)
}
