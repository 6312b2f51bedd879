//! Import of a tar archive.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use garth_engine::TreePath;
use garth_engine::model::{SetAttrs, Timestamp};
use tar::{Archive, Entry, EntryType};

use super::Exclude;
use super::format::check_start;
use super::load::{Loader, Source, What};
use crate::fail::{Failure, Result};

/// First bytes of gzip.
const GZIP: &[u8] = b"\x1f\x8b";

/// Imports everything in an archive, compressed with gzip or not. `name` names it in errors.
pub(crate) async fn from_tar(
    loader: &mut Loader<'_>,
    exclude: &Exclude,
    from: impl Read,
    name: &Path,
) -> Result {
    let mut from = BufReader::with_capacity(1 << 16, loader.report.interrupt().guard(from));
    let start = from.fill_buf().map_err(Failure::host(name))?;
    check_start(start, name)?;
    let is_gzip = start.starts_with(GZIP);
    // Gzip permits several members in one file.
    let from: Box<dyn Read> = if is_gzip { Box::new(MultiGzDecoder::new(from)) } else { Box::new(from) };
    let mut archive = Archive::new(from);
    let damaged = |error: io::Error| {
        let message = format!("not a tar archive, or damaged: {error}");
        Failure::Host(name.to_owned(), io::Error::new(io::ErrorKind::InvalidData, message))
    };
    let mut is_empty = true;
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        is_empty = false;
        match describe(loader, exclude, &entry) {
            Ok(Some(member)) => add(loader, member, &mut entry).await?,
            Ok(None) => {}
            Err(failure) => loader.fail(failure)?,
        }
    }
    if is_empty {
        let message = "the archive is empty";
        return Err(Failure::Host(name.to_owned(), io::Error::new(io::ErrorKind::UnexpectedEof, message)));
    }
    Ok(())
}

/// Entry of the archive to import.
struct Member {
    /// Name in the archive, for errors.
    name: PathBuf,
    path: TreePath,
    kind: MemberKind,
    mode: u32,
    mtime: Timestamp,
}

enum MemberKind {
    File,
    Directory,
    Symlink(String),
    HardLink(TreePath),
}

/// Returns the description of an entry; `None` if it is to be skipped. An error concerns this entry only.
fn describe(loader: &Loader<'_>, exclude: &Exclude, entry: &Entry<'_, impl Read>) -> Result<Option<Member>> {
    let kind = entry.header().entry_type();
    if matches!(kind, EntryType::XGlobalHeader) {
        return Ok(None); // describes the archive
    }
    let bytes = entry.path_bytes();
    let shown = PathBuf::from(String::from_utf8_lossy(&bytes).into_owned());
    let skip = |why: &str| {
        let error = io::Error::new(io::ErrorKind::InvalidInput, format!("skipped, {why}"));
        Failure::Host(shown.clone(), error)
    };
    let not_utf8 = |_| skip("its name or target is not UTF-8");
    let name = std::str::from_utf8(&bytes).map_err(not_utf8)?;
    // An archive must not choose a path outside of the destination.
    if name.starts_with('/') {
        return Err(skip("its name is an absolute path"));
    }
    let relative = name.trim_start_matches("./").trim_end_matches('/');
    let is_directory = kind == EntryType::Directory;
    if relative.is_empty() || relative == "." || exclude.leaves_out_above(relative, is_directory) {
        return Ok(None);
    }
    let path = loader.path_of(relative).map_err(|error| skip(error.message()))?;
    let link = entry.link_name_bytes().unwrap_or_default();
    let link = std::str::from_utf8(&link).map_err(not_utf8)?;
    let kind = match kind {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => MemberKind::File,
        EntryType::Directory => MemberKind::Directory,
        EntryType::Symlink => MemberKind::Symlink(link.to_owned()),
        EntryType::Link if link.starts_with('/') => {
            return Err(skip("it links to a file outside the archive"));
        }
        EntryType::Link => MemberKind::HardLink(loader.path_of(link).map_err(|error| skip(error.message()))?),
        _ => return Err(skip("neither file, directory nor link")),
    };
    let damaged = |_| skip("its header is damaged");
    let mode = entry.header().mode().map_err(damaged)?;
    let seconds = i64::try_from(entry.header().mtime().map_err(damaged)?).unwrap_or(i64::MAX);
    let mtime = Timestamp(0).plus_seconds(seconds);
    Ok(Some(Member { name: shown.clone(), path, kind, mode, mtime }))
}

/// Imports an entry. Fails only if the import cannot continue.
async fn add(loader: &mut Loader<'_>, member: Member, entry: &mut Entry<'_, impl Read>) -> Result {
    let Member { name, path, kind, mode, mtime } = member;
    let there = match loader.look_up(&path).await {
        Ok(there) => there,
        Err(failure) => return loader.fail(failure),
    };
    let size = entry.size();
    let mut content = Exactly { from: entry, left: size };
    let what = match kind {
        MemberKind::File => What::File { size, content: &mut content, name: &name },
        MemberKind::Directory => What::Directory,
        MemberKind::Symlink(target) => What::Symlink(target),
        MemberKind::HardLink(first) => What::HardLink(first),
    };
    match loader
        .add(path, there.as_ref(), Source { what, mode, mtime, whole_seconds: true, more: SetAttrs::new() })
        .await
    {
        Ok(_) => Ok(()),
        // After a failed read, the position in the archive is not known.
        Err(failure @ Failure::Host(..)) => Err(failure),
        Err(failure) => loader.fail(failure),
    }
}

/// Content of an entry. It fails if the archive ends in it, instead of yielding a shorter file.
struct Exactly<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        if read == 0 && !buffer.is_empty() && self.left > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends in this entry"));
        }
        Ok(read)
    }
}
