//! Convenience methods of [`FileSystem`] for frequent calls.

use std::future::Future;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};

use super::FileSystem;
use crate::error::{Error, ErrorKind, OptionalExt as _, Result};
use crate::model::{
    Batch, Body, ByteRange, ChangesQuery, Commit, CommitChanges, Entry, IntoAt, Item, KeySpace, Listing,
    MAX_INLINE_BODY, MAX_PAGE, MAX_READ, NamesPage, Op, Outcome, Page, Seq, SetAttrs, Snapshot,
    SnapshotsPage, VersionId, WalkItem, WalkPage,
};
use crate::path::TreePath;

/// Convenience methods for every [`FileSystem`]. An address is a path as text, a [`TreePath`], an
/// [`Ino`](crate::model::Ino) or an [`At`](crate::model::At). Links are not followed (see
/// [`crate::fs::resolve`]).
///
/// Each write is one durable commit without author and message, and returns the version that it created. To
/// set author, message, conditions or durability, [`commit`](FileSystem::commit) a [`Batch`].
///
/// ```
/// # use garth_engine as garth;
/// use futures::TryStreamExt;
/// use garth::{Env, FileSystemExt};
///
/// # futures::executor::block_on(async {
/// let fs = garth::engine::memory::MemoryFs::new(Env::system(), garth::rule::Registry::empty());
/// fs.mkdir_all("/notes").await?;
/// fs.write("/notes/alice.md", "She likes her coffee black.\n").await?;
/// fs.append("/notes/alice.md", "She works nights.\n").await?;
/// fs.rename("/notes/alice.md", "/notes/a.md").await?;
///
/// assert_eq!(fs.read_to_string("/notes/a.md").await?, "She likes her coffee black.\nShe works nights.\n");
/// assert!(!fs.exists("/notes/alice.md").await?);
/// let names: Vec<_> = fs.read_dir("/notes").map_ok(|item| item.name.to_string()).try_collect().await?;
/// assert_eq!(names, ["a.md"]);
/// # Ok::<(), garth::Error>(()) }).unwrap();
/// ```
pub trait FileSystemExt: FileSystem {
    /// Returns the key space of this handle, for idempotency keys that stay its own whichever view of its
    /// tree commits them. `None` for a tree without a log.
    fn key_space(&self) -> Option<KeySpace> {
        self.view_base().lowering().home().keys
    }

    /// Returns a node: [`FileSystem::stat`] for any form of address.
    ///
    /// # Errors
    /// Errors of a lookup: `NotFound`, `NotADirectory`.
    fn entry(&self, at: impl IntoAt) -> impl Future<Output = Result<Entry>> + Send {
        let at = at.into_at();
        async move { self.stat(&at?).await }
    }

    /// Returns a node; `None` if it is missing.
    ///
    /// # Errors
    /// Errors of the storage.
    fn lookup(&self, at: impl IntoAt) -> impl Future<Output = Result<Option<Entry>>> + Send {
        let at = at.into_at();
        async move { self.stat(&at?).await.optional() }
    }

    /// Returns true if a node exists, including a link whose target is missing.
    ///
    /// # Errors
    /// Errors of the storage.
    fn exists(&self, at: impl IntoAt) -> impl Future<Output = Result<bool>> + Send {
        let found = self.lookup(at);
        async move { Ok(found.await?.is_some()) }
    }

