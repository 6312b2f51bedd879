//! Content of any size: written from a stream in one commit, uploaded for a later commit, or removed.
//! Conditions, rules about paths, sizes and quotas are judged in the commit. They are looked at before the
//! stream, and after it as well, so that a refused write stores nothing. Content that the commit refuses
//! nonetheless is given up.

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt as _};
use serde::{Deserialize, Serialize};

use super::expected::Expected;
use super::handle::Files;
use crate::free_name::at_free_name;
use crate::once::{Once, Outcome, PENDING, discard};
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::fs::{Incoming, Upload};
use garth_engine::model::{
    At, Batch, Body, Commit, Entry, Ino, Op, Precondition, Seq, SetAttrs, StagedBody, Timestamp, VersionId,
};
use garth_engine::path::TreePath;

/// Content up to this size is part of the commit. Longer content is uploaded first, which costs a second
/// transaction.
const INLINE: usize = 256 << 10;
/// Time in seconds after which an upload that no commit has used may be collected, 24 hours.
pub const UPLOAD_LIFETIME: i64 = 24 * 60 * 60;

/// Bytes after which content that arrives is judged again.
const STEP: u64 = 64 << 20;

/// Bytes after which content of unknown length is judged again. As many are counted ahead.
const UNKNOWN_STEP: u64 = 1 << 20;

/// Use of content that arrives, by which it is judged.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// A later commit, in a place that is not known yet.
    Later,
    /// A file, which had this size before.
    File(Part, u64),
}

/// Place for which content is staged, and its use.
struct Place {
    at: At,
    of: Use,
    /// True for a caller who may write files and not read them.
    writes_only: bool,
}

impl Place {
    /// Returns content of `length` bytes for this place, as it is judged, without what it takes of the room.
    fn incoming(&self, length: u64, room: u64) -> Incoming {
        let content = Incoming { length, size: length, room, ..Incoming::default() };
        let Use::File(part, before) = self.of else { return content };
        let size_after = |before: u64| match part {
            Part::Whole | Part::FreeName => length,
            Part::End => before.saturating_add(length),
            Part::From(offset) => before.max(offset.saturating_add(length)),
        };
        // A refusal by size would tell who only writes how long the file was.
        let size = size_after(if self.writes_only { 0 } else { before });
        Incoming { size, growth: size_after(before).saturating_sub(before), ..content }
    }
}

/// Upload in progress.
struct UploadProgress {
    upload: Box<dyn Upload>,
    /// Bytes that have arrived.
    arrived: u64,
    /// Number of bytes up to which the tree has admitted them.
    admitted: u64,
}

/// Content that has arrived.
enum Received {
    Short(Bytes),
    Long(UploadProgress),
}

/// Write of a file, without its content.
///
/// ```
/// use garth_agent::files::FileWrite;
/// use garth_engine::model::{Precondition, SetAttrs};
///
/// let page = FileWrite::replace().attrs(SetAttrs::new().content_type("text/html"));
/// let new = FileWrite::replace().require(Precondition::Absent);
/// let log = FileWrite::append();
/// # let _ = (page, new, log);
/// ```
#[derive(Clone, Debug)]
pub struct FileWrite {
    part: Part,
    attrs: SetAttrs,
    conditions: Vec<Precondition>,
}

/// Part of a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All of it.
    Whole,
    /// All of a new file, next to the path if that exists.
    FreeName,
    /// The end.
    End,
    /// From an offset.
    From(u64),
}

/// Outcome of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileWritten {
    /// Path of the file, without links.
    pub path: TreePath,
    /// Commit.
    pub seq: Seq,
    /// True if the write created the file.
    pub created: bool,
    /// Version of the content; `None` if the write left the content as it was.
    pub etag: Option<VersionId>,
    /// Version of the file.
    pub version: VersionId,
    /// Size of the file in bytes.
    pub size: u64,
}

/// Content that was uploaded for a later commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Uploaded {
    /// Content, as operations name it.
    pub staged: StagedBody,
    /// Time after which it may be collected.
    pub expires_at: Timestamp,
}

