//! Snapshots of an account over HTTP.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::AccountStore;
use garth_engine::model::{MAX_PAGE, Op, Snapshot, SnapshotKey, SnapshotsPage};

use super::answers::{SnapshotChanged, SnapshotItem};
use super::commits::batch;
use crate::errors::Refusal;
use crate::fields::{Page, fields, string, string_of};
use crate::routes::call::Call;
use crate::routes::respond::Json;
use crate::wire::ItemsPage;

fields! {
    /// Creates a snapshot of the account: a name for its present state.
    pub(crate) struct CreateFields<'a> {
        /// Name of the snapshot; not a number, a time or an age.
        name: Cow<'a, str> = string_of("snapshot");
        /// Reason for the commit, stored with it.
        message: Option<Cow<'a, str>> = string();
    }
}

pub(in crate::routes) async fn create(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: CreateFields<'_>,
) -> Result<Json<SnapshotChanged>, Refusal> {
    commit(account, call, (&*fields.name, fields.message.as_deref()), Op::snapshot(&*fields.name)).await
}

fields! {
    /// Lists the snapshots of the account, ordered by name. Those of agents and of views are not listed.
    pub(crate) struct ListFields<'a> {
        ..page: Page<MAX_PAGE, 1000>;
    }
}

pub(in crate::routes) async fn list(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Json<ItemsPage<SnapshotItem>>, Refusal> {
    let after = fields.page.cursor.clone().map(|name| SnapshotKey { owner: None, name });
    let listing = account.snapshots(&SnapshotsPage::default().limit(fields.page.limit).after(after)).await?;
    // Those of views follow the account's own.
    let own: Vec<&Snapshot> = listing.items.iter().take_while(|snapshot| snapshot.owner.is_none()).collect();
    let items = own.iter().copied().map(SnapshotItem::of).collect();
    let last = own.last().filter(|_| listing.more && own.len() == listing.items.len());
    Json::of(&ItemsPage::new(items, last.map(|last| &*last.name), &call.fields))
}

fields! {
    /// Removes a snapshot; history stays.
    pub(crate) struct RemoveFields<'a> {
        /// Name of the snapshot.
        name: Cow<'a, str> = string_of("snapshot");
        /// Reason for the commit, stored with it.
        message: Option<Cow<'a, str>> = string();
    }
}

pub(in crate::routes) async fn remove(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: RemoveFields<'_>,
) -> Result<Json<SnapshotChanged>, Refusal> {
    commit(account, call, (&*fields.name, fields.message.as_deref()), Op::drop_snapshot(&*fields.name)).await
}

/// Commits an operation on the snapshot of a name.
async fn commit(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    (name, message): (&str, Option<&str>),
    op: Op,
) -> Result<Json<SnapshotChanged>, Refusal> {
    let answer = Json::of(&SnapshotChanged::new(name))?.into_value();
    let batch = batch(call, message.unwrap_or_default()).op(op);
    let answered = call.once.answer_with(batch, answer, |batch| account.commit(batch)).await?;
    Ok(Json::recorded(answered))
}
