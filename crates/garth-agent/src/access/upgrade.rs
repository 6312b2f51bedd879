//! Upgrade of an account in which agents have no owners yet. The class and audience of its sessions are
//! judged once, by the current rules, before anyone gets access. The decisions are recorded in `/.garth` and
//! listed by `garth fsck`.

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

/// Returns the decisions of the upgrade of an account; `None` if it was not upgraded.
///
/// # Errors
/// From the filesystem.
#[boxed]
pub async fn upgraded(account: &dyn AccountStore) -> Result<Option<Upgrade>> {
    let Some(raw) = system_of(account).await? else { return Ok(None) };
    let file = read_all(&*raw, &[record()?], MAX_RECORD).await?.pop().flatten();
    Ok(file.and_then(|file| serde_json::from_slice(file.bytes.as_deref()?).ok()))
}

/// Upgrades an account, unless that was done before. An empty account is only marked.
///
/// # Errors
/// From the filesystem. Access is then denied to everyone.
pub(super) async fn upgrade(account: &dyn AccountStore, env: &Env) -> Result<()> {
    let raw = account.raw();
    let mut upgrade = Upgrade::default();
    let mut is_empty = true;
    for top in ["users", "agents", "chats", "media"] {
        is_empty &= raw.lookup(&TreePath::from_row("", top)).await?.is_none();
    }
    if !is_empty {
        // The order matters: sessions are judged by the owners of agents, and media and archives by their
        // sessions.
        let overriding = account.overriding_rules();
        let owners = sessions::owners(&*overriding, &mut upgrade).await?;
        let known = sessions::judge(&*overriding, env, &owners, &mut upgrade).await?;
        noted::derive(&*overriding, &known, &mut upgrade).await?;
        chats::own(&*overriding, &mut upgrade).await?;
    }
    mark(account, &upgrade).await
}

/// Writes the record. This is the last step, so that an interrupted upgrade starts again.
async fn mark(account: &dyn AccountStore, upgrade: &Upgrade) -> Result<()> {
    let raw = match system(account).await {
        // The account has a `/.garth` of its own. It is upgraded at each access until that is moved away.
        Err(error) if error.is(ErrorKind::AlreadyExists) => return Ok(()),
        raw => raw?,
    };
    let batch =
        Batch::new([Op::write(record()?, pretty(upgrade)?)]).message("judge who may see what").by_garth();
    raw.commit(batch).await.map(drop)
}
