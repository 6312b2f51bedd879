//! The operations of a batch, and the limits of their values.

mod address;
mod body;
mod new;

pub use address::Access;
pub use body::{Body, StagedBody};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::at::At;
use super::entry::{Attributes, OWN_ATTRIBUTES, is_own};
use super::id::{Seq, Timestamp, VersionId};
use super::query::Moment;
use crate::error::{Error, ErrorKind, Result};

/// Largest file, in bytes (8 TiB): keeps every offset well inside a signed 64-bit integer.
pub const MAX_FILE: u64 = 1 << 43;

/// Most names of one node. ext4 has 65,000.
pub const MAX_LINKS: u64 = 65_000;

/// Longest target of a symbolic link, in bytes. Linux `PATH_MAX`.
pub const MAX_TARGET: usize = 4096;

/// Largest attributes of one node, in bytes of their JSON form.
pub const MAX_ATTRIBUTES: usize = 256 << 10;

/// Longest message, author field, idempotency key or snapshot name, in bytes.
pub const MAX_LABEL: usize = 4096;

/// Most versions of one [`Precondition::EtagIn`].
pub const MAX_ETAGS: usize = 1000;

/// Most cut points of one [`Op::Append`].
pub const MAX_CUTS: usize = 10_000;

/// Most bytes that all conditions of one batch hash ([`Precondition::Sha256`]), 64 MiB: other commits wait
/// meanwhile.
pub const MAX_HASHED: u64 = 64 << 20;

/// A condition on one name or node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// There is nothing there (a lookup that gives `NotFound` or `NotADirectory`).
    Absent,
    /// It is there.
    Exists,
    /// It is there, and its last change of any kind was this version.
    Version(VersionId),
    /// It is there, and its last change of content was this version (HTTP `If-Match`).
    Etag(VersionId),
    /// It is there, and its last change of content was one of these versions, at most [`MAX_ETAGS`]; of none
    /// it never is.
    EtagIn(Vec<VersionId>),
    /// It is there, a file, and its content has this SHA-256. Over [`MAX_HASHED`]: `TooLarge`; ask for the
    /// etag instead.
    Sha256(#[serde(with = "crate::model::json::hash")] [u8; 32]),
    /// The other condition does not hold: `Not(Etag)` holds also where nothing is (HTTP `If-None-Match`). Not
    /// of a `Not`: `InvalidArgument`.
    Not(Box<Precondition>),
}

impl Precondition {
    /// This condition does not hold.
    #[must_use]
    pub fn negated(self) -> Self {
        Self::Not(Box::new(self))
    }

    pub(crate) fn hashes(&self) -> bool {
        match self {
            Self::Sha256(_) => true,
            Self::Not(that) => that.hashes(),
            Self::Absent | Self::Exists | Self::Version(_) | Self::Etag(_) | Self::EtagIn(_) => false,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::EtagIn(etags) if etags.len() > MAX_ETAGS => Err(Error::new(
                ErrorKind::TooLarge,
                format!("a condition names at most {MAX_ETAGS} versions"),
            )),
            Self::Not(that) if matches!(**that, Self::Not(_)) => {
                Err(Error::invalid("a condition is negated once at most"))
            }
            Self::Not(that) => that.check(),
            Self::Absent
            | Self::Exists
            | Self::Version(_)
            | Self::Etag(_)
            | Self::EtagIn(_)
            | Self::Sha256(_) => Ok(()),
        }
    }
}

/// Whether a write may or must make the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Create {
    /// Made if missing (`O_CREAT`).
    #[default]
    IfMissing,
    /// Must be there: else `NotFound`.
    Never,
    /// Must not be there (`O_CREAT|O_EXCL`): else `AlreadyExists`, whatever is there.
    New,
}

