//! Limits on what the operations of a batch do together, for work that their length does not show. Without
//! them, a batch of a few operations could create any number of rows in one commit, or take hours.

use std::cell::Cell;

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::model::{
    Attributes, MAX_COPIED_NAMES, MAX_COPIED_PIECES, MAX_EXAMINED, MAX_NEW_NAMES, MAX_NEW_PATH_BYTES,
    MAX_SET_ATTRIBUTES,
};

/// Limit on the names of expired entries that one commit ends. Small in tests, which need the names.
const MAX_EXPIRED_NAMES: usize = if cfg!(test) { 1000 } else { MAX_NEW_NAMES };

/// Counts of what the operations of a batch have done so far.
#[derive(Default)]
pub(super) struct Totals {
    /// Names that operations have given.
    names: usize,
    /// Bytes of the paths of these names, and of others that the delta or the log holds.
    path_bytes: usize,
    /// Names that have ended because their nodes have expired.
    expired_names: usize,
    /// Bytes of the paths of these names.
    expired_bytes: usize,
    /// Weight of the attributes that operations have set and copied.
    attributes: usize,
    /// Names that copies have created.
    copied_names: usize,
    /// Extents that copies have created.
    copied_pieces: usize,
    /// Names that operations have gone through.
    examined: Cell<usize>,
    /// Names that the operations before this one have gone through.
    examined_before: usize,
}

impl Totals {
    /// Counts a name that is about to be given, with a path of `bytes` bytes.
    pub(super) fn name(&mut self, bytes: usize) -> Result<()> {
        count((&mut self.names, MAX_NEW_NAMES), 1, |most| {
            format!("a batch gives at most {most} names, those of missing parents included; split it")
        })?;
        self.path(bytes)
    }

    /// Counts the names of an expired node, which are about to end, and the bytes of their paths. The first
    /// node is never refused: otherwise nothing could end a node with that many names.
    pub(super) fn expired_names(&mut self, names: usize, bytes: usize) -> Result<()> {
        if self.expired_names > MAX_EXPIRED_NAMES || self.expired_bytes > MAX_NEW_PATH_BYTES {
            let message = format!(
                "a commit ends at most {MAX_EXPIRED_NAMES} names of expired entries, with {MAX_NEW_PATH_BYTES} bytes \
                 of paths"
            );
            let advice = "collect garbage first (`garth gc`), or split the batch";
            return Err(Error::new(ErrorKind::TooLarge, message).advising(Advice::Command, advice));
        }
        self.expired_names += names;
        self.expired_bytes += bytes;
        Ok(())
    }

    /// Counts a path of `bytes` bytes that the delta or the log is about to hold.
    pub(super) fn path(&mut self, bytes: usize) -> Result<()> {
        count((&mut self.path_bytes, MAX_NEW_PATH_BYTES), bytes, |most| {
            format!(
                "the paths of the names that a batch gives and takes have at most {most} bytes; split it, or \
                 use shorter paths"
            )
        })
    }

    /// Counts attributes that are about to be set or copied, with the target of a symbolic link.
    pub(super) fn attributes(&mut self, attributes: &Attributes, target: Option<&str>) -> Result<()> {
        let weight = attributes.weight() + target.map_or(0, str::len);
        count((&mut self.attributes, MAX_SET_ATTRIBUTES), weight, |most| {
            format!("the attributes that a batch sets and copies have at most {most} bytes; split it")
        })
    }

    /// Begins the next operation.
    pub(super) fn begin(&mut self) {
        self.examined_before = self.examined.get();
    }

    /// Counts names that an operation goes through, of the database or of the batch. Once the operations
    /// before it have gone through too many, it is refused. Alone it never is: a directory of any size can be
    /// moved.
    pub(super) fn examine(&self, names: usize) -> Result<()> {
        if names > 0 && self.examined_before >= MAX_EXAMINED {
            let message = format!(
                "the moves and removals of a batch, and its operations on nodes with many names, go through at \
                 most {MAX_EXAMINED} names; split it"
            );
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        self.examined.set(self.examined.get().saturating_add(names));
        Ok(())
    }

    /// Returns the number of names that operations have gone through.
    #[cfg(test)]
    pub(super) fn examined(&self) -> usize {
        self.examined.get()
    }

    /// Counts names that a copy is about to create.
    pub(super) fn copied_names(&mut self, more: usize) -> Result<()> {
        let advice = "names; copy the directories below one by one, each in a commit of its own";
        count((&mut self.copied_names, MAX_COPIED_NAMES), more, |most| copies_make(most, advice))
    }

    /// Counts extents that a copy is about to create.
    pub(super) fn copied_pieces(&mut self, more: usize) -> Result<()> {
        let advice = "pieces of content; copy it in parts, each in a commit of its own";
        count((&mut self.copied_pieces, MAX_COPIED_PIECES), more, |most| copies_make(most, advice))
    }
}

fn copies_make(most: usize, advice: &str) -> String {
    format!("the copies of a batch make at most {most} {advice}")
}

fn count((all, most): (&mut usize, usize), more: usize, message: impl FnOnce(usize) -> String) -> Result<()> {
    // Does not underflow: a refused count is not added.
    if more > most - *all {
        return Err(Error::new(ErrorKind::TooLarge, message(most)));
    }
    *all += more;
    Ok(())
}
