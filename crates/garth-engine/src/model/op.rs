//! Operations of a batch, and the limits on their values.

mod address;
mod body;
mod new;

pub use address::Access;
pub use body::{Body, StagedBody};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::at::At;
use super::entry::{Attributes, OF_TEXT, OWN_ATTRIBUTES, is_own};
use super::id::{Seq, Timestamp, VersionId};
use super::query::Moment;
use crate::error::{Error, ErrorKind, Result};

/// Largest file, in bytes (8 TiB): keeps every offset well inside a signed 64-bit integer.
pub const MAX_FILE: u64 = 1 << 43;

/// Limit on the names of one node. ext4 has 65,000.
pub const MAX_LINKS: u64 = 65_000;

/// Longest target of a symbolic link, in bytes. Linux `PATH_MAX`.
pub const MAX_TARGET: usize = 4096;

/// Largest attributes of one node, in bytes of their JSON form.
pub const MAX_ATTRIBUTES: usize = 256 << 10;

/// Longest message, author field, idempotency key or snapshot name, in bytes.
pub const MAX_LABEL: usize = 4096;

/// Limit on the versions of one [`Precondition::EtagIn`].
pub const MAX_ETAGS: usize = 1000;

/// Limit on the cut points of one [`Op::Append`].
pub const MAX_CUTS: usize = 10_000;

/// Limit on the bytes that all conditions of one batch hash ([`Precondition::Sha256`]), 64 MiB. Other commits
/// wait while a batch hashes.
pub const MAX_HASHED: u64 = 64 << 20;