/// One step of a batch. The constructors write what is usual, options the rest:
///
/// ```
/// # use garth_engine as garth;
/// use garth::TreePath;
/// use garth::model::{Op, SetAttrs};
///
/// let [draft, note] = [TreePath::parse("/drafts/a.md")?, TreePath::parse("/notes/2026/a.md")?];
/// let ops = [
///     Op::write(&draft, "# A").create_new().with_attrs(SetAttrs::new().tags(["draft"])),
///     Op::rename(&draft, &note).no_replace().with_parents(),
/// ];
/// # let _ = ops;
/// # Ok::<(), garth::Error>(())
/// ```
///
/// Not `#[non_exhaustive]`: an engine or view must say what it does with each operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// Replaces the whole content of a file, or makes the file (mode `0o644`). The node, its number, mode and
    /// attributes stay; `attrs` are applied after. Directory: `IsADirectory`; other non-file: `NotPermitted`.
    Write {
        /// Where. `At::Node` only for a file that exists.
        at: At,
        /// The content.
        body: Body,
        /// Whether it may be made.
        #[serde(default)]
        create: Create,
        /// Make missing parents.
        #[serde(default)]
        parents: bool,
        /// Attributes to set with it.
        #[serde(default)]
        attrs: SetAttrs,
    },
    /// Adds at the end of a file, or makes it, like `Write`. Over [`MAX_FILE`]: `TooLarge`.
    ///
    /// Who knows which parts of the body come again, such as a tool's output in a session, cuts around them:
    /// see [`Op::cut_at`].
    Append {
        /// Where.
        at: At,
        /// The bytes.
        body: Body,
        /// Whether it may be made.
        #[serde(default)]
        create: Create,
        /// Make missing parents.
        #[serde(default)]
        parents: bool,
        /// Where pieces of the body begin and end: offsets in it that increase, from 0 to its size. More than
        /// [`MAX_CUTS`]: `TooLarge`; others, or of a staged body, which is cut already: `InvalidArgument`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cuts: Vec<u64>,
    },
    /// Writes a range of a file that exists; a gap before `offset` reads as zeros. Over [`MAX_FILE`]:
    /// `TooLarge`. An empty body changes nothing.
    Patch {
        /// Which file.
        at: At,
        /// Where in it, in bytes.
        offset: u64,
        /// The bytes.
        body: Body,
    },
    /// Cuts a file that exists to `size`, or extends it with zeros. Over [`MAX_FILE`]: `TooLarge`.
    Truncate {
        /// Which file.
        at: At,
        /// New size, in bytes.
        size: u64,
    },
    /// Makes a range of a file that exists a hole: it reads as zeros and takes no space. The size stays; what
    /// lies beyond the end is left out. Where nothing was stored it changes nothing.
    Punch {
        /// Which file.
        at: At,
        /// Where in it, in bytes.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Writes bytes of a file into a file (both exist), by reference: no byte is copied, holes stay holes.
    /// What lies beyond the end of `from` is left out, as `copy_file_range` does; if nothing is left,
    /// nothing changes. Order: `from` is looked up, then `to`; ranges of one file that overlap:
    /// `InvalidArgument`; over [`MAX_FILE`]: `TooLarge`; over
    /// [`MAX_COPIED_PIECES`](super::MAX_COPIED_PIECES): `TooLarge`.
    CopyRange {
        /// From which file.
        from: At,
        /// Where in it, in bytes.
        from_offset: u64,
        /// At most so many bytes.
        length: u64,
        /// Into which file.
        to: At,
        /// Where in it, in bytes; a gap before it reads as zeros.
        to_offset: u64,
    },
    /// Makes a directory (mode `0o755`). With `parents`, a directory that is there already is fine and
    /// `attrs` are not applied to it; otherwise whatever is there is `AlreadyExists`. The root exists.
    Mkdir {
        /// Where.
        at: At,
        /// Make missing parents; accept an existing directory.
        #[serde(default)]
        parents: bool,
        /// Attributes to set.
        #[serde(default)]
        attrs: SetAttrs,
    },
    /// Makes a symbolic link (mode `0o777`). The target is any non-empty text without
    /// NUL, up to [`MAX_TARGET`] bytes.
    Symlink {
        /// Where.
        at: At,
        /// What it says.
        target: String,
        /// Make missing parents.
        #[serde(default)]
        parents: bool,
        /// Attributes to set.
        #[serde(default)]
        attrs: SetAttrs,
    },
    /// Makes a special node (mode `0o644`).
    Mknod {
        /// Where.
        at: At,
        /// Which kind.
        node: Special,
        /// Make missing parents.
        #[serde(default)]
        parents: bool,
        /// Attributes to set.
        #[serde(default)]
        attrs: SetAttrs,
    },
    /// Adds a name (`to`) to the node at `from`. Order: `from` is looked up (directory: `NotPermitted`), then
    /// `to` (taken: `AlreadyExists`), then [`MAX_LINKS`]: `TooManyLinks`. Sets the node's `ctime`.
    Link {
        /// What.
        from: At,
        /// The new name.
        to: At,
        /// Make missing parents.
        #[serde(default)]
        parents: bool,
    },
    /// Removes a name. The node lives on under other names and open handles. The root: `Busy`.
    /// Sets the node's `ctime` unless it was its last name.
    Remove {
        /// Which name.
        at: At,
        /// What may be there.
        what: Remove,
        /// Nothing there (`NotFound` or `NotADirectory` of the lookup) is fine.
        #[serde(default)]
        missing_ok: bool,
    },
    /// Gives a node another name. Checks, in this order: `from` or `to` is the root: `Busy`; `from` is
    /// looked up; `from` a directory and `to` a path inside it: `InvalidArgument`; `from` inside `to`:
    /// `NotEmpty` (`Exchange`: `InvalidArgument`); the parent of `to` is looked up or made; `to` is there
    /// and `NoReplace`: `AlreadyExists`; not there and `Exchange`: `NotFound`; `to` names the same node:
    /// nothing happens; and for `Replace` onto something: directory onto another kind: `NotADirectory`
    /// (path `to`), another kind onto a directory: `IsADirectory`, onto a directory with entries:
    /// `NotEmpty`. What is replaced is removed. Sets `ctime` of the node (both, for `Exchange`), and of a
    /// replaced node that has other names.
    Rename {
        /// The old name.
        from: At,
        /// The new name.
        to: At,
        /// What if `to` exists.
        #[serde(default)]
        mode: RenameMode,
        /// Make missing parents of `to`.
        #[serde(default)]
        parents: bool,
    },
    /// Copies a node, its content by reference, with mode, owner, `mtime`, attributes and expiry, like `cp
    /// -a`: names of one node that are copied together become names of one new node. `from` may be the past;
    /// an expiry that has passed since is not copied. Order: `from` is looked up (at `as_of`;
    /// `Gone`/`NotFound` for a sequence that is not there); a directory without `recursive`: `IsADirectory`;
    /// a directory (now) copied to a path inside itself: `InvalidArgument`; `to`'s parent; then `to`: nothing
    /// there: made; file onto a file with `replace`: its content and all that a copy carries are replaced,
    /// the node stays, and onto itself nothing happens unless `as_of`; else `AlreadyExists`; then the limits
    /// of [copies](super::batch#copies): `TooLarge`.
    Copy {
        /// What.
        from: At,
        /// Take it as it was after this commit.
        #[serde(default)]
        as_of: Option<Seq>,
        /// Where.
        to: At,
        /// Allow a directory, with all below it.
        #[serde(default)]
        recursive: bool,
        /// Allow a file in place of a file.
        #[serde(default)]
        replace: bool,
        /// Make missing parents of `to`.
        #[serde(default)]
        parents: bool,
    },
    /// Changes attributes. `expires_at` on a directory: `NotPermitted`. Sets `ctime`.
    SetAttrs {
        /// Of what.
        at: At,
        /// To what.
        attrs: SetAttrs,
    },
    /// Fails with `Conflict` unless the condition holds at this point of the batch.
    Check {
        /// Of what.
        at: At,
        /// The condition.
        that: Precondition,
    },
    /// Names this commit's sequence. Taken: `AlreadyExists`. Over [`MAX_LABEL`] bytes: `TooLarge`. A name
    /// that is empty, has control characters, or that [`Moment::parse`] reads as a moment (`42`, `1h`,
    /// `today`, `2026-01-27`): `InvalidArgument`.
    Snapshot {
        /// The name.
        name: String,
    },
    /// Forgets a snapshot's name; history stays. Not there: `NotFound`.
    DropSnapshot {
        /// The name.
        name: String,
    },
    /// An operation that was given an option which it lacks, such as [`Op::create_new`] for a removal. The
    /// batch is refused before any of its operations: `InvalidArgument`. It has no serialized form.
    #[serde(skip)]
    Misused {
        /// The reason, for the caller.
        reason: String,
    },
}