    /// Reads the complete content of one version of a file into memory. [`FileSystem::open`] and
    /// [`stream`](super::OpenFile::stream) read a large file in pieces.
    ///
    /// # Errors
    /// As [`FileSystem::fetch`]; `Stale` if a file without versions changes while it is read.
    fn read_file(&self, at: impl IntoAt) -> impl Future<Output = Result<Bytes>> + Send {
        let at = at.into_at();
        async move {
            let at = at?;
            let first = ByteRange { offset: 0, length: MAX_READ as u64 };
            let (entry, bytes) = self.fetch(&at, first).await?;
            // The usual file fits into one read. Only a longer one needs a handle.
            if entry.size == bytes.len() as u64 {
                return Ok(bytes);
            }
            let (file, may_change) = match self.open_version(entry.version).await {
                Err(error) if error.is(ErrorKind::Unsupported) => (self.open(&at).await?, true),
                file => (file?, false),
            };
            let source = Arc::clone(&file);
            let rest = file.stream((bytes.len() as u64..).into());
            let whole = rest.try_fold(BytesMut::from(bytes), |mut whole, piece| async move {
                whole.extend_from_slice(&piece);
                Ok(whole)
            });
            let whole = whole.await?.freeze();
            // Without versions the handle reads whatever the file has at the time of each read.
            if may_change && source.stat().await?.etag != entry.etag {
                return Err(Error::new(ErrorKind::Stale, "the file changed while it was read; try again"));
            }
            Ok(whole)
        }
    }

    /// Reads the complete content of a text file: [`FileSystemExt::read_file`] as UTF-8.
    ///
    /// # Errors
    /// As `read_file`; `InvalidArgument` if the file is not UTF-8.
    fn read_to_string(&self, at: impl IntoAt) -> impl Future<Output = Result<String>> + Send {
        let bytes = self.read_file(at);
        async move {
            String::from_utf8(bytes.await?.into())
                .map_err(|error| Error::invalid("the file is not UTF-8 text").with_source(error))
        }
    }

