//! Constructors of operations and of changes of attributes, so that a caller writes only what differs from
//! the default.

use super::{At, Body, Create, Op, Precondition, Remove, RenameMode, SetAttrs, Special};
use crate::model::id::{Seq, Timestamp};

/// Constructors. The methods below set what differs from the default: `Op::write(path, "text").create_new()`.
impl Op {
    /// Replaces the complete content of a file, or creates the file (mode `0o644`). The node, its inode, mode
    /// and other attributes stay. Fails with `IsADirectory` for a directory, and with `NotPermitted` for
    /// another node that is not a file.
    pub fn write(at: impl Into<At>, body: impl Into<Body>) -> Self {
        let (create, attrs) = (Create::IfMissing, SetAttrs::default());
        Self::Write { at: at.into(), body: body.into(), create, parents: false, attrs }
    }

    /// Adds bytes at the end of a file, or creates the file, like [`Op::write`]. Fails with `TooLarge` if the
    /// file would have more than [`MAX_FILE`](crate::model::MAX_FILE) bytes.
    ///
    /// A caller that knows which parts of the body will be appended again, such as a tool's output in a
    /// session, cuts around them: see [`Op::cut_at`].
    pub fn append(at: impl Into<At>, body: impl Into<Body>) -> Self {
        let (create, cuts) = (Create::IfMissing, Vec::new());
        Self::Append { at: at.into(), body: body.into(), create, parents: false, cuts }
    }

    /// Writes bytes from `offset` on into a file that exists; a gap before `offset` reads as zeros. An empty
    /// body changes nothing. Fails with `TooLarge` if the file would have more than
    /// [`MAX_FILE`](crate::model::MAX_FILE) bytes.
    pub fn patch(at: impl Into<At>, offset: u64, body: impl Into<Body>) -> Self {
        Self::Patch { at: at.into(), offset, body: body.into() }
    }

    /// Cuts a file that exists to `size` bytes, or extends it with zeros. Fails with `TooLarge` for more than
    /// [`MAX_FILE`](crate::model::MAX_FILE) bytes.
    pub fn truncate(at: impl Into<At>, size: u64) -> Self {
        Self::Truncate { at: at.into(), size }
    }

    /// Turns a range of a file that exists into a hole: it reads as zeros and takes no space. The size of the
    /// file stays, and a range beyond its end is ignored.
    pub fn punch(at: impl Into<At>, offset: u64, length: u64) -> Self {
        Self::Punch { at: at.into(), offset, length }
    }

    /// Writes `length` bytes at `from_offset` of one file to `to_offset` of another, by reference: no byte is
    /// copied, and holes stay holes. Both files must exist. A range beyond the end of `from` is ignored, as
    /// in `copy_file_range`; a gap before `to_offset` reads as zeros.
    ///
    /// Fails with `InvalidArgument` for overlapping ranges of one file, and with `TooLarge` over
    /// [`MAX_FILE`](crate::model::MAX_FILE) bytes or [`MAX_COPIED_PIECES`](crate::model::MAX_COPIED_PIECES)
    /// pieces.
    pub fn copy_range(
        from: impl Into<At>,
        from_offset: u64,
        length: u64,
        to: impl Into<At>,
        to_offset: u64,
    ) -> Self {
        Self::CopyRange { from: from.into(), from_offset, length, to: to.into(), to_offset }
    }

    /// Creates a directory (mode `0o755`). Fails with `AlreadyExists` if its name is taken, and with
    /// `NotFound` if its parent is missing.
    pub fn mkdir(at: impl Into<At>) -> Self {
        Self::Mkdir { at: at.into(), parents: false, attrs: SetAttrs::default() }
    }

    /// Creates a directory and its missing parents (`mkdir -p`). An existing directory is accepted and stays
    /// unchanged.
    pub fn mkdir_all(at: impl Into<At>) -> Self {
        Self::Mkdir { at: at.into(), parents: true, attrs: SetAttrs::default() }
    }

    /// Creates a symbolic link (mode `0o777`) to `target`, which may be any text without NUL, from 1 to
    /// [`MAX_TARGET`](crate::model::MAX_TARGET) bytes.
    pub fn symlink(at: impl Into<At>, target: impl Into<String>) -> Self {
        Self::Symlink { at: at.into(), target: target.into(), parents: false, attrs: SetAttrs::default() }
    }