impl FileWrite {
    fn of(part: Part) -> Self {
        Self { part, attrs: SetAttrs::default(), conditions: Vec::new() }
    }

    /// Replaces the content of a file, or creates the file and its missing parents.
    pub fn replace() -> Self {
        Self::of(Part::Whole)
    }

    /// Creates a file and its missing parents. If the path exists, the file gets a free name next to it:
    /// `notes (2).md` for `notes.md`.
    pub fn free_name() -> Self {
        Self::of(Part::FreeName)
    }

    /// Adds content at the end of a file, or creates the file and its missing parents.
    pub fn append() -> Self {
        Self::of(Part::End)
    }

    /// Writes content from `offset` on into a file that exists. A gap before `offset` reads as zeros.
    pub fn at(offset: u64) -> Self {
        Self::of(Part::From(offset))
    }

    /// Sets attributes in the same commit.
    #[must_use]
    pub fn attrs(self, attrs: SetAttrs) -> Self {
        Self { attrs, ..self }
    }

    /// Adds a condition on the file, judged in the commit.
    #[must_use]
    pub fn require(mut self, condition: Precondition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Returns the treatment of a link at the path: a new name never leads through one.
    fn follow(&self) -> Follow {
        let is_new = self.part == Part::FreeName || self.conditions.contains(&Precondition::Absent);
        if is_new { Follow::No } else { Follow::Yes }
    }

    fn batch(&self, path: &TreePath, body: Body) -> Batch {
        let attrs = self.attrs.clone();
        let batch = match self.part {
            Part::Whole => Batch::new([Op::write(path, body).with_parents().with_attrs(attrs)]),
            Part::FreeName => {
                Batch::new([Op::write(path, body).with_parents().with_attrs(attrs).create_new()])
            }
            Part::End => with_attrs(Op::append(path, body).with_parents(), path, attrs),
            Part::From(offset) => with_attrs(Op::patch(path, offset, body), path, attrs),
        };
        let conditions = self.conditions.iter().cloned();
        conditions.fold(batch, |batch, condition| batch.require(path, condition))
    }
}

/// Returns a batch of an operation that takes no attributes, and one that sets them.
fn with_attrs(op: Op, path: &TreePath, attrs: SetAttrs) -> Batch {
    let batch = Batch::new([op]);
    if attrs == SetAttrs::default() { batch } else { batch.op(Op::set_attrs(path, attrs)) }
}

impl FileWritten {
    fn pending(path: TreePath) -> Self {
        let version = VersionId { seq: PENDING, ino: Ino::NONE };
        Self { path, seq: PENDING, created: false, etag: None, version, size: 0 }
    }
}

impl Outcome for FileWritten {
    fn committed(self, commit: &Commit) -> Self {
        // The first operation writes the content, another one sets attributes.
        let (Some(content), Some(last)) = (commit.outcomes.first(), commit.outcomes.last()) else {
            return Self { seq: commit.seq, ..self };
        };
        Self {
            path: self.path,
            seq: commit.seq,
            created: content.created,
            etag: content.changed.then_some(content.version),
            version: last.version,
            size: content.size,
        }
    }
}

impl Outcome for Uploaded {}

impl Files<'_> {
    /// Writes a file in one commit, with content of any size. Up to 1 MiB of it is in memory at a time. If
    /// the content breaks off, nothing is written.
    ///
    /// A link at the end of the path is followed, unless the file must be new.
    ///
    /// # Errors
    /// - `Conflict`: a condition does not hold.
    /// - `IsADirectory`; `NotFound` for a write at an offset of a missing file.
    /// - `TooLarge`, `RuleViolation`, `QuotaExceeded`: more content than the tree takes; `AccessDenied` for a
    ///   path that is read-only.
    /// - Errors of `content` and of the filesystem.
    pub async fn write(
        &self,
        path: &TreePath,
        write: &FileWrite,
        content: impl Stream<Item = Result<Bytes>> + Send,
    ) -> Result<FileWritten> {
        let Some(place) = self.unless_known(self.prepare(path, write)).await? else {
            return self.repeated(content).await;
        };
        let (received, hash) = self.received(&place, content).await?;
        let once = self.once.with_body(&hash).await?;
        // A repeat ends in `run`: its content is dropped, which removes it.
        let written = once.run(async {
            let upload = match received {
                Received::Short(bytes) => return self.written(&once, path, write, Body::Bytes(bytes)).await,
                Received::Long(begun) => self.all_of(&place, begun).await?,
            };
            // The tree may have changed while the content arrived. What is refused now is not stored at all.
            self.foresee(path, write).await?;
            let staged = upload.finish().await?;
            let written = self.written(&once, path, write, Body::Staged(staged.clone())).await;
            // With a record, another attempt may have been faster.
            if written.is_err() || once.records() {
                discard(self.fs, &place.at, &staged).await;
            }
            written
        });
        written.await
    }

