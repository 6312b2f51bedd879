//! Calls that list names: of a node, of a directory, below a directory, and of snapshots.

use std::sync::Arc;

use bytes::Bytes;
use garth_engine::model::{NamesPage, Page, Snapshot, SnapshotKey, SnapshotsPage};
use garth_engine::{FileSystem, Name, TreePath};

use super::address::Address;
use super::answer::page;
use super::paging::Paged;
use crate::errors::Refusal;
use crate::fields::{fields, flag, stored_path};
use crate::routes::call::Call;

/// Limit on the names of a page.
const MAX_NAMES: usize = 10_000;
/// Default limit on the names of a page.
const DEFAULT_NAMES: usize = 1000;
/// Limit on the snapshots of a page.
const MAX_SNAPSHOTS: usize = 1000;

fields! {
    /// Returns the paths of a node.
    pub(crate) struct NamesFields<'a> {
        ..address: Address;
        ..page: Paged<MAX_NAMES, DEFAULT_NAMES>;
    }
}

pub(in crate::routes) async fn names(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: NamesFields<'_>,
) -> Result<Bytes, Refusal> {
    let start = fields.page.start(fs, call).await?;
    let after = start.after.as_deref().map(stored_path).transpose()?;
    let asked = NamesPage::default().after(after).limit(fields.page.limit);
    let (fs, asked) = (&*start.fs, &asked);
    let found = fields.address.of(call).run(fs, |at| async move { fs.names(&at, asked).await }).await?;
    page(&found.items, found.more, |path: &TreePath| start.cursor(call, path.as_str()))
}

fields! {
    /// Lists a directory.
    pub(crate) struct ListFields<'a> {
        /// `true` returns the complete node of each name.
        entries: bool = flag(), or false;
        ..address: Address;
        ..page: Paged<MAX_NAMES, DEFAULT_NAMES>;
    }
}

pub(in crate::routes) async fn list(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Bytes, Refusal> {
    let start = fields.page.start(fs, call).await?;
    let name = |text: &str| Name::parse(text).map_err(|_| Refusal::cursor());
    let after = start.after.as_deref().map(name).transpose()?;
    let asked = asked(after, fields.page.limit, fields.entries);
    let (fs, asked) = (&*start.fs, &asked);
    let found = fields.address.of(call).run(fs, |at| async move { fs.list(&at, asked).await }).await?;
    page(&found.items, found.more, |item| start.cursor(call, item.name.as_str()))
}

fields! {
    /// Lists everything below a directory.
    pub(crate) struct WalkFields<'a> {
        /// `true` returns the complete node of each path.
        entries: bool = flag(), or false;
        ..address: Address;
        ..page: Paged<MAX_NAMES, DEFAULT_NAMES>;
    }
}

pub(in crate::routes) async fn walk(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: WalkFields<'_>,
) -> Result<Bytes, Refusal> {
    let start = fields.page.start(fs, call).await?;
    let after = start.after.as_deref().map(stored_path).transpose()?;
    let asked = asked(after, fields.page.limit, fields.entries);
    let (fs, asked) = (&*start.fs, &asked);
    let found = fields.address.of(call).run(fs, |at| async move { fs.walk(&at, asked).await }).await?;
    page(&found.items, found.more, |item| start.cursor(call, item.path.as_str()))
}

fn asked<K>(after: Option<K>, limit: usize, entries: bool) -> Page<K> {
    let page = Page::<K>::default().after(after).limit(limit);
    if entries { page.with_entries() } else { page }
}

fields! {
    /// Lists the snapshots of a tree, by name.
    pub(crate) struct SnapshotsFields<'a> {
        ..page: Paged<MAX_SNAPSHOTS, MAX_SNAPSHOTS>;
    }
}

pub(in crate::routes) async fn snapshots(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: SnapshotsFields<'_>,
) -> Result<Bytes, Refusal> {
    let start = fields.page.start(fs, call).await?;
    // The trees of this API are confined, so they show only snapshots of their own.
    let after = start.after.clone().map(|name| SnapshotKey { owner: None, name });
    let found = start.fs.snapshots(&SnapshotsPage::default().after(after).limit(fields.page.limit)).await?;
    page(&found.items, found.more, |snapshot: &Snapshot| start.cursor(call, &snapshot.name))
}
