//! Snapshots of an account over HTTP.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::AccountStore;
use garth_engine::model::{Batch, MAX_PAGE, Op, Owner, SnapshotKey, SnapshotsPage};

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
    let op = Op::snapshot(&*fields.name);
    commit(account, call, (&fields.name, fields.message.as_deref()), None, op).await
}

fields! {
    /// Lists the snapshots of the account, ordered by name, then those of agents, keys and views with their
    /// owners, ordered by owner and name.
    pub(crate) struct ListFields<'a> {
        ..page: Page<MAX_PAGE, 1000>;
    }
}

pub(in crate::routes) async fn list(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Json<ItemsPage<SnapshotItem>>, Refusal> {
    let after = fields.page.cursor.as_deref().map(key_at).transpose()?;
    let listing = account.snapshots(&SnapshotsPage::default().limit(fields.page.limit).after(after)).await?;
    let items = listing.items.iter().map(SnapshotItem::of).collect();
    let next = listing.items.last().filter(|_| listing.more).map(|last| position(&last.key()));
    Json::of(&ItemsPage::new(items, next.as_deref(), &call.fields))
}

/// Returns the position of a snapshot in the list. Its name has no line break.
fn position(key: &SnapshotKey) -> String {
    match &key.owner {
        None => key.name.clone(),
        Some(owner) => format!("{owner}\n{}", key.name),
    }
}

/// Returns the snapshot at a position.
fn key_at(position: &str) -> Result<SnapshotKey, Refusal> {
    Ok(match position.rsplit_once('\n') {
        None => SnapshotKey { owner: None, name: position.to_owned() },
        Some((owner, name)) => SnapshotKey { owner: Some(Owner::parse(owner)?), name: name.to_owned() },
    })
}

fields! {
    /// Removes a snapshot; history stays.
    pub(crate) struct RemoveFields<'a> {
        /// Name of the snapshot.
        name: Cow<'a, str> = string_of("snapshot");
        /// Owner of the snapshot, as the list shows it. Default: the account.
        owner: Option<Cow<'a, str>> = string();
        /// Reason for the commit, stored with it.
        message: Option<Cow<'a, str>> = string();
    }
}

pub(in crate::routes) async fn remove(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: RemoveFields<'_>,
) -> Result<Json<SnapshotChanged>, Refusal> {
    let owner = fields.owner.as_deref().map(Owner::parse).transpose();
    let owner = owner.map_err(|error| Refusal::from(error).about(format_args!("\"owner\"")))?;
    let op = Op::drop_snapshot(&*fields.name);
    commit(account, call, (&fields.name, fields.message.as_deref()), owner, op).await
}

/// Commits an operation on the snapshot of a name and an owner.
async fn commit(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    (name, message): (&str, Option<&str>),
    owner: Option<Owner>,
    op: Op,
) -> Result<Json<SnapshotChanged>, Refusal> {
    let answer = Json::of(&SnapshotChanged::new(name))?.into_value();
    let batch = Batch { owner, ..batch(call, message.unwrap_or_default()).op(op) };
    let answered = call.once.answer_with(batch, answer, |batch| account.commit(batch)).await?;
    Ok(Json::recorded(answered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_name_owner_and_snapshot() {
        let owner = Owner::new("a > b").and_then(|inner| inner.inside(Some(&Owner::new("agent")?)));
        for owner in [None, owner.ok()] {
            let key = SnapshotKey { owner, name: "before".to_owned() };
            assert_eq!(key_at(&position(&key)).unwrap(), key);
        }
    }
}
