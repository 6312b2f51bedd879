//! `Arc` of a filesystem as a filesystem, so that `&Arc<dyn FileSystem>` is taken wherever `&dyn FileSystem`
//! is.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use super::capabilities::Capabilities;
use super::filesystem::{FileSystem, ViewBase};
use super::handle::{Incoming, OpenFile, OpenNode, Upload};
use crate::error::Result;
use crate::model::{
    At, Batch, Blame, ByteRange, Changes, ChangesQuery, Commit, CommitId, Confinement, Entry, Fetched,
    FindAnswer, FindQuery, Head, HistoryPage, KeyRecord, Listing, Moment, NamesPage, Page, SearchAnswer,
    SearchQuery, Seq, Snapshot, SnapshotsPage, StagedBody, Version, VersionId, Walk, WalkPage,
};
use crate::path::TreePath;

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Passes calls on to the filesystem behind the `Arc`. The signatures are those that `async_trait` makes of
/// the trait's: written with it, each call would box a second future around that of the filesystem.
macro_rules! pass_on {
    ($(fn $name:ident($($argument:ident: $(&$life:lifetime)? ($type:ty)),*) -> $answer:ty;)*) => {$(
        fn $name<'life0, $($($life,)?)* 'async_trait>(
            &'life0 self,
            $($argument: $(&$life)? $type),*
        ) -> Answer<'async_trait, $answer>
        where
            'life0: 'async_trait,
            $($($life: 'async_trait,)?)*
            Self: 'async_trait,
        {
            (**self).$name($($argument),*)
        }
    )*};
}

impl<T: FileSystem + ?Sized> FileSystem for Arc<T> {
    fn capabilities(&self, at: &TreePath) -> Capabilities {
        (**self).capabilities(at)
    }

    fn view_base(&self) -> &dyn ViewBase {
        (**self).view_base()
    }

    pass_on! {
        fn head() -> Head;
        fn stat(at: &'life1 (At)) -> Entry;
        fn names(at: &'life1 (At), page: &'life2 (NamesPage)) -> Listing<TreePath>;
        fn list(dir: &'life1 (At), page: &'life2 (Page)) -> Listing;
        fn walk(dir: &'life1 (At), page: &'life2 (WalkPage)) -> Walk;
        fn fetch(at: &'life1 (At), range: (ByteRange)) -> (Entry, Bytes);
        fn fetch_many(items: &'life1 ([(At, ByteRange)])) -> Fetched;
        fn read(at: &'life1 (At), range: (ByteRange)) -> Bytes;
        fn hold(at: &'life1 (At)) -> Arc<dyn OpenNode>;
        fn open(at: &'life1 (At)) -> Arc<dyn OpenFile>;
        fn open_version(version: (VersionId)) -> Arc<dyn OpenFile>;
        fn history(at: &'life1 (At), page: &'life2 (HistoryPage)) -> Listing<Version>;
        fn blame(at: &'life1 (At), range: (ByteRange), limit: (usize)) -> Blame;
        fn changes(query: &'life1 (ChangesQuery)) -> Changes;
        fn wait(since: (Seq)) -> Head;
        fn as_of(moment: &'life1 (Moment)) -> Arc<dyn FileSystem>;
        fn confined(to: &'life1 (Confinement)) -> Arc<dyn FileSystem>;
        fn snapshots(page: &'life1 (SnapshotsPage)) -> Listing<Snapshot>;
        fn search(query: &'life1 (SearchQuery)) -> SearchAnswer;
        fn find(query: &'life1 (FindQuery)) -> FindAnswer;
        fn stage(at: &'life1 (At)) -> Box<dyn Upload>;
        fn admit(at: &'life1 (At), content: &'life2 (Incoming)) -> ();
        fn discard(at: &'life1 (At), staged: &'life2 (StagedBody)) -> ();
        fn commit(batch: (Batch)) -> Commit;
        fn committed(id: (CommitId)) -> Option<Commit>;
        fn recorded(key: &'life1 (str)) -> Option<KeyRecord>;
        fn sync() -> Seq;
    }
}