    /// Creates a special node (mode `0o644`): a fifo, socket, device or whiteout.
    pub fn mknod(at: impl Into<At>, node: Special) -> Self {
        Self::Mknod { at: at.into(), node, parents: false, attrs: SetAttrs::default() }
    }

    /// Adds the name `to` to the node at `from` (a hard link). Fails with `NotPermitted` for a directory,
    /// then with `AlreadyExists` if `to` is taken, then with `TooManyLinks` over
    /// [`MAX_LINKS`](crate::model::MAX_LINKS) names.
    pub fn link(from: impl Into<At>, to: impl Into<At>) -> Self {
        Self::Link { from: from.into(), to: to.into(), parents: false }
    }

    /// Removes the name of anything, including an empty directory. The node lives on under other names and in
    /// open handles. Fails with `NotEmpty` for a directory with entries, and with `Busy` for the root.
    pub fn remove(at: impl Into<At>) -> Self {
        Self::Remove { at: at.into(), what: Remove::Any, missing_ok: false }
    }

    /// Removes the name of anything but a directory (`unlink`).
    pub fn remove_file(at: impl Into<At>) -> Self {
        Self::Remove { at: at.into(), what: Remove::File, missing_ok: false }
    }

    /// Removes an empty directory (`rmdir`).
    pub fn remove_dir(at: impl Into<At>) -> Self {
        Self::Remove { at: at.into(), what: Remove::Directory, missing_ok: false }
    }

    /// Removes a name with everything below it (`rm -r`).
    pub fn remove_tree(at: impl Into<At>) -> Self {
        Self::Remove { at: at.into(), what: Remove::Tree, missing_ok: false }
    }

    /// Gives the node at `from` the name `to`. A node that had that name loses it. Checks, in this order:
    ///
    /// - `from` or `to` is the root: `Busy`.
    /// - `from` is missing: `NotFound`.
    /// - `from` is a directory and `to` a path inside it: `InvalidArgument`.
    /// - `from` is inside `to`: `NotEmpty` (in an exchange: `InvalidArgument`).
    /// - The parent of `to` is missing: `NotFound`, unless [`with_parents`](Op::with_parents) creates it.
    /// - `to` exists: `AlreadyExists` with [`no_replace`](Op::no_replace). `to` is missing: `NotFound` in an
    ///   exchange.
    /// - `to` names the same node: nothing happens.
    /// - `to` is replaced: a directory onto another kind is `NotADirectory`, another kind onto a directory
    ///   `IsADirectory`, a directory onto one with entries `NotEmpty`.
    pub fn rename(from: impl Into<At>, to: impl Into<At>) -> Self {
        Self::Rename { from: from.into(), to: to.into(), mode: RenameMode::Replace, parents: false }
    }

    /// Swaps the nodes of two names.
    pub fn exchange(from: impl Into<At>, to: impl Into<At>) -> Self {
        Self::Rename { from: from.into(), to: to.into(), mode: RenameMode::Exchange, parents: false }
    }

    /// Copies anything but a directory, with mode, owner, `mtime`, attributes and expiry, and its content by
    /// reference. [`as_of`](Op::as_of) copies a past state; an expiry that has passed since is not copied.
    /// Checks, in this order:
    ///
    /// - `from` is missing: `NotFound`; it is a directory: `IsADirectory`.
    /// - The parent of `to` is missing: `NotFound`, unless [`with_parents`](Op::with_parents) creates it.
    /// - `to` exists: `AlreadyExists`. With [`replace`](Op::replace), a file onto a file keeps the node of
    ///   `to` and replaces everything that a copy carries; a file onto itself restores its past state, or
    ///   changes nothing.
    /// - The limits of [copies](crate::model::batch#copies): `TooLarge`.
    pub fn copy(from: impl Into<At>, to: impl Into<At>) -> Self {
        let (from, to) = (from.into(), to.into());
        Self::Copy { from, as_of: None, to, recursive: false, replace: false, parents: false }
    }

    /// Copies anything, a directory with everything below it, as [`Op::copy`] does. Names of one node that
    /// are copied together become names of one new node, as with `cp -a`. Fails with `InvalidArgument` for a
    /// copy of a current directory into itself.
    pub fn copy_tree(from: impl Into<At>, to: impl Into<At>) -> Self {
        let (from, to) = (from.into(), to.into());
        Self::Copy { from, as_of: None, to, recursive: true, replace: false, parents: false }
    }

