//! Maintenance of the storage of an account over HTTP. The calls change nothing that a reader sees, so a
//! repeat needs no record.

use std::sync::Arc;
use std::time::Duration;

use garth_agent::access::upgraded;
use garth_engine::AccountStore;
use garth_engine::fs::store::Fsck;
use serde::Serialize;
use serde_json::{Value, json};

use super::commits::account_of;
use crate::errors::Refusal;
use crate::fields::{fields, flag, integer};
use crate::routes::call::Call;

/// Bounds of the grace period in seconds. Another process may have the account open, and looks once a minute
/// for content that is about to be removed.
const GRACE: (u64, u64) = (120, 365 * 24 * 60 * 60);

/// Limit on the findings that an answer lists.
const MAX_FINDINGS: usize = 1000;

fields! {
    /// Collects garbage of the account: expired entries, abandoned uploads, and content without a reference.
    pub(crate) struct CollectFields<'a> {
        /// Seconds for which content that was found unused is kept, because another process may still read
        /// it.
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

/// Returns a report as the command line prints it.
fn answer(account: &str, report: &impl Serialize) -> Value {
    let mut answer = serde_json::to_value(report).unwrap_or_default();
    answer["ok"] = true.into();
    answer["account"] = account.into();
    answer
}