    /// Uploads content for a later commit on this tree, which names it as a staged body. No reader sees it
    /// before. `at` is the path that it is meant for.
    ///
    /// # Errors
    /// `TooLarge`, `QuotaExceeded`: more content than the tree takes; errors of `content` and of the
    /// filesystem.
    pub async fn upload(
        &self,
        at: &TreePath,
        env: &Env,
        content: impl Stream<Item = Result<Bytes>> + Send,
    ) -> Result<Uploaded> {
        let prepare = async {
            let place = Place { at: At::from(at), of: Use::Later, writes_only: self.writes_only };
            self.admit_expected(&place).await?;
            let begun = self.begin(&place).await?;
            Ok::<_, Error>((place, begun))
        };
        let Some((place, mut begun)) = self.unless_known(prepare).await? else {
            return self.repeated(content).await;
        };
        let (mut content, mut hash) = (std::pin::pin!(content), self.once.body_hash());
        while let Some(piece) = content.next().await {
            let piece = piece?;
            hash.add(&piece).await?;
            self.add(&place, &mut begun, piece).await?;
        }
        let once = self.once.with_body(&hash.finish().await?).await?;
        let finished = async {
            let staged = self.all_of(&place, begun).await?.finish().await?;
            let uploaded =
                Uploaded { staged: staged.clone(), expires_at: env.now().plus_seconds(UPLOAD_LIFETIME) };
            let batch = Batch::new([]).author(self.author.clone()).message(self.message.clone());
            let recorded = once.unchanged(self.fs, batch, uploaded).await;
            // Another attempt may have been faster. Then its content counts.
            let is_kept = recorded.as_ref().is_ok_and(|first| first.staged == staged);
            if !is_kept {
                discard(self.fs, &place.at, &staged).await;
            }
            recorded
        };
        once.run(finished).await
    }

    /// Removes a file in one commit; with `recursive` also a directory with everything below it. A link is
    /// removed itself. Returns the path without links on the way, and the commit.
    ///
    /// # Errors
    /// `NotFound`; `IsADirectory` without `recursive`; `Conflict`: a condition does not hold; `Busy` for the
    /// root; errors of the filesystem.
    pub async fn remove(
        &self,
        path: &TreePath,
        recursive: bool,
        conditions: &[Precondition],
    ) -> Result<(TreePath, Seq)> {
        let once = self.once.with_body(&self.once.body_hash().finish().await?).await?;
        let removed = resolve::retry(self.fs, path.as_str(), Follow::No, |path| {
            let op = if recursive { Op::remove_tree(&path) } else { Op::remove_file(&path) };
            let batch = Batch::new([op]).author(self.author.clone()).message(self.message.clone());
            let require = |batch: Batch, condition: &Precondition| batch.require(&path, condition.clone());
            let batch = conditions.iter().fold(batch, require);
            let once = &once;
            async move { once.commit(self.fs, batch, (path, PENDING)).await }
        });
        once.run(removed).await
    }

    async fn written(
        &self,
        once: &Once,
        path: &TreePath,
        write: &FileWrite,
        body: Body,
    ) -> Result<FileWritten> {
        let commit = |path: TreePath| {
            let batch = write.batch(&path, body.clone()).author(self.author.clone());
            let batch = batch.message(self.message.clone()).writes_only(self.writes_only);
            async move { once.commit(self.fs, batch, FileWritten::pending(path)).await }
        };
        if write.part == Part::FreeName {
            let path = resolve::resolve(self.fs, path.as_str(), Follow::No).await?;
            return at_free_name(self.fs, &path, commit).await;
        }
        resolve::retry(self.fs, path.as_str(), write.follow(), commit).await
    }