    /// Changes attributes. Fails with `NotPermitted` for `expires_at` on a directory.
    pub fn set_attrs(at: impl Into<At>, attrs: SetAttrs) -> Self {
        Self::SetAttrs { at: at.into(), attrs }
    }

    /// Fails the batch with `Conflict` unless the condition holds at this point of it.
    pub fn check(at: impl Into<At>, that: Precondition) -> Self {
        Self::Check { at: at.into(), that }
    }

    /// Names the sequence number of the commit. Fails with `AlreadyExists` for a name that is taken, with
    /// `TooLarge` over [`MAX_LABEL`](crate::model::MAX_LABEL) bytes, and with `InvalidArgument` for a name
    /// that is empty, has control characters, or reads as a moment (`42`, `1h`, `today`, `2026-01-27`).
    pub fn snapshot(name: impl Into<String>) -> Self {
        Self::Snapshot { name: name.into() }
    }

    /// Removes the name of a snapshot; history stays. Fails with `NotFound` if there is none.
    pub fn drop_snapshot(name: impl Into<String>) -> Self {
        Self::DropSnapshot { name: name.into() }
    }
}

/// Options. Each belongs to the operations that its description names. An operation that lacks the option
/// becomes [`Op::Misused`]: a mistake in the calling code, which the commit refuses with `InvalidArgument`.
impl Op {
    /// Makes a write or append create the file, and fail with `AlreadyExists` if anything exists.
    #[must_use]
    pub fn create_new(self) -> Self {
        self.creating(Create::New, "create_new")
    }

    /// Makes a write or append fail with `NotFound` if the file is missing.
    #[must_use]
    pub fn must_exist(self) -> Self {
        self.creating(Create::Never, "must_exist")
    }

    fn creating(mut self, how: Create, option: &str) -> Self {
        match &mut self {
            Self::Write { create, .. } | Self::Append { create, .. } => *create = how,
            other => other.misuse(option),
        }
        self
    }

    /// Makes an operation that creates a name (write, append, mkdir, symlink, mknod, link, rename, copy)
    /// create missing parents of it. For mkdir this is [`Op::mkdir_all`].
    #[must_use]
    pub fn with_parents(mut self) -> Self {
        match &mut self {
            Self::Write { parents, .. }
            | Self::Append { parents, .. }
            | Self::Mkdir { parents, .. }
            | Self::Symlink { parents, .. }
            | Self::Mknod { parents, .. }
            | Self::Link { parents, .. }
            | Self::Rename { parents, .. }
            | Self::Copy { parents, .. } => *parents = true,
            other => other.misuse("with_parents"),
        }
        self
    }

    /// Sets attributes in a write, mkdir, symlink or mknod.
    #[must_use]
    pub fn with_attrs(mut self, to: SetAttrs) -> Self {
        match &mut self {
            Self::Write { attrs, .. }
            | Self::Mkdir { attrs, .. }
            | Self::Symlink { attrs, .. }
            | Self::Mknod { attrs, .. } => *attrs = to,
            other => other.misuse("with_attrs"),
        }
        self
    }

    /// Stores an append in pieces that begin and end at these offsets of its body. A piece of 64 KiB or more
    /// is stored once, however often and wherever in the account it is appended again. Adjacent shorter
    /// pieces are stored as if they were not cut. Cuts change no byte.
    ///
    /// ```
    /// # use garth_engine as garth;
    /// use garth::TreePath;
    /// use garth::model::Op;
    ///
    /// let log = TreePath::parse("/messages.jsonl")?;
    /// let (before, output, after) = (r#"{"id":"msg-7","content":""#, "x".repeat(100_000), "\"}\n");
    /// // the next message with the same output adds its own 27 bytes
    /// let [from, to] = [before.len(), before.len() + output.len()].map(|at| at as u64);
    /// let append = Op::append(&log, [before, &output, after].concat()).cut_at([from, to]);
    /// # let _ = append;
    /// # Ok::<(), garth::Error>(())
    /// ```
    #[must_use]
    pub fn cut_at(mut self, offsets: impl IntoIterator<Item = u64>) -> Self {
        match &mut self {
            Self::Append { cuts, .. } => *cuts = offsets.into_iter().collect(),
            other => other.misuse("cut_at"),
        }
        self
    }