/// Condition on one name or node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// The node is missing (a lookup fails with `NotFound` or `NotADirectory`).
    Absent,
    /// The node exists.
    Exists,
    /// The node exists, and its last change of any kind was this version.
    Version(VersionId),
    /// The node exists, and its last change of content was this version (HTTP `If-Match`).
    Etag(VersionId),
    /// The node exists, and its last change of content was one of these versions, at most [`MAX_ETAGS`].
    /// Never holds for an empty list.
    EtagIn(#[serde(deserialize_with = "crate::model::bounded::items")] Vec<VersionId>),
    /// The node is a file whose content has this SHA-256. Over [`MAX_HASHED`]: `TooLarge`; ask for the etag
    /// instead.
    Sha256(#[serde(with = "crate::model::json::hash")] [u8; 32]),
    /// The other condition does not hold: `Not(Etag)` also holds for a missing node (HTTP `If-None-Match`). A
    /// `Not` of a `Not` is `InvalidArgument`.
    Not(Box<Precondition>),
}

impl Precondition {
    /// Returns the condition that this one does not hold.
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

/// Treatment of a missing or existing file by a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Create {
    /// Creates a missing file (`O_CREAT`).
    #[default]
    IfMissing,
    /// Requires an existing file: otherwise `NotFound`.
    Never,
    /// Requires a missing file (`O_CREAT|O_EXCL`): otherwise `AlreadyExists`, whatever exists.
    New,
}

/// One step of a batch. The constructors set the usual values, options the others:
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
    /// Operation of [`Op::write`].
    #[doc(hidden)]
    Write {
        /// Address. `At::Node` only for a file that exists.
        at: At,
        /// New content.
        body: Body,
        /// Permission to create the file.
        #[serde(default)]
        create: Create,
        /// Creates missing parents.
        #[serde(default)]
        parents: bool,
        /// Attributes to set.
        #[serde(default)]
        attrs: SetAttrs,
    },
    /// Operation of [`Op::append`].
    #[doc(hidden)]
    Append {
        /// Address.
        at: At,
        /// Bytes to add.
        body: Body,
        /// Permission to create the file.
        #[serde(default)]
        create: Create,
        /// Creates missing parents.
        #[serde(default)]
        parents: bool,
        /// Offsets in the body at which pieces begin or end, in increasing order, from 0 to its size. More
        /// than [`MAX_CUTS`]: `TooLarge`. Offsets out of order or range: `InvalidArgument`, and also any
        /// offset for a staged body, which was cut when it was uploaded.
        #[serde(
            default,
            deserialize_with = "crate::model::bounded::items",
            skip_serializing_if = "Vec::is_empty"
        )]
        cuts: Vec<u64>,
    },
    /// Operation of [`Op::patch`].
    #[doc(hidden)]
    Patch {
        /// Address of the file.
        at: At,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Bytes to write.
        body: Body,
    },
    /// Operation of [`Op::truncate`].
    #[doc(hidden)]
    Truncate {
        /// Address of the file.
        at: At,
        /// New size, in bytes.
        size: u64,
    },
    /// Operation of [`Op::punch`].
    #[doc(hidden)]
    Punch {
        /// Address of the file.
        at: At,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Length of the range, in bytes.
        length: u64,
    },
    /// Operation of [`Op::copy_range`].
    #[doc(hidden)]
    CopyRange {
        /// Address of the source file.
        from: At,
        /// Offset in the source, in bytes.
        from_offset: u64,
        /// Limit on the bytes.
        length: u64,
        /// Address of the target file.
        to: At,
        /// Offset in the target, in bytes; a gap before it reads as zeros.
        to_offset: u64,
    },
    /// Operation of [`Op::mkdir`].
    #[doc(hidden)]
    Mkdir {
        /// Address.
        at: At,
        /// Creates missing parents; accepts an existing directory.
        #[serde(default)]
        parents: bool,
        /// Attributes to set.
        #[serde(default)]
        attrs: SetAttrs,
    },
    /// Operation of [`Op::symlink`].
    #[doc(hidden)]
    Symlink {
        /// Address.
        at: At,
        /// Target of the link.
        target: String,
        /// Creates missing parents.
        #[serde(default)]
        parents: bool,
        /// Attributes to set.
        #[serde(default)]
        attrs: SetAttrs,
    },
    /// Operation of [`Op::mknod`].
    #[doc(hidden)]
    Mknod {
        /// Address.
        at: At,
        /// Kind of the node.
        node: Special,
        /// Creates missing parents.
        #[serde(default)]
        parents: bool,
        /// Attributes to set.
        #[serde(default)]
        attrs: SetAttrs,
    },
    /// Operation of [`Op::link`].
    #[doc(hidden)]
    Link {
        /// Address of the node.
        from: At,
        /// New name.
        to: At,
        /// Creates missing parents.
        #[serde(default)]
        parents: bool,
    },
    /// Operation of [`Op::remove`].
    #[doc(hidden)]
    Remove {
        /// Name to remove.
        at: At,
        /// Kinds of nodes that may be removed.
        what: Remove,
        /// Accepts a missing name (`NotFound` or `NotADirectory` of the lookup).
        #[serde(default)]
        missing_ok: bool,
    },
    /// Operation of [`Op::rename`].
    #[doc(hidden)]
    Rename {
        /// Old name.
        from: At,
        /// New name.
        to: At,
        /// Behaviour if `to` exists.
        #[serde(default)]
        mode: RenameMode,
        /// Creates missing parents of `to`.
        #[serde(default)]
        parents: bool,
    },
    /// Operation of [`Op::copy`].
    #[doc(hidden)]
    Copy {
        /// Address of the source.
        from: At,
        /// Commit as of which the source is copied.
        #[serde(default)]
        as_of: Option<Seq>,
        /// New name.
        to: At,
        /// Allows a directory, with everything below it.
        #[serde(default)]
        recursive: bool,
        /// Allows a file in place of a file.
        #[serde(default)]
        replace: bool,
        /// Creates missing parents of `to`.
        #[serde(default)]
        parents: bool,
    },
    /// Operation of [`Op::set_attrs`].
    #[doc(hidden)]
    SetAttrs {
        /// Address of the node.
        at: At,
        /// Changes to make.
        attrs: SetAttrs,
    },
    /// Operation of [`Op::check`].
    #[doc(hidden)]
    Check {
        /// Address of the node.
        at: At,
        /// Condition that must hold.
        that: Precondition,
    },
    /// Operation of [`Op::snapshot`].
    #[doc(hidden)]
    Snapshot {
        /// Name of the snapshot.
        name: String,
    },
    /// Operation of [`Op::drop_snapshot`].
    #[doc(hidden)]
    DropSnapshot {
        /// Name of the snapshot.
        name: String,
    },
    /// Operation that was given an option which it lacks, such as [`Op::create_new`] for a removal. The batch
    /// is refused before any of its operations: `InvalidArgument`. It has no serialized form.
    #[serde(skip)]
    #[doc(hidden)]
    Misused {
        /// Reason, for the caller.
        reason: String,
    },
}

/// Node that a removal expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remove {
    /// Anything but a directory (`unlink`): otherwise `IsADirectory`.
    File,
    /// An empty directory (`rmdir`): otherwise `NotADirectory` or `NotEmpty`.
    Directory,
    /// Either of these.
    Any,
    /// Anything, with everything below it (`rm -r`).
    Tree,
}

/// Behaviour of a rename when the new name is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenameMode {
    /// Replaces it, as POSIX does.
    #[default]
    Replace,
    /// Fails with `AlreadyExists`: `RENAME_NOREPLACE`.
    NoReplace,
    /// Swaps the two: `RENAME_EXCHANGE`.
    Exchange,
}

/// Node that is neither file, directory nor link.
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
    /// Mark that hides a name of a lower layer.
    Whiteout,
}

