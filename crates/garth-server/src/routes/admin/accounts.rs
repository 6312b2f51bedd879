//! Accounts over HTTP: their creation, list and deletion by operators, and maintenance of the storage of one.
//! Maintenance changes nothing that a reader sees, so its repeat needs no record. Creations and deletions
//! with an idempotency key are recorded: without a record, a repeat could delete another account of the name.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use garth_agent::access::upgraded;
use garth_engine::fs::store::Fsck;
use garth_engine::home::{Account, AccountState, is_being_deleted};
use garth_engine::{AccountStore, ErrorKind};
use serde::Serialize;
use serde_json::{Value, json};

use super::commits::account_of;
use crate::errors::Refusal;
use crate::fields::{Page, fields, flag, integer, string, string_of};
use crate::routes::call::Call;
use crate::routes::control::ControlCall;

/// Bounds of the grace period in seconds. Another process may have the account open, and looks once a minute
/// for content that is about to be removed.
const GRACE: (u64, u64) = (120, 365 * 24 * 60 * 60);

/// Limit on the findings that an answer lists.
const MAX_FINDINGS: usize = 1000;

fields! {
    /// Collects garbage of the account: expired entries, abandoned uploads, and content without a reference.
    pub(crate) struct CollectFields<'a> {
        /// Seconds for which content that was found unused is kept, because another process may still read
        /// it, and an upload that no commit has used.
        grace_seconds: u64 = integer(GRACE.0, GRACE.1), or 600;
        /// `true` reports what would be removed, and changes nothing.
        dry: bool = flag(), or false;
    }
}

pub(in crate::routes) async fn collect(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: CollectFields<'_>,
) -> Result<Value, Refusal> {
    let (tree, grace) = (Arc::clone(account), Duration::from_secs(fields.grace_seconds));
    let of = &account_of(call)?;
    let mut answer = if fields.dry {
        answer(of, &call.maintenance.run(of, async move { tree.gc_dry_run(grace).await }).await?)
    } else {
        answer(of, &call.maintenance.run(of, async move { tree.gc(grace).await }).await?)
    };
    answer["dry_run"] = fields.dry.into();
    Ok(answer)
}

fields! {
    /// Checks the integrity of the stored data of the account, and changes nothing.
    pub(crate) struct CheckFields<'a> {
    }
}

pub(in crate::routes) async fn check(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    _: CheckFields<'_>,
) -> Result<Value, Refusal> {
    let tree = Arc::clone(account);
    let of = &account_of(call)?;
    let mut found: Fsck = call.maintenance.run(of, async move { tree.fsck().await }).await?;
    let (is_sound, has_more) = (found.findings.is_empty(), found.findings.len() > MAX_FINDINGS);
    found.findings.truncate(MAX_FINDINGS);
    let decided = upgraded(&**account).await?.unwrap_or_default();
    let mut answer = answer(of, &found);
    answer["ok"] = is_sound.into();
    answer["has_more"] = has_more.into();
    answer["decided"] = json!(decided.decided);
    answer["unlisted"] = decided.unlisted.into();
    Ok(answer)
}

fields! {
    /// Rebuilds the search index of the account, and the counts of its quotas, from the files.
    pub(crate) struct ReindexFields<'a> {
    }
}

pub(in crate::routes) async fn reindex(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    _: ReindexFields<'_>,
) -> Result<Value, Refusal> {
    let tree = Arc::clone(account);
    let of = &account_of(call)?;
    let files = call.maintenance.run(of, async move { tree.reindex().await }).await?;
    Ok(json!({"ok": true, "account": of, "files": files}))
}

fields! {
    /// Creates an account with an empty tree; only for a key of the data folder. An account that exists is
    /// not changed.
    pub(crate) struct CreateFields<'a> {
        /// Name of the account.
        account: Cow<'a, str> = string_of("id");
    }
}

pub(in crate::routes) async fn create(
    call: &ControlCall<'_>,
    fields: CreateFields<'_>,
) -> Result<Value, Refusal> {
    call.by_operator()?;
    let (account, created) = match call.account_request() {
        Some(request) => call.home.create_account_once(&fields.account, &request).await?,
        None => match call.home.create_account(&fields.account).await {
            // While an account of the same name is being deleted, there is none to return.
            Err(exists) if exists.is(ErrorKind::AlreadyExists) => {
                (call.home.account(&fields.account).await.map_err(|_| exists)?, false)
            }
            account => (account?, true),
        },
    };
    Ok(json!({"ok": true, "account": shown(&account), "created": created}))
}

fields! {
    /// Lists the accounts by name. A key of an account sees its own.
    pub(crate) struct ListFields<'a> {
        ..page: Page<500, 100>;
    }
}

pub(in crate::routes) async fn list(
    call: &ControlCall<'_>,
    fields: ListFields<'_>,
) -> Result<Value, Refusal> {
    let (after, limit) = (fields.page.cursor.unwrap_or_default(), fields.page.limit);
    let mut listed = match call.key().account.as_deref() {
        Some(own) if *own > *after => {
            let account = call.home.account(own).await?;
            // Another account may have the name by now.
            if account.folder != call.admitted.tree() {
                return Err(Refusal::unauthorized());
            }
            vec![account]
        }
        Some(_) => Vec::new(),
        // One more shows that there are more.
        None => call.home.accounts(&after, limit + 1).await?,
    };
    let has_more = listed.len() > limit;
    listed.truncate(limit);
    // A page may have fewer items than accounts were read.
    let next = listed.last().filter(|_| has_more).map(|last| &*last.id);
    let active = listed.iter().filter(|account| account.state == AccountState::Active);
    let items: Vec<Value> = active.map(shown).collect();
    Ok(call.fields.page(items, next))
}

fields! {
    /// Deletes an account for ever, with its keys, its tree and all history; only for a key of the data
    /// folder.
    pub(crate) struct DeleteFields<'a> {
        /// Name of the account.
        account: Cow<'a, str> = string_of("id");
        /// The name once more, to confirm the deletion.
        confirm: Cow<'a, str> = string();
    }
}

pub(in crate::routes) async fn delete(
    call: &ControlCall<'_>,
    fields: DeleteFields<'_>,
) -> Result<Value, Refusal> {
    call.by_operator()?;
    if fields.confirm != fields.account {
        return Err(Refusal::validation("\"confirm\" must be the name of the account to delete"));
    }
    let deleted = match call.account_request() {
        Some(request) => call.home.delete_account_once(&fields.account, &request).await,
        None => match call.home.delete_account(&fields.account).await {
            // There is none, or another call has begun to delete it.
            Err(error) if error.is(ErrorKind::NotFound) => Ok(false),
            done => done.map(|()| true),
        },
    };
    let deleted = match deleted {
        // The message is written for clients, whatever kind of failure keeps the files.
        Err(error) if is_being_deleted(&error) => return Err(Refusal::being_deleted(&error)),
        deleted => deleted?,
    };
    Ok(json!({"ok": true, "account": fields.account, "deleted": deleted}))
}

/// Returns the JSON of an account.
fn shown(account: &Account) -> Value {
    json!({"account": account.id, "created_at": account.created.to_rfc3339()})
}

/// Returns a report as the command line prints it.
fn answer(account: &str, report: &impl Serialize) -> Value {
    let mut answer = serde_json::to_value(report).unwrap_or_default();
    answer["ok"] = true.into();
    answer["account"] = account.into();
    answer
}