    /// Prepares the first attempt of a request; returns `None` for a repeat, which is answered even if the
    /// first attempt has made its conditions false.
    async fn unless_known<T>(&self, prepare: impl Future<Output = Result<T>>) -> Result<Option<T>> {
        if self.once.is_known().await? {
            return Ok(None);
        }
        let prepared = prepare.await;
        // The first attempt may have committed in between, and be the reason why this one is refused.
        if prepared.is_err() && self.once.is_known().await? {
            return Ok(None);
        }
        prepared.map(Some)
    }

    /// Returns the outcome of an earlier attempt of the request, if it had the same content. A repeat stores
    /// nothing, so nothing is judged: uploads may have taken all room since the first attempt.
    async fn repeated<T: Outcome>(&self, content: impl Stream<Item = Result<Bytes>> + Send) -> Result<T> {
        let Expected { length, room } = self.expected;
        let (mut content, mut hash, mut arrived) = (std::pin::pin!(content), self.once.body_hash(), 0_u64);
        // No first attempt had as much. Without this, content could arrive for ever.
        let check = |length: u64| if length > room { Err(too_long(room)) } else { Ok(()) };
        check(length.unwrap_or(0))?;
        while let Some(piece) = content.next().await {
            let piece = piece?;
            arrived = arrived.saturating_add(piece.len() as u64);
            check(arrived)?;
            hash.add(&piece).await?;
        }
        let once = self.once.with_body(&hash.finish().await?).await?;
        once.recorded()?.ok_or_else(|| {
            let message = "the record of the first attempt has ended meanwhile; send the request again";
            Error::new(ErrorKind::WouldBlock, message)
        })
    }

    /// Fails for a write that would be refused whatever its bytes are. Returns the place of the content.
    async fn prepare(&self, path: &TreePath, write: &FileWrite) -> Result<Place> {
        let place = self.foresee(path, write).await?;
        self.admit_expected(&place).await?;
        Ok(place)
    }

    /// Fails for a write that would fail after its content has arrived. The commit judges again, so a change
    /// in between does no harm. Returns the place of the content.
    async fn foresee(&self, path: &TreePath, write: &FileWrite) -> Result<Place> {
        let target = resolve::resolve(self.fs, path.as_str(), write.follow()).await?;
        // A free name is next to the path, which may be something else.
        let place = match write.part {
            Part::FreeName => target.parent().unwrap_or_else(TreePath::root),
            _ => target.clone(),
        };
        if !self.fs.capabilities(&place).write {
            return Err(Error::at(ErrorKind::AccessDenied, &target, "is read-only here"));
        }
        let found = self.fs.stat(&At::from(&target)).await.optional()?;
        let entry = found.as_ref();
        if write.part != Part::FreeName && entry.is_some_and(Entry::is_dir) {
            return Err(Error::at(ErrorKind::IsADirectory, path, "is a directory"));
        }
        if !write.conditions.iter().all(|condition| may_hold(entry, condition)) {
            return Err(Error::at(ErrorKind::Conflict, path, "a condition of the write does not hold"));
        }
        let before = match (write.part, entry) {
            (Part::From(_), None) => {
                return Err(Error::at(ErrorKind::NotFound, path, "no such file or directory"));
            }
            (Part::FreeName, _) | (_, None) => 0,
            (_, Some(entry)) => entry.size,
        };
        let of = Use::File(write.part, before);
        Ok(Place { at: At::from(&place), of, writes_only: self.writes_only })
    }

