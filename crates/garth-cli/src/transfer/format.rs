//! Archive formats, recognised by file name and by first bytes.

use std::path::Path;

use crate::fail::{Failure, Result};

/// Archive format that import reads and export writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Tar,
    TarGz,
}

/// First bytes of compressed data, and the tool that decompresses it. gzip needs none.
const MAGIC: [(&[u8], &str); 3] = [(b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ", "xz"), (b"BZh", "bzip2")];

/// File name endings, with the tool for formats that garth does not compress itself.
const ENDINGS: [(&str, Result<Format, &str>); 10] = [
    (".tar", Ok(Format::Tar)),
    (".tar.gz", Ok(Format::TarGz)),
    (".tgz", Ok(Format::TarGz)),
    (".tar.xz", Err("xz")),
    (".txz", Err("xz")),
    (".tar.zst", Err("zstd")),
    (".tzst", Err("zstd")),
    (".tar.bz2", Err("bzip2")),
    (".tbz2", Err("bzip2")),
    (".tbz", Err("bzip2")),
];

/// File name endings of archives and compressed files that garth does not write.
const OTHERS: [&str; 10] = [".zip", ".7z", ".rar", ".jar", ".cpio", ".gz", ".bz2", ".xz", ".zst", ".lz4"];

impl Format {
    /// Returns the ending of a file name that stands for an archive format which garth does not write.
    pub(crate) fn other_of_name(path: &Path) -> Option<&'static str> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        OTHERS.into_iter().find(|ending| name.ends_with(ending))
    }

    /// Returns the format that a file name stands for, or the tool for it; `None` if it is not an archive.
    pub(crate) fn of_name(path: &Path) -> Option<Result<Self, &'static str>> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| *format)
    }
}

/// Fails for compressed data that needs another tool.
pub(crate) fn check_start(start: &[u8], name: &Path) -> Result {
    match MAGIC.iter().find(|(magic, _)| start.starts_with(magic)) {
        Some((_, tool)) => Err(decompress_first(tool, name)),
        None => Ok(()),
    }
}

/// Returns a failure that explains how to import an archive which garth cannot decompress.
pub(crate) fn decompress_first(tool: &str, name: &Path) -> Failure {
    let file = if name == Path::new("-") { "FILE".into() } else { name.display().to_string() };
    Failure::Usage(format!(
        "{}: decompress it first: {tool} -dc {file} | garth import - DEST",
        name.display()
    ))
}
