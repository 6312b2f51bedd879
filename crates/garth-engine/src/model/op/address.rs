//! Addresses of an operation, and what it does there, for views that replace them.

use super::{Create, Op, Precondition, Remove, RenameMode};
use crate::model::at::At;
use crate::model::id::VersionId;

/// Effect of an operation at one of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads the node.
    Read,
    /// Reads the node and everything below it.
    ReadTree,
    /// Reads the node and everything below it as of a past commit.
    ReadPast,
    /// Names the state of the complete tree.
    Snapshot,
    /// Changes the node.
    Write,
    /// Gives the node another name: the next address.
    Link,
    /// Creates a name, or changes the file that has it.
    Create,
    /// Gives a name to another node, whatever has it.
    Replace,
    /// Takes a name away, and gives the node another one: the next address.
    Move,
    /// Gives a name to the node of the other address, and the other way round.
    Exchange,
    /// Takes a name away.
    Remove,
    /// Takes a name away, with everything below it.
    RemoveTree,
}

impl Access {
    /// Returns true if the operation may change something there.
    pub fn changes(self) -> bool {
        !matches!(self, Self::Read | Self::ReadTree | Self::ReadPast | Self::Snapshot)
    }
}

impl Op {
    /// Returns the addresses, in the order in which they are looked up.
    #[doc(hidden)]
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
            Self::Remove { at, what: Remove::Tree, .. } => vec![(at, Access::RemoveTree)],
            Self::Remove { at, .. } => vec![(at, Access::Remove)],
            Self::Rename { from, to, mode: RenameMode::Exchange, .. } => {
                vec![(from, Access::Exchange), (to, Access::Exchange)]
            }
            Self::Rename { from, to, .. } => vec![(from, Access::Move), (to, Access::Replace)],
            Self::Copy { from, to, as_of, .. } => {
                let from_access = if as_of.is_some() { Access::ReadPast } else { Access::ReadTree };
                vec![(from, from_access), (to, Access::Create)]
            }
            Self::CopyRange { from, to, .. } => vec![(from, Access::Read), (to, Access::Write)],
            Self::Check { at, .. } => vec![(at, Access::Read)],
            Self::Snapshot { .. } | Self::DropSnapshot { .. } | Self::Misused { .. } => Vec::new(),
        }
    }

    /// Returns true if the operation sets an expiry on the nodes that it writes.
    pub(crate) fn expires(&self) -> bool {
        match self {
            Self::Write { attrs, .. }
            | Self::Mkdir { attrs, .. }
            | Self::Symlink { attrs, .. }
            | Self::Mknod { attrs, .. }
            | Self::SetAttrs { attrs, .. } => matches!(attrs.expires_at, Some(Some(_))),
            _ => false,
        }
    }

    /// Returns the address of the node that the outcome is about; `None` for the root.
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
            Self::Snapshot { .. } | Self::DropSnapshot { .. } | Self::Misused { .. } => None,
        }
    }
}

impl Precondition {
    /// Returns the versions in the condition.
    pub fn versions(&mut self) -> Vec<&mut VersionId> {
        match self {
            Self::Version(version) | Self::Etag(version) => vec![version],
            Self::EtagIn(versions) => versions.iter_mut().collect(),
            Self::Not(that) => that.versions(),
            Self::Absent | Self::Exists | Self::Sha256(_) => Vec::new(),
        }
    }
}