/// What a removal expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remove {
    /// Anything but a directory (`unlink`): else `IsADirectory`.
    File,
    /// An empty directory (`rmdir`): else `NotADirectory` or `NotEmpty`.
    Directory,
    /// Either of them.
    Any,
    /// Anything, with all below it (`rm -r`).
    Tree,
}

/// What a rename does when the new name is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenameMode {
    /// Replaces it, as POSIX does.
    #[default]
    Replace,
    /// Fails: `RENAME_NOREPLACE`.
    NoReplace,
    /// Swaps the two: `RENAME_EXCHANGE`.
    Exchange,
}

/// A node that is neither file, directory nor link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Special {
    /// Named pipe.
    Fifo,
    /// Unix socket.
    Socket,
    /// Character device with its number.
    CharDevice(u64),
    /// Block device with its number.
    BlockDevice(u64),
    /// Hides a name of a lower layer.
    Whiteout,
}

/// Changes of attributes. `None` leaves a field as it is; in `Option<Option<_>>`, `Some(None)` clears it; in
/// the maps, `None` removes a key (one that is not there is fine).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SetAttrs {
    /// Permission bits, `0o7777` at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// Owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// Last read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub atime: Option<Timestamp>,
    /// Last change of content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtime: Option<Timestamp>,
    /// MIME type.
    #[serde(deserialize_with = "crate::model::json::nullable", skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Option<String>>,
    /// All labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Weight; finite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub importance: Option<f64>,
    /// Whether search sees it.
    #[serde(deserialize_with = "crate::model::json::nullable", skip_serializing_if = "Option::is_none")]
    pub searchable: Option<Option<bool>>,
    /// Custom metadata to set or remove.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Option<String>>,
    /// Extended attributes to set or remove.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub xattrs: BTreeMap<String, Option<Vec<u8>>>,
    /// When the entry ends to be there. A moment that has passed removes it at once.
    #[serde(deserialize_with = "crate::model::json::nullable", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Option<Timestamp>>,
}