    /// Streams all names of a directory with their entries, in byte order. Each page is read at its own time;
    /// over [`FileSystem::as_of`] all pages are of one state.
    fn read_dir(&self, dir: impl IntoAt) -> BoxStream<'_, Result<Item>> {
        let dir = dir.into_at();
        let read = move |page| {
            let dir = dir.clone();
            async move { self.list(&dir?, &page).await }
        };
        paged(Page::default().with_entries(), read, |page, item| page.after = Some(item.name.clone()))
    }

    /// Streams all paths below a directory with their entries, in the order of [`FileSystem::walk`]. Each
    /// page is read at its own time; over [`FileSystem::as_of`] all pages are of one state.
    fn walk_all(&self, dir: impl IntoAt) -> BoxStream<'_, Result<WalkItem>> {
        let dir = dir.into_at();
        let read = move |page| {
            let dir = dir.clone();
            async move { self.walk(&dir?, &page).await }
        };
        paged(WalkPage::default().with_entries(), read, |page, item| page.after = Some(item.path.clone()))
    }

    /// Streams all paths of a node, in the order of [`FileSystem::names`], read page by page.
    fn all_names(&self, at: impl IntoAt) -> BoxStream<'_, Result<TreePath>> {
        let at = at.into_at();
        let read = move |page| {
            let at = at.clone();
            async move { self.names(&at?, &page).await }
        };
        paged(NamesPage::default(), read, |page, name| page.after = Some(name.clone()))
    }

    /// Streams all snapshots by name in byte order, read page by page.
    fn all_snapshots(&self) -> BoxStream<'_, Result<Snapshot>> {
        let read = move |page| async move { self.snapshots(&page).await };
        paged(SnapshotsPage::default(), read, |page, snapshot| page.after = Some(snapshot.key()))
    }

    /// Returns a commit with all of its changes, however many they are.
    ///
    /// # Errors
    /// `NotFound` for an unknown commit; `Gone` for that of the oldest readable state, and for earlier ones;
    /// as [`FileSystem::changes`].
    fn changes_of(&self, seq: Seq) -> impl Future<Output = Result<CommitChanges>> + Send {
        async move {
            let whole = whole_commit(self, seq).await;
            let oldest = whole.as_ref().err().and_then(Error::oldest);
            match oldest {
                Some(oldest) if seq.0 <= oldest => Err(changes_gone(self, seq, Seq(oldest)).await),
                _ => whole,
            }
        }
    }

    /// Commits one operation.
    ///
    /// # Errors
    /// As [`FileSystem::commit`].
    fn apply(&self, op: Op) -> impl Future<Output = Result<(Commit, Outcome)>> + Send {
        async move {
            let commit = self.commit(op.into()).await?;
            let outcome =
                commit.outcomes.first().copied().unwrap_or(Outcome::unchanged(commit.version(0), 0));
            Ok((commit, outcome))
        }
    }

    /// Writes a complete file. Creates a missing file, but not its parents.
    ///
    /// # Errors
    /// As [`Op::Write`].
    fn write(
        &self,
        at: impl IntoAt,
        content: impl Into<Bytes>,
    ) -> impl Future<Output = Result<VersionId>> + Send {
        let (at, content) = (at.into_at(), content.into());
        async move {
            let at = at?;
            let body = self.body(&at, content).await?;
            version(self, Op::write(at, body)).await
        }
    }

    /// Appends to a file. Creates a missing file, but not its parents.
    ///
    /// # Errors
    /// As [`Op::Append`].
    fn append(
        &self,
        at: impl IntoAt,
        content: impl Into<Bytes>,
    ) -> impl Future<Output = Result<VersionId>> + Send {
        let (at, content) = (at.into_at(), content.into());
        async move {
            let at = at?;
            let body = self.body(&at, content).await?;
            version(self, Op::append(at, body)).await
        }
    }

    /// Creates a directory and its parents (`mkdir -p`). If it exists, commits nothing and returns its
    /// version.
    ///
    /// # Errors
    /// As [`Op::Mkdir`].
    fn mkdir_all(&self, at: impl IntoAt) -> impl Future<Output = Result<VersionId>> + Send {
        let at = at.into_at();
        async move {
            let at = at?;
            // A commit takes a sequence number even if it changes nothing.
            match self.lookup(&at).await? {
                Some(entry) if entry.is_dir() => Ok(entry.version),
                _ => version(self, Op::mkdir_all(at)).await,
            }
        }
    }

    /// Removes a file, link or empty directory.
    ///
    /// # Errors
    /// `NotFound`; `NotEmpty`; as [`Op::Remove`].
    fn remove(&self, at: impl IntoAt) -> impl Future<Output = Result<VersionId>> + Send {
        let at = at.into_at();
        async move { version(self, Op::remove(at?)).await }
    }

    /// Removes a node with everything below it (`rm -r`), in one commit. Its history stays.
    ///
    /// # Errors
    /// `NotFound`; as [`Op::Remove`].
    fn remove_tree(&self, at: impl IntoAt) -> impl Future<Output = Result<VersionId>> + Send {
        let at = at.into_at();
        async move { version(self, Op::remove_tree(at?)).await }
    }

    /// Renames or moves a node. Replaces a file or an empty directory of the new name, as POSIX does.
    ///
    /// # Errors
    /// As [`Op::Rename`].
    fn rename(&self, from: impl IntoAt, to: impl IntoAt) -> impl Future<Output = Result<VersionId>> + Send {
        let (from, to) = (from.into_at(), to.into_at());
        async move { version(self, Op::rename(from?, to?)).await }
    }

    /// Copies a node, a directory with everything below it (`cp -a`), in one commit and without copying
    /// bytes.
    ///
    /// # Errors
    /// `AlreadyExists` if `to` is taken; as [`Op::Copy`].
    fn copy(&self, from: impl IntoAt, to: impl IntoAt) -> impl Future<Output = Result<VersionId>> + Send {
        let (from, to) = (from.into_at(), to.into_at());
        async move { version(self, Op::copy_tree(from?, to?)).await }
    }

    /// Creates a symbolic link to `target`.
    ///
    /// # Errors
    /// As [`Op::Symlink`].
    fn symlink(
        &self,
        at: impl IntoAt,
        target: impl Into<String>,
    ) -> impl Future<Output = Result<VersionId>> + Send {
        let (at, target) = (at.into_at(), target.into());
        async move { version(self, Op::symlink(at?, target)).await }
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// As [`Op::SetAttrs`].
    fn set_attrs(&self, at: impl IntoAt, attrs: SetAttrs) -> impl Future<Output = Result<VersionId>> + Send {
        let at = at.into_at();
        async move { version(self, Op::set_attrs(at?, attrs)).await }
    }

    /// Returns a body for an operation of a batch at `at`: in memory if it is short, staged otherwise.
    ///
    /// # Errors
    /// As [`FileSystem::stage`].
    fn body(&self, at: impl IntoAt, content: impl Into<Bytes>) -> impl Future<Output = Result<Body>> + Send {
        let (at, content) = (at.into_at(), content.into());
        async move {
            // A batch holds no more content than that.
            if content.len() <= MAX_INLINE_BODY {
                return Ok(Body::Bytes(content));
            }
            let mut upload = self.stage(&at?).await?;
            upload.write(content).await?;
            Ok(Body::Staged(upload.finish().await?))
        }
    }
}

