//! Macro that forwards calls of a [`FileSystem`](garth_engine::FileSystem) to the wrapped filesystem.

/// Implements methods of [`FileSystem`](garth_engine::FileSystem) and `ViewBase` by the same call on a field. It goes into the
/// implementation of a wrapper, which writes out the methods that do something else:
///
/// ```text
/// #[derive(Debug)]
/// struct ReadOnly {
///     inner: Arc<dyn FileSystem>,
/// }
///
/// #[async_trait]
/// impl FileSystem for ReadOnly {
///     forward_filesystem!(inner: capabilities head stat names list walk fetch fetch_many hold open
///         open_version history blame changes wait as_of confined snapshots search find stage committed
///         recorded sync);
///
///     async fn commit(&self, _batch: Batch) -> Result<Commit> {
///         Err(Error::new(ErrorKind::ReadOnly, "nothing is written here"))
///     }
///
///     fn view_base(&self) -> &dyn ViewBase {
///         self
///     }
/// }
///
/// impl ViewBase for ReadOnly {
///     forward_filesystem!(inner: lowering link_root);
/// }
/// ```
///
/// The compiler names a required method that is in neither place. `blame` and `find` have a default that
/// fails with `Unsupported`, so a wrapper that leaves them out lacks them. The other methods with a default
/// call those of the wrapper and are not forwarded: a forwarded `read` would pass by an overridden `fetch`.
macro_rules! forward_filesystem {
    ($inner:ident: $($method:ident)+) => {
        $($crate::fs::forward::forward_filesystem!(@method $inner $method);)+
    };
    (@method $inner:ident capabilities) => {
        fn capabilities(&self, at: &garth_engine::TreePath) -> garth_engine::Capabilities {
            self.$inner.capabilities(at)
        }
    };
    (@method $inner:ident lowering) => {
        fn lowering(&self) -> Box<dyn garth_engine::Lowering> {
            self.$inner.view_base().lowering()
        }
    };
    (@method $inner:ident link_root) => {
        fn link_root(&self, link: &garth_engine::TreePath) -> garth_engine::TreePath {
            self.$inner.view_base().link_root(link)
        }
    };
    (@method $inner:ident head) => {
        $crate::fs::forward::forward_filesystem!(@async $inner head<>() -> garth_engine::model::Head);
    };
    (@method $inner:ident stat) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner stat<'a>(at: &'a garth_engine::model::At) -> garth_engine::model::Entry
        );
    };
    (@method $inner:ident names) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner names<'a, 'b>(at: &'a garth_engine::model::At, page: &'b garth_engine::model::NamesPage)
                -> garth_engine::model::Listing<garth_engine::TreePath>
        );
    };
    (@method $inner:ident list) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner list<'a, 'b>(dir: &'a garth_engine::model::At, page: &'b garth_engine::model::Page)
                -> garth_engine::model::Listing
        );
    };
    (@method $inner:ident walk) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner walk<'a, 'b>(dir: &'a garth_engine::model::At, page: &'b garth_engine::model::WalkPage)
                -> garth_engine::model::Walk
        );
    };
    (@method $inner:ident fetch) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner fetch<'a>(at: &'a garth_engine::model::At, range: garth_engine::model::ByteRange)
                -> (garth_engine::model::Entry, bytes::Bytes)
        );
    };
    (@method $inner:ident fetch_many) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner fetch_many<'a>(items: &'a [(garth_engine::model::At, garth_engine::model::ByteRange)])
                -> garth_engine::model::Fetched
        );
    };
    (@method $inner:ident hold) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner hold<'a>(at: &'a garth_engine::model::At) -> std::sync::Arc<dyn garth_engine::OpenNode>
        );
    };
    (@method $inner:ident open) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner open<'a>(at: &'a garth_engine::model::At) -> std::sync::Arc<dyn garth_engine::OpenFile>
        );
    };
    (@method $inner:ident open_version) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner open_version<>(version: garth_engine::model::VersionId)
                -> std::sync::Arc<dyn garth_engine::OpenFile>
        );
    };
    (@method $inner:ident history) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner history<'a, 'b>(at: &'a garth_engine::model::At, page: &'b garth_engine::model::HistoryPage)
                -> garth_engine::model::Listing<garth_engine::model::Version>
        );
    };
    (@method $inner:ident blame) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner blame<'a>(at: &'a garth_engine::model::At, range: garth_engine::model::ByteRange, limit: usize)
                -> garth_engine::model::Blame
        );
    };
    (@method $inner:ident changes) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner changes<'a>(query: &'a garth_engine::model::ChangesQuery) -> garth_engine::model::Changes
        );
    };
    (@method $inner:ident wait) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner wait<>(since: garth_engine::model::Seq) -> garth_engine::model::Head
        );
    };
    (@method $inner:ident as_of) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner as_of<'a>(moment: &'a garth_engine::model::Moment)
                -> std::sync::Arc<dyn garth_engine::FileSystem>
        );
    };
    (@method $inner:ident confined) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner confined<'a>(to: &'a garth_engine::model::Confinement)
                -> std::sync::Arc<dyn garth_engine::FileSystem>
        );
    };
    (@method $inner:ident snapshots) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner snapshots<'a>(page: &'a garth_engine::model::SnapshotsPage)
                -> garth_engine::model::Listing<garth_engine::model::Snapshot>
        );
    };
    (@method $inner:ident search) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner search<'a>(query: &'a garth_engine::model::SearchQuery) -> garth_engine::model::SearchAnswer
        );
    };
    (@method $inner:ident find) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner find<'a>(query: &'a garth_engine::model::FindQuery) -> garth_engine::model::FindAnswer
        );
    };
    (@method $inner:ident stage) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner stage<'a>(at: &'a garth_engine::model::At) -> Box<dyn garth_engine::Upload>
        );
    };
    (@method $inner:ident commit) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner commit<>(batch: garth_engine::model::Batch) -> garth_engine::model::Commit
        );
    };
    (@method $inner:ident committed) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner committed<>(id: garth_engine::model::CommitId) -> Option<garth_engine::model::Commit>
        );
    };
    (@method $inner:ident recorded) => {
        $crate::fs::forward::forward_filesystem!(
            @async $inner recorded<'a>(key: &'a str) -> Option<garth_engine::model::KeyRecord>
        );
    };
    (@method $inner:ident sync) => {
        $crate::fs::forward::forward_filesystem!(@async $inner sync<>() -> garth_engine::model::Seq);
    };
    // The form that `async_trait` gives to a method. The attribute does not see what a macro inside of its
    // implementation expands to, so this writes it out: one lifetime for each reference, all outliving
    // `'call`.
    (@async $inner:ident $method:ident<$($life:lifetime),*>($($arg:ident: $type:ty),*) -> $answer:ty) => {
        fn $method<'fs, $($life,)* 'call>(
            &'fs self,
            $($arg: $type),*
        ) -> std::pin::Pin<Box<dyn Future<Output = garth_engine::Result<$answer>> + Send + 'call>>
        where
            'fs: 'call,
            $($life: 'call,)*
            Self: 'call,
        {
            self.$inner.$method($($arg),*)
        }
    };
}

pub(crate) use forward_filesystem;
