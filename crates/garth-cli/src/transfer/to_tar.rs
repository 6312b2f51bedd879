//! A tar archive as a target, written as it streams.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use garth::model::Entry;
use tar::{Builder, EntryType, Header};

use super::save::Target;
use crate::fail::{Failure, Result};

/// Longest name that a header holds itself, in bytes; longer ones go before it, in the GNU way.
const MAX_LINK_NAME: usize = 100;

/// An archive in the making.
pub(crate) struct Tar<W: Write> {
    builder: Builder<W>,
    name: PathBuf,
}

impl<W: Write> Tar<W> {
    /// Writes to `to`; `name` is what it is called in errors.
    pub(crate) fn new(to: W, name: &Path) -> Self {
        Self { builder: Builder::new(to), name: name.to_owned() }
    }

    fn failure(&self) -> impl FnOnce(io::Error) -> Failure + use<W> {
        let name = self.name.clone();
        move |error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Pipe,
            _ => Failure::host(&name)(error),
        }
    }
}

/// A header with everything but name, target and checksum. Times have whole seconds; one before 1970 becomes 0.
fn header(kind: EntryType, entry: &Entry, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(entry.mode);
    header.set_uid(entry.uid.into());
    header.set_gid(entry.gid.into());
    header.set_mtime(u64::try_from(entry.mtime.0.div_euclid(1_000_000_000)).unwrap_or(0));
    header
}

impl<W: Write> Target for Tar<W> {
    fn directory(&mut self, path: &str, entry: &Entry) -> Result {
        let mut header = header(EntryType::Directory, entry, 0);
        let failure = self.failure();
        self.builder.append_data(&mut header, format!("{path}/"), io::empty()).map_err(failure)
    }

    fn file(&mut self, path: &str, entry: &Entry, content: &mut dyn Read) -> Result {
        let mut header = header(EntryType::Regular, entry, entry.size);
        let failure = self.failure();
        self.builder.append_data(&mut header, path, content.take(entry.size)).map_err(failure)
    }

    fn symlink(&mut self, path: &str, entry: &Entry, target: &str) -> Result {
        let mut header = header(EntryType::Symlink, entry, 0);
        let failure = self.failure();
        if target.len() > MAX_LINK_NAME {
            return self.builder.append_link(&mut header, path, target).map_err(failure);
        }
        // To the letter: `append_link` would tidy `a//b`.
        let set = header.set_link_name_literal(target);
        set.and_then(|()| self.builder.append_data(&mut header, path, io::empty())).map_err(failure)
    }

    fn hard_link(&mut self, path: &str, entry: &Entry, first: &str) -> Result {
        let mut header = header(EntryType::Link, entry, 0);
        let failure = self.failure();
        self.builder.append_link(&mut header, path, first).map_err(failure)
    }

    fn finish(&mut self) -> Result {
        let failure = self.failure();
        self.builder.finish().and_then(|()| self.builder.get_mut().flush()).map_err(failure)
    }
}
