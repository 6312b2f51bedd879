//! A tar archive as a source of entries.

use std::io::{BufReader, Read};
use std::path::Path;

use garth::model::Timestamp;
use garth::{Error, ErrorKind};
use tar::{Archive, Entry, EntryType};

use super::load::{Loader, Make, utf8};
use crate::body::read_body;
use crate::fail::{Failure, Result};

/// First bytes of gzip, zstd, xz and bzip2.
const COMPRESSED: [&[u8]; 4] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh"];

/// Reads everything in an archive. `name` is what it is called in errors.
pub(crate) async fn from_tar(loader: &mut Loader<'_>, from: impl Read, name: &Path) -> Result {
    let mut from = BufReader::with_capacity(1 << 16, from);
    let start = std::io::BufRead::fill_buf(&mut from).map_err(Failure::host(name))?;
    if COMPRESSED.iter().any(|magic| start.starts_with(magic)) {
        let message =
            format!("{}: compressed; pipe it: gzip -dc FILE | garth import - [DEST]", name.display());
        return Err(Failure::Usage(message));
    }
    let mut archive = Archive::new(from);
    let not_tar = |error: std::io::Error| {
        let message = format!("{}: not a tar archive, or damaged: {error}", name.display());
        Failure::Tree(Error::new(ErrorKind::InvalidArgument, message))
    };
    for entry in archive.entries().map_err(not_tar)? {
        let mut entry = entry.map_err(not_tar)?;
        match one(loader, &mut entry).await {
            Ok(()) => {}
            // What comes after a failed read of the archive cannot be trusted.
            Err(failure) if failure.code() == 7 => return Err(failure),
            Err(failure) => loader.fail(failure)?,
        }
    }
    Ok(())
}

async fn one(loader: &mut Loader<'_>, entry: &mut Entry<'_, impl Read>) -> Result {
    let kind = entry.header().entry_type();
    if matches!(kind, EntryType::XGlobalHeader) {
        return Ok(()); // says something of the archive, is nothing in it
    }
    let bytes = entry.path_bytes().into_owned();
    let shown = String::from_utf8_lossy(&bytes).into_owned();
    let name = utf8(&bytes, &shown)?;
    let refuse = |why: &str| Error::new(ErrorKind::InvalidArgument, format!("{shown}: not imported, {why}"));
    if name.starts_with('/') {
        return Err(refuse("its name is not relative").into());
    }
    let relative = name.trim_start_matches("./").trim_end_matches('/');
    if relative.is_empty() || relative == "." || loader.exclude.leaves_out_above(relative) {
        return Ok(());
    }
    let path = loader.path_of(relative).map_err(|error| refuse(error.message()))?;
    let link = entry.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
    let damaged = |_| refuse("its header is damaged");
    let mode = entry.header().mode().map_err(damaged)?;
    let seconds = i64::try_from(entry.header().mtime().map_err(damaged)?).unwrap_or(i64::MAX);
    let mtime = Timestamp(0).plus_seconds(seconds);
    let make = match kind {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let size = entry.size();
            let body = read_body(&*loader.tree.fs, entry, Path::new(&shown)).await?;
            if body.size() != size {
                return Err(Error::new(ErrorKind::Io, format!("{shown}: the archive ends in it")).into());
            }
            Make::File(body)
        }
        EntryType::Directory => Make::Directory,
        EntryType::Symlink => Make::Symlink(utf8(&link, &shown)?.to_owned()),
        EntryType::Link => {
            let link = utf8(&link, &shown)?;
            if link.starts_with('/') {
                return Err(refuse("it links to what is not in the archive").into());
            }
            Make::HardLink(loader.path_of(link).map_err(|error| refuse(error.message()))?)
        }
        _ => return Err(refuse("neither file, directory nor link").into()),
    };
    loader.add(path, make, mode, mtime).await
}
