//! What an operation addresses and what it does there, for whoever puts other addresses in their place.

use super::{Create, Op, Precondition, RenameMode};
use crate::model::at::At;
use crate::model::id::VersionId;

/// What an operation does at one of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Looks at what is there.
    Read,
    /// Looks at what is there, and at all below it.
    ReadTree,
    /// Changes what is there.
    Write,
    /// Gives what is there another name: the next address.
    Link,
    /// Makes a name, or changes the file that has it.
    Create,
    /// Gives a name to another node, whatever has it.
    Replace,
    /// Takes a name away.
    Remove,
}

impl Access {
    /// Whether it may change something.
    pub fn changes(self) -> bool {
        !matches!(self, Self::Read | Self::ReadTree)
    }
}

impl Op {
    /// Its addresses, in the order in which they are looked up.
    pub fn addresses(&mut self) -> Vec<(&mut At, Access)> {
        match self {
            Self::Write { at, create, .. } | Self::Append { at, create, .. } => {
                let access = if *create == Create::Never { Access::Write } else { Access::Create };
                vec![(at, access)]
            }
            Self::Patch { at, .. }
            | Self::Truncate { at, .. }
            | Self::Punch { at, .. }
            | Self::SetAttrs { at, .. } => vec![(at, Access::Write)],
            Self::Mkdir { at, .. } | Self::Symlink { at, .. } | Self::Mknod { at, .. } => {
                vec![(at, Access::Create)]
            }
            Self::Link { from, to, .. } => vec![(from, Access::Link), (to, Access::Create)],
            Self::Remove { at, .. } => vec![(at, Access::Remove)],
            Self::Rename { from, to, mode: RenameMode::Exchange, .. } => {
                vec![(from, Access::Replace), (to, Access::Replace)]
            }
            Self::Rename { from, to, .. } => vec![(from, Access::Remove), (to, Access::Replace)],
            Self::Copy { from, to, .. } => vec![(from, Access::ReadTree), (to, Access::Create)],
            Self::CopyRange { from, to, .. } => vec![(from, Access::Read), (to, Access::Write)],
            Self::Check { at, .. } => vec![(at, Access::Read)],
            Self::Snapshot { .. } | Self::DropSnapshot { .. } => Vec::new(),
        }
    }

    /// The address of the node that the outcome tells of; `None` for the root.
    pub(crate) fn told_of(&self) -> Option<&At> {
        match self {
            Self::Write { at, .. }
            | Self::Append { at, .. }
            | Self::Patch { at, .. }
            | Self::Truncate { at, .. }
            | Self::Punch { at, .. }
            | Self::SetAttrs { at, .. }
            | Self::Mkdir { at, .. }
            | Self::Symlink { at, .. }
            | Self::Mknod { at, .. }
            | Self::Remove { at, .. }
            | Self::Check { at, .. } => Some(at),
            Self::Link { from, .. } | Self::Rename { from, .. } => Some(from),
            Self::Copy { to, .. } | Self::CopyRange { to, .. } => Some(to),
            Self::Snapshot { .. } | Self::DropSnapshot { .. } => None,
        }
    }
}

impl Precondition {
    /// The versions that it names.
    pub fn versions(&mut self) -> Vec<&mut VersionId> {
        match self {
            Self::Version(version) | Self::Etag(version) => vec![version],
            Self::EtagIn(versions) => versions.iter_mut().collect(),
            Self::Not(that) => that.versions(),
            Self::Absent | Self::Exists | Self::Sha256(_) => Vec::new(),
        }
    }
}