/// Changes of attributes. `None` leaves a field as it is; in `Option<Option<_>>`, `Some(None)` clears it; in
/// the maps, `None` removes a key (a missing one is accepted).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SetAttrs {
    /// Permission bits, `0o7777` at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub mode: Option<u32>,
    /// Owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub uid: Option<u32>,
    /// Group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub gid: Option<u32>,
    /// Last read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub atime: Option<Timestamp>,
    /// Last change of content.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub mtime: Option<Timestamp>,
    /// MIME type.
    #[serde(deserialize_with = "crate::model::json::nullable", skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub content_type: Option<Option<String>>,
    /// Labels, replacing all existing ones.
    #[serde(
        deserialize_with = "crate::model::bounded::items_or_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[doc(hidden)]
    pub tags: Option<Vec<String>>,
    /// Weight; finite.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub importance: Option<f64>,
    /// Visibility of the content to search.
    #[serde(deserialize_with = "crate::model::json::nullable", skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub searchable: Option<Option<bool>>,
    /// Custom metadata to set or remove.
    #[serde(deserialize_with = "crate::model::bounded::entries", skip_serializing_if = "BTreeMap::is_empty")]
    #[doc(hidden)]
    pub metadata: BTreeMap<String, Option<String>>,
    /// Extended attributes to set or remove.
    #[serde(deserialize_with = "crate::model::bounded::entries", skip_serializing_if = "BTreeMap::is_empty")]
    #[doc(hidden)]
    pub xattrs: BTreeMap<String, Option<Vec<u8>>>,
    /// Time from which the entry is absent. A time in the past removes it at once.
    #[serde(deserialize_with = "crate::model::json::nullable", skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub expires_at: Option<Option<Timestamp>>,
}

impl Op {
    /// Returns the content of this operation.
    #[doc(hidden)]
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

    /// Returns about the bytes of memory that its attributes and cut points take, which may be ten times
    /// those of their JSON. [`MAX_SET_ATTRIBUTES`](super::MAX_SET_ATTRIBUTES) limits the sum of a batch;
    /// whoever reads one operation after the other checks it meanwhile.
    #[doc(hidden)]
    pub fn weight(&self) -> usize {
        match self {
            Self::Write { attrs, .. }
            | Self::Mkdir { attrs, .. }
            | Self::Symlink { attrs, .. }
            | Self::Mknod { attrs, .. }
            | Self::SetAttrs { attrs, .. } => attrs.weight(),
            Self::Append { cuts, .. } => size_of::<u64>() * cuts.len(),
            Self::Patch { .. }
            | Self::Truncate { .. }
            | Self::Punch { .. }
            | Self::CopyRange { .. }
            | Self::Link { .. }
            | Self::Remove { .. }
            | Self::Rename { .. }
            | Self::Copy { .. }
            | Self::Check { .. }
            | Self::Snapshot { .. }
            | Self::DropSnapshot { .. }
            | Self::Misused { .. } => 0,
        }
    }

    /// Refuses attributes of garth itself.
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
                    format!("{name}: attributes named `{OWN_ATTRIBUTES}*` are reserved; leave it out");
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
    /// Returns about the bytes of memory that they take.
    #[doc(hidden)]
    pub fn weight(&self) -> usize {
        let tags = self.tags.iter().flatten().map(|tag| OF_TEXT + tag.len());
        let value = |value: Option<usize>| value.unwrap_or_default();
        let metadata = self
            .metadata
            .iter()
            .map(|(key, text)| OF_TEXT + key.len() + value(text.as_ref().map(String::len)));
        let xattrs =
            self.xattrs.iter().map(|(key, bytes)| OF_TEXT + key.len() + value(bytes.as_ref().map(Vec::len)));
        tags.chain(metadata).chain(xattrs).sum()
    }

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

    /// Returns true if there are changes beyond mode, owner, times and expiry.
    pub(crate) fn has_attributes(&self) -> bool {
        let Self { content_type, tags, importance, searchable, metadata, xattrs, .. } = self;
        let is_empty = metadata.is_empty() && xattrs.is_empty();
        content_type.is_some() || tags.is_some() || importance.is_some() || searchable.is_some() || !is_empty
    }

    /// Applies everything but mode, owner, times and expiry. Engines share it, so that there is one limit.
    ///
    /// # Errors
    /// `TooLarge` if the result exceeds [`MAX_ATTRIBUTES`].
    #[doc(hidden)]
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
    // The time does not matter: only whether the name has one of these forms.
    match Moment::parse(name, Timestamp(0)) {
        Ok(None) => Ok(()),
        Ok(Some(_)) | Err(_) => Err(Error::invalid(format!(
            "`{name}` cannot name a snapshot: it reads as a sequence, version, date, time or age; \
             add a letter or word to it"
        ))),
    }
}