impl Op {
    /// The content this operation brings.
    pub fn body(&self) -> Option<&Body> {
        match self {
            Self::Write { body, .. } | Self::Append { body, .. } | Self::Patch { body, .. } => Some(body),
            Self::Truncate { .. }
            | Self::Punch { .. }
            | Self::CopyRange { .. }
            | Self::Mkdir { .. }
            | Self::Symlink { .. }
            | Self::Mknod { .. }
            | Self::Link { .. }
            | Self::Remove { .. }
            | Self::Rename { .. }
            | Self::Copy { .. }
            | Self::SetAttrs { .. }
            | Self::Check { .. }
            | Self::Snapshot { .. }
            | Self::DropSnapshot { .. }
            | Self::Misused { .. } => None,
        }
    }

    /// Refuses attributes that are garth's own.
    pub(super) fn check_own_attributes(&self) -> Result<()> {
        let (Self::Write { attrs, .. }
        | Self::Mkdir { attrs, .. }
        | Self::Mknod { attrs, .. }
        | Self::Symlink { attrs, .. }
        | Self::SetAttrs { attrs, .. }) = self
        else {
            return Ok(());
        };
        let mut names = attrs.metadata.keys().chain(attrs.xattrs.keys());
        match names.find(|name| is_own(name)) {
            Some(name) => {
                let message =
                    format!("{name}: attributes named `{OWN_ATTRIBUTES}*` are garth's own; leave it out");
                Err(Error::new(ErrorKind::RuleViolation, message))
            }
            None => Ok(()),
        }
    }

