//! The upgrade of an account from before agents had owners: who listens in its sessions and whose they are is
//! judged once, by the rules of today, before anybody is given access. What was decided is kept in `/.garth`
//! for whoever runs `garth fsck`.

mod chats;
mod noted;
pub(super) mod record;
mod sessions;

pub use self::record::Upgrade;
use self::record::{MAX_RECORD, record};
use crate::boxed;
use crate::small_file::{pretty, read_all};
use garth_engine::env::Env;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::store::{system, system_of};
use garth_engine::fs::{AccountStore, FileSystemExt as _};
use garth_engine::model::{Batch, Op};
use garth_engine::path::TreePath;

/// Returns what the upgrade of an account decided; `None` if it was not upgraded.
///
/// # Errors
/// From the filesystem.
#[boxed]
pub async fn upgraded(account: &dyn AccountStore) -> Result<Option<Upgrade>> {
    let Some(raw) = system_of(account).await? else { return Ok(None) };
    let file = read_all(&*raw, &[record()?], MAX_RECORD).await?.pop().flatten();
    Ok(file.and_then(|file| serde_json::from_slice(file.bytes.as_deref()?).ok()))
}

/// Upgrades an account, unless that was done. One in which nothing lies is left as it is.
///
/// # Errors
/// From the filesystem; then nobody is given access.
pub(super) async fn upgrade(account: &dyn AccountStore, env: &Env) -> Result<()> {
    let raw = account.raw();
    let mut upgrade = Upgrade::default();
    let mut is_empty = true;
    for top in ["users", "agents", "chats", "media"] {
        is_empty &= raw.lookup(&TreePath::from_row("", top)).await?.is_none();
    }
    if !is_empty {
        let overriding = account.overriding_rules();
        let owners = sessions::owners(&*overriding, &mut upgrade).await?;
        let known = sessions::judge(&*overriding, env, &owners, &mut upgrade).await?;
        noted::derive(&*overriding, &known, &mut upgrade).await?;
        chats::own(&*overriding, &mut upgrade).await?;
    }
    mark(account, &upgrade).await
}

/// Writes the record: the last step, so that an upgrade that was interrupted begins again.
async fn mark(account: &dyn AccountStore, upgrade: &Upgrade) -> Result<()> {
    let raw = match system(account).await {
        // the account has a `/.garth` of its own, and is upgraded at each access until it is moved away
        Err(error) if error.is(ErrorKind::AlreadyExists) => return Ok(()),
        raw => raw?,
    };
    let batch =
        Batch::new([Op::write(record()?, pretty(upgrade)?)]).message("judge who may see what").by_garth();
    raw.commit(batch).await.map(drop)
}
