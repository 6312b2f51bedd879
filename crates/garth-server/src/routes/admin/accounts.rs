//! Accounts over HTTP: their creation, list and deletion by operators, and maintenance of the storage of one.
//! Maintenance changes nothing that a reader sees, so its repeat needs no record. Creations and deletions
//! with an idempotency key are recorded: without a record, a repeat could delete another account of the name.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use garth_agent::access::upgraded;
use garth_engine::home::{AccountState, is_being_deleted};
use garth_engine::{AccountStore, ErrorKind};

use super::answers::{
    AccountChecked, AccountCollectable, AccountCollected, AccountCollection, AccountCreated, AccountDeleted,
    AccountItem, AccountReindexed,
};
use super::commits::account_of;
use crate::errors::Refusal;
use crate::fields::{Page, fields, flag, integer, string, string_of};
use crate::routes::call::Call;
use crate::routes::control::ControlCall;
use crate::routes::respond::Json;
use crate::wire::ItemsPage;

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
) -> Result<Json<AccountCollection>, Refusal> {
    let (tree, grace) = (Arc::clone(account), Duration::from_secs(fields.grace_seconds));
    let (ok, account, dry_run) = (true, account_of(call)?, fields.dry);
    let answer = if dry_run {
        let work = async move { tree.gc_dry_run(grace).await };
        let report = call.maintenance.run(&account, work).await?;
        AccountCollection::Dry(AccountCollectable { ok, account, dry_run, report })
    } else {
        let work = async move { tree.gc(grace).await };
        let report = call.maintenance.run(&account, work).await?;
        AccountCollection::Done(AccountCollected { ok, account, dry_run, report })
    };
    Json::of(&answer)
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
) -> Result<Json<AccountChecked>, Refusal> {
    let tree = Arc::clone(account);
    let of = account_of(call)?;
    let report = call.maintenance.run(&of, async move { tree.fsck().await }).await?;
    let decided = upgraded(&**account).await?.unwrap_or_default();
    Json::of(&AccountChecked::of(of, report, MAX_FINDINGS, decided))
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
) -> Result<Json<AccountReindexed>, Refusal> {
    let tree = Arc::clone(account);
    let account = account_of(call)?;
    let files = call.maintenance.run(&account, async move { tree.reindex().await }).await?;
    Json::of(&AccountReindexed { ok: true, account, files })
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
) -> Result<Json<AccountCreated>, Refusal> {
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
    Json::of(&AccountCreated { ok: true, account: AccountItem::of(&account), created })
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
) -> Result<Json<ItemsPage<AccountItem>>, Refusal> {
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
    Json::of(&ItemsPage::new(active.map(AccountItem::of).collect(), next, &call.fields))
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
) -> Result<Json<AccountDeleted>, Refusal> {
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
    Json::of(&AccountDeleted { ok: true, account: fields.account.into_owned(), deleted })
}