    /// Fails for content that the tree would refuse at its expected length.
    async fn admit_expected(&self, place: &Place) -> Result<()> {
        let Expected { length, room } = self.expected;
        // Short content is part of the commit, which judges it at once.
        if length.is_some_and(|length| length <= INLINE as u64) && matches!(place.of, Use::File(..)) {
            return Ok(());
        }
        let length = length.unwrap_or(0);
        if length > room {
            return Err(too_long(room));
        }
        let content = Incoming { arrives: length, ..place.incoming(length, room) };
        self.fs.admit(&place.at, &content).await
    }

    /// Begins an upload. It is admitted again, because others may have been admitted at the same time: from
    /// now on each of them counts the others.
    async fn begin(&self, place: &Place) -> Result<UploadProgress> {
        let mut begun = UploadProgress { upload: self.fs.stage(&place.at).await?, arrived: 0, admitted: 0 };
        self.admit_more(place, &mut begun).await?;
        Ok(begun)
    }

    /// Adds a piece of content, which may be empty, and fails if the tree refuses as much.
    async fn add(&self, place: &Place, begun: &mut UploadProgress, piece: Bytes) -> Result<()> {
        begun.arrived = begun.arrived.saturating_add(piece.len() as u64);
        if begun.arrived > begun.admitted {
            self.admit_more(place, begun).await?;
        }
        if piece.is_empty() { Ok(()) } else { begun.upload.write(piece).await }
    }

    /// Returns an upload whose content has arrived, unless the tree refuses it.
    async fn all_of(&self, place: &Place, mut begun: UploadProgress) -> Result<Box<dyn Upload>> {
        begun.upload.expects(begun.arrived);
        self.admit(place, begun.arrived).await?;
        Ok(begun.upload)
    }

    async fn admit_more(&self, place: &Place, begun: &mut UploadProgress) -> Result<()> {
        let Expected { length, room } = self.expected;
        let step = if length.is_some() { STEP } else { UNKNOWN_STEP };
        begun.admitted = begun.arrived.saturating_add(step);
        // Content that fills the room is not refused for bytes that may not follow.
        let ahead = begun.admitted.min(room).max(begun.arrived);
        begun.upload.expects(length.unwrap_or(ahead));
        self.admit(place, begun.arrived.max(length.unwrap_or(0))).await
    }

    /// Fails if the tree refuses content of this length, whose upload counts already.
    async fn admit(&self, place: &Place, length: u64) -> Result<()> {
        let content = Incoming { has_begun: true, ..place.incoming(length, self.expected.room) };
        self.fs.admit(&place.at, &content).await
    }

    /// Receives the content of a file, and returns it with its hash.
    async fn received(
        &self,
        place: &Place,
        content: impl Stream<Item = Result<Bytes>> + Send,
    ) -> Result<(Received, [u8; 32])> {
        let (mut content, mut hash) = (std::pin::pin!(content), self.once.body_hash());
        let (mut held, mut begun): (BytesMut, Option<UploadProgress>) = (BytesMut::new(), None);
        while let Some(piece) = content.next().await {
            let piece = piece?;
            // The hash is part of the recorded request, so that a repeat with other content is noticed.
            hash.add(&piece).await?;
            if let Some(begun) = &mut begun {
                self.add(place, begun, piece).await?;
            } else if held.len() + piece.len() <= INLINE {
                held.extend_from_slice(&piece);
            } else {
                let mut long = self.begin(place).await?;
                self.add(place, &mut long, std::mem::take(&mut held).freeze()).await?;
                self.add(place, &mut long, piece).await?;
                begun = Some(long);
            }
        }
        let received = match begun {
            Some(begun) => Received::Long(begun),
            None => Received::Short(held.freeze()),
        };
        Ok((received, hash.finish().await?))
    }
}

fn too_long(room: u64) -> Error {
    let message = format!("the content of one request may have at most {room} bytes");
    Error::new(ErrorKind::QuotaExceeded, message)
}