    /// Makes a removal accept a missing name.
    #[must_use]
    pub fn if_exists(mut self) -> Self {
        match &mut self {
            Self::Remove { missing_ok, .. } => *missing_ok = true,
            other => other.misuse("if_exists"),
        }
        self
    }

    /// Makes a rename fail with `AlreadyExists` if the new name is taken.
    #[must_use]
    pub fn no_replace(mut self) -> Self {
        match &mut self {
            Self::Rename { mode, .. } => *mode = RenameMode::NoReplace,
            other => other.misuse("no_replace"),
        }
        self
    }

    /// Lets a copy of a file replace a file.
    #[must_use]
    pub fn replace(mut self) -> Self {
        match &mut self {
            Self::Copy { replace, .. } => *replace = true,
            other => other.misuse("replace"),
        }
        self
    }

    /// Replaces the operation by the refusal of an option that it lacks. Keeps the first mistake.
    fn misuse(&mut self, option: &str) {
        if matches!(self, Self::Misused { .. }) {
            return;
        }
        // `Debug` writes the name of the variant first.
        let debug = format!("{self:?}");
        let name = debug.split(' ').next().unwrap_or_default();
        *self = Self::Misused { reason: format!("{name} has no option `{option}`; leave it out") };
    }

    /// Makes a copy take its source as it was after this commit.
    #[must_use]
    pub fn as_of(mut self, seq: Seq) -> Self {
        match &mut self {
            Self::Copy { as_of, .. } => *as_of = Some(seq),
            other => other.misuse("as_of"),
        }
        self
    }
}

/// ```
/// # use garth_engine as garth;
/// use garth::model::SetAttrs;
///
/// let attrs = SetAttrs::new().mode(0o600).tags(["draft", "alice"]).metadata("source", "interview");
/// assert_eq!(attrs.mode, Some(0o600));
/// ```
impl SetAttrs {
    /// Returns changes that change nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the permission bits, `0o7777` at most.
    #[must_use]
    pub fn mode(self, mode: u32) -> Self {
        Self { mode: Some(mode), ..self }
    }

    /// Sets user and group.
    #[must_use]
    pub fn owner(self, uid: u32, gid: u32) -> Self {
        Self { uid: Some(uid), gid: Some(gid), ..self }
    }

    /// Sets the time of the last change of content.
    #[must_use]
    pub fn mtime(self, time: Timestamp) -> Self {
        Self { mtime: Some(time), ..self }
    }

    /// Sets the time of the last read.
    #[must_use]
    pub fn atime(self, time: Timestamp) -> Self {
        Self { atime: Some(time), ..self }
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn content_type(self, mime: impl Into<String>) -> Self {
        Self { content_type: Some(Some(mime.into())), ..self }
    }

    /// Replaces all tags.
    #[must_use]
    pub fn tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        Self { tags: Some(tags.into_iter().map(Into::into).collect()), ..self }
    }

    /// Sets the importance; finite.
    #[must_use]
    pub fn importance(self, importance: f64) -> Self {
        Self { importance: Some(importance), ..self }
    }

    /// Shows the content to search, or hides it.
    #[must_use]
    pub fn searchable(self, searchable: bool) -> Self {
        Self { searchable: Some(Some(searchable)), ..self }
    }

    /// Sets one key of the custom metadata.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), Some(value.into()));
        self
    }

    /// Removes one key of the custom metadata.
    #[must_use]
    pub fn remove_metadata(mut self, key: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), None);
        self
    }

    /// Sets an extended attribute.
    #[must_use]
    pub fn xattr(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.xattrs.insert(name.into(), Some(value.into()));
        self
    }

    /// Removes an extended attribute.
    #[must_use]
    pub fn remove_xattr(mut self, name: impl Into<String>) -> Self {
        self.xattrs.insert(name.into(), None);
        self
    }

    /// Sets the time from which the entry is absent.
    #[must_use]
    pub fn expires_at(self, time: Timestamp) -> Self {
        Self { expires_at: Some(Some(time)), ..self }
    }

    /// Removes the expiry of the entry.
    #[must_use]
    pub fn never_expires(self) -> Self {
        Self { expires_at: Some(None), ..self }
    }
}
