//! Small files: complete reads of several at one point in time, and their common forms.

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use garth_engine::compute::working;
use garth_engine::error::{Advice, Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ByteRange, Entry, Kind, Moment, Precondition, Seq, Timestamp, VersionId, hex};
use garth_engine::path::TreePath;

/// Permission bits by which a file is a program.
pub(crate) const EXECUTABLE: u32 = 0o111;

/// Small file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Version of its content.
    pub etag: VersionId,
    /// False for a directory or link in the place of a file, which has no content.
    pub is_file: bool,
    /// File, directory or link.
    pub kind: Kind,
    /// Size in bytes, also if less of it was read.
    pub size: u64,
    /// Number of its names.
    pub nlink: u64,
    /// Permission bits.
    pub mode: u32,
    /// Content; `None` if it exceeds the limit.
    pub bytes: Option<Vec<u8>>,
    /// Custom metadata.
    pub metadata: BTreeMap<String, String>,
    /// Expiry time, from which on it is absent.
    pub expires_at: Option<Timestamp>,
}

impl File {
    /// Returns the file of an entry.
    pub(crate) fn of(entry: &Entry, bytes: Option<Vec<u8>>) -> Self {
        Self {
            etag: entry.etag,
            is_file: entry.is_file(),
            kind: entry.kind,
            size: entry.size,
            nlink: entry.nlink,
            mode: entry.mode,
            bytes,
            metadata: entry.attributes.metadata.clone(),
            expires_at: entry.expires_at,
        }
    }

    /// Returns the text; `None` if it is too long or not UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes.as_ref()?).ok()
    }

    /// Returns true for a program.
    pub(crate) fn is_executable(&self) -> bool {
        self.mode & EXECUTABLE != 0
    }

    /// Returns the content.
    ///
    /// # Errors
    /// `InvalidArgument` with the reason if there is none.
    pub(crate) fn read(&self) -> Result<&[u8]> {
        let why = if self.is_file { "is too long" } else { "is a directory or a link" };
        self.bytes.as_deref().ok_or_else(|| Error::invalid(why))
    }
}

/// Returns the error of a file of garth that cannot be read because another program wrote it: `Corrupt`, at
/// the path of the file. `how` describes the repair.
pub(crate) fn unreadable(path: &TreePath, why: &str, how: &str) -> Error {
    Error::at(ErrorKind::Corrupt, path, format!("cannot be read: {why}; {how}"))
}

/// As [`unreadable`], for a file that a command repairs.
pub(crate) fn repairable(path: &TreePath, why: &str, how: &str) -> Error {
    Error::at(ErrorKind::Corrupt, path, format!("cannot be read: {why}")).advising(Advice::Command, how)
}

/// Returns the condition that a file is unchanged since it was read.
pub(crate) fn as_read(file: Option<&File>) -> Precondition {
    file.map_or(Precondition::Absent, |file| Precondition::Etag(file.etag))
}

/// Returns true if a read found no file at its path: nothing, a directory, or a node without content.
pub(crate) fn is_no_file(error: &Error) -> bool {
    error.is_absent() || error.is(ErrorKind::IsADirectory) || error.is(ErrorKind::NotPermitted)
}

/// Reads small files of at most `limit` bytes each, all at one point in time. A directory or link in the
/// place of a file is returned without content: it is not absent, and a write there would fail.
pub(crate) async fn read_all(
    fs: &dyn FileSystem,
    paths: &[TreePath],
    limit: usize,
) -> Result<Vec<Option<File>>> {
    Ok(read_with_seq(fs, paths, limit, usize::MAX).await?.1)
}

/// Reads small files as [`read_all`] does. Also returns the commit after which they were read. After the
/// files have more than `most` bytes together, the others count as too long.
pub(crate) async fn read_with_seq(
    fs: &dyn FileSystem,
    paths: &[TreePath],
    limit: usize,
    most: usize,
) -> Result<(Seq, Vec<Option<File>>)> {
    // One extra byte shows that a file is too long.
    let range = ByteRange { offset: 0, length: limit as u64 + 1 };
    let mut items: Vec<_> = paths.iter().map(|path| (At::from(path), range)).collect();
    let (mut files, mut now, mut seq) = (Vec::with_capacity(items.len()), None, Seq::default());
    let (mut left, mut is_full) = (most, false);
    while files.len() < items.len() {
        let moment: &dyn FileSystem = now.as_deref().unwrap_or(fs);
        let fetched = moment.fetch_many(&items[files.len()..]).await?;
        if fetched.items.is_empty() {
            return Err(Error::new(ErrorKind::Io, "the storage returned no answer"));
        }
        if files.is_empty() {
            // The first answer sets the point in time, as of which the others are read.
            seq = fetched.seq.unwrap_or_default();
        }
        for answer in fetched.items {
            files.push(match answer {
                Ok((entry, bytes)) => {
                    let fits = bytes.len() <= left && !is_full;
                    // From here on no file is returned with its content, not even a small one.
                    is_full |= !fits;
                    left -= if fits { bytes.len() } else { 0 };
                    let bytes = (fits && bytes.len() <= limit).then(|| bytes.to_vec());
                    Some(File::of(&entry, bytes))
                }
                Err(error) if error.is_absent() => None,
                Err(error) if is_no_file(&error) => {
                    // If it was moved away since, another writer did that, and the commit conflicts with it.
                    let there = moment.stat(&items[files.len()].0).await.optional()?;
                    there.map(|entry| File::of(&entry, None))
                }
                Err(error) => return Err(error),
            });
        }
        if is_full {
            // Only their versions are needed.
            items[files.len()..].iter_mut().for_each(|(_, range)| range.length = 0);
        }
        // The answer had room for some files only. The others are read as of the same commit.
        if let Some(seq) = fetched.seq
            && files.len() < items.len()
            && now.is_none()
            && fs.capabilities(&paths[0]).history
        {
            now = Some(fs.as_of(&Moment::Seq(seq)).await?);
        }
    }
    Ok((seq, files))
}

/// Returns JSON in the form of small files: one field a line, with a line feed at the end.
///
/// # Errors
/// `InvalidArgument` for a value that has no JSON form.
pub(crate) fn pretty<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    Ok(serde_json::to_string_pretty(value).map_err(|error| no_json(&error))? + "\n")
}

/// Returns JSON as a line of a log or index, with its line feed.
///
/// # Errors
/// `InvalidArgument` for a value that has no JSON form.
pub(crate) fn line<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    Ok(serde_json::to_string(value).map_err(|error| no_json(&error))? + "\n")
}

fn no_json(error: &serde_json::Error) -> Error {
    Error::invalid(format!("has no JSON form: {error}"))
}

/// Returns the SHA-256 of some bytes, in 64 hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    working(bytes.len());
    hex(&Sha256::digest(bytes))
}