/// Returns false if a condition does not hold for a node, or for a missing one. A hash is left to the commit.
fn may_hold(entry: Option<&Entry>, condition: &Precondition) -> bool {
    match condition {
        Precondition::Absent => entry.is_none(),
        Precondition::Exists => entry.is_some(),
        Precondition::Version(version) => entry.is_some_and(|entry| entry.version == *version),
        Precondition::Etag(etag) => entry.is_some_and(|entry| entry.etag == *etag),
        Precondition::EtagIn(etags) => entry.is_some_and(|entry| etags.contains(&entry.etag)),
        Precondition::Sha256(_) => true,
        Precondition::Not(condition) => match &**condition {
            Precondition::Sha256(_) => true,
            condition => !may_hold(entry, condition),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures::executor::block_on;
    use futures::stream;
    use garth_engine::engine::memory::MemoryFs;
    use garth_engine::fs::{FileSystem as _, FileSystemExt as _};
    use garth_engine::model::{ByteRange, Moment};
    use garth_engine::rule::Registry;

    use super::*;

    fn file(path: &str) -> TreePath {
        TreePath::parse(path).unwrap()
    }

    fn pieces(bytes: &[u8], size: usize) -> impl Stream<Item = Result<Bytes>> + Send {
        stream::iter(
            bytes.chunks(size.max(1)).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect::<Vec<_>>(),
        )
    }

    /// Content that a refused write must not ask for.
    fn unread() -> impl Stream<Item = Result<Bytes>> + Send {
        stream::poll_fn(|_| -> Poll<Option<Result<Bytes>>> { panic!("the content was read") })
    }

    fn tree() -> MemoryFs {
        MemoryFs::new(Env::system(), Registry::empty())
    }

    #[test]
    fn content_of_any_size_is_written_as_it_is() {
        let fs = tree();
        for size in [0, 1, INLINE - 1, INLINE, INLINE + 1, 3 << 20] {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let (files, path) = (Files::new(&fs), file("/a/b.bin"));
            let written =
                block_on(files.write(&path, &FileWrite::replace(), pieces(&bytes, 100_000))).unwrap();
            assert_eq!((written.size, written.etag.is_some()), (size as u64, true));
            let range = ByteRange { offset: 0, length: 4 << 20 };
            assert_eq!(block_on(fs.fetch(&At::from(&path), range)).unwrap().1, bytes, "{size}");
        }
    }

    #[test]
    fn content_that_breaks_off_writes_nothing() {
        let fs = tree();
        let content = vec![7; 2 << 20];
        let broken = pieces(&content, 1 << 16).chain(stream::iter([Err(Error::invalid("broke off"))]));
        let error = block_on(Files::new(&fs).write(&file("/a"), &FileWrite::replace(), broken)).unwrap_err();
        assert_eq!(error.message(), "broke off");
        assert_eq!(block_on(fs.head()).unwrap().seq, Seq(0));
    }

    #[test]
    fn parts_of_a_file_are_written() {
        let fs = tree();
        let (files, path) = (Files::new(&fs), file("/log"));
        let append = FileWrite::append().attrs(SetAttrs::new().metadata("a", "b"));
        let first = block_on(files.write(&path, &append, pieces(b"one two", 3))).unwrap();
        let second = block_on(files.write(&path, &FileWrite::append(), pieces(b" six", 3))).unwrap();
        assert_eq!((first.created, second.created, second.size), (true, false, 11));
        block_on(files.write(&path, &FileWrite::at(4), pieces(b"ten", 3))).unwrap();
        let (entry, bytes) =
            block_on(fs.fetch(&At::from(&path), ByteRange { offset: 0, length: 100 })).unwrap();
        assert_eq!((&*bytes, &*entry.attributes.metadata["a"]), (&b"one ten six"[..], "b"));
        let unchanged = block_on(files.write(&path, &FileWrite::append(), pieces(b"", 1))).unwrap();
        assert_eq!(unchanged.etag, None);
        let missing = block_on(files.write(&file("/no"), &FileWrite::at(0), pieces(b"x", 1))).unwrap_err();
        assert!(missing.is(ErrorKind::NotFound));
    }

    #[test]
    fn conditions_are_judged_before_and_in_the_commit() {
        let fs = tree();
        let (files, path) = (Files::new(&fs), file("/a"));
        let first = block_on(files.write(&path, &FileWrite::replace(), pieces(b"1", 1))).unwrap();
        let etag = first.etag.unwrap();
        let new = FileWrite::replace().require(Precondition::Absent);
        let same = FileWrite::replace().require(Precondition::EtagIn(vec![etag]));
        assert!(block_on(files.write(&path, &new, unread())).unwrap_err().is(ErrorKind::Conflict));
        block_on(files.write(&path, &same, pieces(b"2", 1))).unwrap();
        assert!(block_on(files.write(&path, &same, unread())).unwrap_err().is(ErrorKind::Conflict));
        // Another writer is faster than the content.
        let raced = stream::once(async {
            fs.write("/b", "other").await?;
            Ok::<_, Error>(Bytes::from_static(b"mine"))
        });
        let error = block_on(files.write(&file("/b"), &new, raced)).unwrap_err();
        assert!(error.is(ErrorKind::Conflict), "{error}");
        assert_eq!(block_on(fs.read_to_string("/b")).unwrap(), "other");
        let wrong = [Precondition::Etag(etag)];
        assert!(block_on(files.remove(&path, false, &wrong)).unwrap_err().is(ErrorKind::Conflict));
        block_on(files.remove(&path, false, &[Precondition::Exists])).unwrap();
        assert!(block_on(files.remove(&path, false, &[])).unwrap_err().is(ErrorKind::NotFound));
    }

    #[test]
    fn new_files_get_free_names() {
        let fs = tree();
        let names = ["/notes.md", "/notes (2).md", "/notes (3).md"];
        for name in names {
            let (files, path, how) = (Files::new(&fs), file("/notes.md"), FileWrite::free_name());
            let written = block_on(files.write(&path, &how, pieces(b"x", 1)));
            assert_eq!(written.unwrap().path.as_str(), name);
        }
    }

    #[test]
    fn links_are_followed_by_writes_and_removed_themselves() {
        let fs = tree();
        block_on(fs.write("/target", "old")).unwrap();
        block_on(fs.commit(Op::symlink(file("/link"), "target").into())).unwrap();
        let files = Files::new(&fs);
        let written =
            block_on(files.write(&file("/link"), &FileWrite::replace(), pieces(b"new", 1))).unwrap();
        assert_eq!(written.path.as_str(), "/target");
        let new = FileWrite::replace().require(Precondition::Absent);
        assert!(
            block_on(files.write(&file("/link"), &new, pieces(b"x", 1))).unwrap_err().is(ErrorKind::Conflict)
        );
        block_on(files.remove(&file("/link"), false, &[])).unwrap();
        assert_eq!(block_on(fs.read_to_string("/target")).unwrap(), "new");
    }

    #[test]
    fn directories_are_removed_on_request() {
        let fs = tree();
        block_on(fs.mkdir_all("/d/e")).unwrap();
        let files = Files::new(&fs);
        let error = block_on(files.remove(&file("/d"), false, &[])).unwrap_err();
        assert!(error.is(ErrorKind::IsADirectory), "{error}");
        let error = block_on(files.write(&file("/d"), &FileWrite::append(), pieces(b"x", 1))).unwrap_err();
        assert!(error.is(ErrorKind::IsADirectory), "{error}");
        let (_, seq) = block_on(files.remove(&file("/d"), true, &[])).unwrap();
        assert!(block_on(fs.stat(&At::from(&file("/d")))).is_err());
        let before = block_on(fs.as_of(&Moment::Seq(Seq(seq.0 - 1)))).unwrap();
        assert!(block_on(before.stat(&At::from(&file("/d/e")))).is_ok());
    }

    #[test]
    fn uploads_are_written_by_later_commits() {
        let fs = tree();
        let files = Files::new(&fs);
        let before = block_on(fs.head()).unwrap().seq;
        let uploaded =
            block_on(files.upload(&TreePath::root(), &Env::system(), pieces(&[5; 100_000], 1000))).unwrap();
        assert_eq!((uploaded.staged.size, block_on(fs.head()).unwrap().seq), (100_000, before));
        block_on(fs.commit(Op::write(file("/a"), Body::Staged(uploaded.staged)).into())).unwrap();
        assert_eq!(block_on(fs.stat(&At::from(&file("/a")))).unwrap().size, 100_000);
    }
}
