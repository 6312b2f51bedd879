//! API key that the first start creates.

use garth_engine::Home;
use garth_engine::home::{KeyOwner, KeysPage, NewKey, Scope};

use crate::fail::{Result, no_account_or};

/// Returns true if an account has or had a key.
pub(super) async fn has_key(home: &dyn Home, account: &str) -> Result<bool> {
    let one = KeysPage::with_revoked().limit(1);
    let keys = home.keys(&KeyOwner::named(account), &one).await;
    Ok(!keys.map_err(|error| no_account_or(account, error))?.items.is_empty())
}

/// Creates a key for an account that never had one.
pub(super) async fn first_key(home: &dyn Home, account: &str) -> Result<Option<String>> {
    if has_key(home, account).await? {
        return Ok(None);
    }
    let mut new = NewKey::new(Some(account), &[Scope::Admin]);
    "created by the first start".clone_into(&mut new.label);
    let (_, secret) = home.issue_key(new).await?;
    Ok(Some(secret.reveal().to_owned()))
}
