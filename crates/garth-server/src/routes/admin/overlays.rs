//! Overlays of an account over HTTP.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{Batch, MAX_PAGE, NamesPage, Page as TreePage};
use garth_engine::view::overlay::{LowerLayer, Side, StoredOverlay};
use garth_engine::{AccountStore, Error, ErrorKind, Name};

use super::answers::{OverlayApplied, OverlayChange, OverlayCreated, OverlayDiscarded, OverlayItem};
use super::commits::batch;
use crate::errors::Refusal;
use crate::fields::{Page, fields, moment, shell_path_field, stored_path, string, string_of, words};
use crate::routes::call::Call;
use crate::routes::respond::Json;
use crate::wire::ItemsPage;

fields! {
    /// Creates an overlay over a directory of the account: a copy-on-write view with changes of its own.
    pub(crate) struct CreateFields<'a> {
        /// Id of the overlay: 1 to 128 bytes, without `/` and control characters.
        id: Cow<'a, str> = string_of("id");
        /// Directory that the overlay shows.
        path: Cow<'a, str> = string_of("path"), or Cow::Borrowed("/");
        /// Time, sequence or snapshot whose state the overlay shows. Default: it follows the directory.
        at: Option<Cow<'a, str>> = moment();
        /// Reason for the commit, stored with it.
        message: Option<Cow<'a, str>> = string();
    }
}

pub(in crate::routes) async fn create(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: CreateFields<'_>,
) -> Result<Json<OverlayCreated>, Refusal> {
    // The directory of the first attempt may be gone, and a time may mean another state now.
    if let Some(answer) = call.once.recorded_answer()? {
        return Ok(Json::recorded(answer));
    }
    let as_of = match call.moment_of(fields.at.as_deref()).await? {
        Some(moment) => Some(account.as_of(&moment).await?.head().await?.seq),
        None => None,
    };
    let path = shell_path_field("path", &fields.path)?;
    let root = resolve::resolve(&**account, path, Follow::Yes).await.map_err(refused)?;
    let lower = LowerLayer { root, as_of };
    let (id, lower) = (&*fields.id, &lower);
    let answer = Json::of(&OverlayCreated::new(id, lower))?.into_value();
    let batch = batch_of(call, fields.message.as_deref(), || format!("create overlay {id}")).by_garth();
    let created = call.once.answer_with(batch, answer, |batch| async move {
        StoredOverlay::create(&**account, id, lower, &batch).await
    });
    created.await.map(Json::recorded).map_err(refused)
}

/// Returns a batch without operations, in the name of the caller.
fn batch_of(call: &Call<'_>, message: Option<&str>, default: impl FnOnce() -> String) -> Batch {
    let message = message.map_or_else(|| Cow::Owned(default()), Cow::Borrowed);
    batch(call, &message)
}

fields! {
    /// Lists the overlays of the account, ordered by id.
    pub(crate) struct ListFields<'a> {
        ..page: Page<MAX_PAGE, 100>;
    }
}

pub(in crate::routes) async fn list(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Json<ItemsPage<OverlayItem>>, Refusal> {
    let after = fields.page.cursor.as_deref().map(Name::parse).transpose().map_err(|_| Refusal::cursor())?;
    let page = TreePage::default().limit(fields.page.limit).after(after);
    let listing = StoredOverlay::list(&**account, &page).await?;
    let items = listing.items.iter().map(OverlayItem::of).collect();
    let last = listing.items.last().filter(|_| listing.more);
    Json::of(&ItemsPage::new(items, last.map(|last| &*last.id), &call.fields))
}

fields! {
    /// Lists the paths that an overlay has changed, ordered by path.
    pub(crate) struct DiffFields<'a> {
        /// Id of the overlay.
        id: Cow<'a, str> = string_of("id");
        ..page: Page<MAX_PAGE, 1000>;
    }
}

pub(in crate::routes) async fn diff(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: DiffFields<'_>,
) -> Result<Json<ItemsPage<OverlayChange>>, Refusal> {
    let after = fields.page.cursor.as_deref().map(stored_path).transpose()?;
    let stored = StoredOverlay::open(&**account, &fields.id).await?;
    let listing = stored.diff(&NamesPage::default().limit(fields.page.limit).after(after)).await?;
    let items = listing.items.iter().map(OverlayChange::of).collect();
    let last = listing.items.last().filter(|_| listing.more);
    Json::of(&ItemsPage::new(items, last.map(|last| last.path.as_str()), &call.fields))
}

fields! {
    /// Applies the changes of an overlay to the account, in one commit that also empties the overlay.
    pub(crate) struct ApplyFields<'a> {
        /// Id of the overlay.
        id: Cow<'a, str> = string_of("id");
        /// Side that conflicts are resolved with: `ours` is the overlay, `theirs` the account. Default: a
        /// conflict applies nothing.
        side: Option<Cow<'a, str>> = words(&["ours", "theirs"]);
        /// Reason for the commit, stored with it.
        message: Option<Cow<'a, str>> = string();
    }
}

pub(in crate::routes) async fn apply(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: ApplyFields<'_>,
) -> Result<Json<OverlayApplied>, Refusal> {
    let id = &*fields.id;
    let side = match fields.side.as_deref() {
        Some("ours") => Side::Ours,
        Some(_) => Side::Theirs,
        None => Side::Neither,
    };
    // Not `by_garth`: drafts hold what clients wrote, and rules reserve some fields and lines for garth.
    let batch = batch_of(call, fields.message.as_deref(), || format!("apply overlay {id}"));
    let template = &batch;
    let applying = async {
        let stored = StoredOverlay::open(&**account, id).await?;
        let applied = stored.apply(side, template).await.map_err(unapplied)?;
        Ok::<_, Refusal>(Json::of(&OverlayApplied::of(id, &applied))?.into_value())
    };
    // The number of changes is known only after the commit, so the record follows it. A repeat without the
    // record finds an empty overlay.
    call.once.answer_after(&**account, batch.clone(), applying).await.map(Json::recorded)
}

/// Returns the refusal of an error, with the path that it is about.
fn refused(error: Error) -> Refusal {
    Refusal::from(error).naming_path()
}

/// Explains how to resolve a conflict.
fn unapplied(error: Error) -> Refusal {
    let is_conflict = error.is(ErrorKind::Conflict) && error.path().is_some();
    let refusal = refused(error);
    match is_conflict {
        true => refusal.advising("\"side\": \"ours\" takes the overlay's side, \"theirs\" the account's"),
        false => refusal,
    }
}

fields! {
    /// Removes an overlay and its changes.
    pub(crate) struct DiscardFields<'a> {
        /// Id of the overlay.
        id: Cow<'a, str> = string_of("id");
        /// Reason for the commit, stored with it.
        message: Option<Cow<'a, str>> = string();
    }
}

pub(in crate::routes) async fn discard(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: DiscardFields<'_>,
) -> Result<Json<OverlayDiscarded>, Refusal> {
    let id = &*fields.id;
    let batch = batch_of(call, fields.message.as_deref(), || format!("discard overlay {id}")).by_garth();
    let answer = Json::of(&OverlayDiscarded::new(id))?.into_value();
    let discarded = call.once.answer_with(batch, answer, |batch| async move {
        StoredOverlay::discard(&**account, id, &batch).await
    });
    Ok(Json::recorded(discarded.await?))
}