    pub(super) fn validate(&self) -> Result<()> {
        match self {
            Self::Write { attrs, .. }
            | Self::Mkdir { attrs, .. }
            | Self::Mknod { attrs, .. }
            | Self::SetAttrs { attrs, .. } => attrs.check(),
            Self::Symlink { attrs, target, .. } => {
                if target.is_empty() || target.contains('\0') {
                    return Err(Error::invalid("a link's target is not empty and has no NUL"));
                }
                if target.len() > MAX_TARGET {
                    return Err(Error::new(
                        ErrorKind::NameTooLong,
                        format!("a link's target has at most {MAX_TARGET} bytes"),
                    ));
                }
                attrs.check()
            }
            Self::Append { body, cuts, .. } => check_cuts(body, cuts),
            Self::Check { that, .. } => that.check(),
            Self::Snapshot { name } => check_snapshot_name(name),
            Self::Misused { reason } => Err(Error::invalid(reason)),
            Self::Patch { .. }
            | Self::Truncate { .. }
            | Self::Punch { .. }
            | Self::CopyRange { .. }
            | Self::Link { .. }
            | Self::Remove { .. }
            | Self::Rename { .. }
            | Self::Copy { .. }
            | Self::DropSnapshot { .. } => Ok(()),
        }
    }
}

impl SetAttrs {
    pub(super) fn check(&self) -> Result<()> {
        if self.mode.is_some_and(|mode| mode > 0o7777) {
            return Err(Error::invalid("a mode is at most 0o7777"));
        }
        if self.importance.is_some_and(|importance| !importance.is_finite()) {
            return Err(Error::invalid("importance is a finite number"));
        }
        if self.xattrs.keys().chain(self.metadata.keys()).any(|key| key.is_empty() || key.len() > 255) {
            return Err(Error::invalid("the name of an attribute has 1 to 255 bytes"));
        }
        Ok(())
    }

    /// Applies everything but mode, owner, times and expiry. Engines share it, so that the limit is one.
    ///
    /// # Errors
    /// `TooLarge` if the result exceeds [`MAX_ATTRIBUTES`].
    pub fn apply(&self, to: &mut Attributes) -> Result<()> {
        if let Some(content_type) = &self.content_type {
            to.content_type.clone_from(content_type);
        }
        if let Some(tags) = &self.tags {
            to.tags.clone_from(tags);
        }
        if let Some(importance) = self.importance {
            to.importance = importance;
        }
        if let Some(searchable) = self.searchable {
            to.searchable = searchable;
        }
        merge(&mut to.metadata, &self.metadata);
        merge(&mut to.xattrs, &self.xattrs);
        if serde_json::to_vec(to).map_or(0, |json| json.len()) > MAX_ATTRIBUTES {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("the attributes of a node have at most {MAX_ATTRIBUTES} bytes as JSON"),
            ));
        }
        Ok(())
    }
}

fn check_cuts(body: &Body, cuts: &[u64]) -> Result<()> {
    if cuts.len() > MAX_CUTS {
        return Err(Error::new(ErrorKind::TooLarge, format!("an append has at most {MAX_CUTS} cut points")));
    }
    if matches!(body, Body::Staged(_)) && !cuts.is_empty() {
        return Err(Error::invalid("a staged body has no cut points: it was cut when it was uploaded"));
    }
    if !cuts.is_sorted_by(|one, next| one < next) || cuts.last().is_some_and(|last| *last > body.size()) {
        return Err(Error::invalid("the cut points of an append increase, and lie within its body"));
    }
    Ok(())
}

fn merge<V: Clone>(into: &mut BTreeMap<String, V>, changes: &BTreeMap<String, Option<V>>) {
    for (key, value) in changes {
        match value {
            Some(value) => into.insert(key.clone(), value.clone()),
            None => into.remove(key),
        };
    }
}

pub(super) fn check_label(what: &str, label: &str) -> Result<()> {
    if label.len() <= MAX_LABEL {
        return Ok(());
    }
    Err(Error::new(ErrorKind::TooLarge, format!("the {what} has at most {MAX_LABEL} bytes")))
}

fn check_snapshot_name(name: &str) -> Result<()> {
    check_label("name of a snapshot", name)?;
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Error::invalid("the name of a snapshot is not empty and has no control characters"));
    }
    // Which moment it would be does not matter here, so neither does the time now.
    match Moment::parse(name, Timestamp(0)) {
        Ok(None) => Ok(()),
        Ok(Some(_)) | Err(_) => Err(Error::invalid(format!(
            "`{name}` cannot name a snapshot: it reads as a sequence, version, date, time or age; \
             add a letter or word to it"
        ))),
    }
}