impl<T: FileSystem + ?Sized> FileSystemExt for T {}

/// Streams all items page by page, starting with `page`. `go_on` puts the last item read into the next page.
fn paged<'a, P, T, F>(
    page: P,
    mut read: impl FnMut(P) -> F + Send + 'a,
    go_on: fn(&mut P, &T),
) -> BoxStream<'a, Result<T>>
where
    P: Clone + Send + 'a,
    T: Send + 'a,
    F: Future<Output = Result<Listing<T>>> + Send + 'a,
{
    let pages = stream::try_unfold(Some(page), move |page| {
        // Called before the future is built, which must not borrow `read`.
        let reading = page.clone().map(&mut read);
        async move {
            let (Some(mut page), Some(reading)) = (page, reading) else { return Ok(None) };
            let Listing { items, more } = reading.await?;
            let last = items.last().filter(|_| more);
            let next = last.map(|last| {
                go_on(&mut page, last);
                page
            });
            Ok::<_, Error>(Some((stream::iter(items.into_iter().map(Ok)), next)))
        }
    });
    pages.try_flatten().boxed()
}

/// Returns a commit with all of its changes.
async fn whole_commit<F: FileSystem + ?Sized>(fs: &F, seq: Seq) -> Result<CommitChanges> {
    // In the state of the commit, the log ends with it.
    let then = fs.as_of(&seq.into()).await?;
    let mut query = ChangesQuery::since(Seq(seq.0.saturating_sub(1))).limit(MAX_PAGE);
    let mut whole: Option<CommitChanges> = None;
    loop {
        let page = then.changes(&query).await?;
        for part in page.commits {
            match &mut whole {
                Some(whole) => whole.changes.extend(part.changes),
                None => whole = Some(part),
            }
        }
        if page.until.seq >= seq {
            let missing = || Error::new(ErrorKind::NotFound, format!("there is no commit {seq}"));
            return whole.ok_or_else(missing);
        }
        query.since = page.until;
    }
}

/// Returns the error for the changes of a commit up to that of the oldest readable state. It names the first
/// commit of the tree that can be asked for: `oldest` itself has a state, but its changes are gone.
async fn changes_gone<F: FileSystem + ?Sized>(fs: &F, seq: Seq, oldest: Seq) -> Error {
    let later = fs.changes(&ChangesQuery::since(oldest).limit(1)).await;
    let first = later.ok().and_then(|page| Some(page.commits.first()?.commit.seq));
    let advice = match first {
        Some(first) => format!("ask for {first} or later"),
        None => "ask for a later commit".to_owned(),
    };
    let message = format!("the changes of commit {seq} are no longer stored; {advice}");
    Error::new(ErrorKind::Gone, message)
}

/// Commits one operation and returns the version that it created.
async fn version<F: FileSystem + ?Sized>(fs: &F, op: Op) -> Result<VersionId> {
    Ok(fs.commit(Batch::from(op)).await?.version(0))
}
