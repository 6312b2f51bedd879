//! Content to write: short bodies go with the commit, long ones are staged in steps.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Body, ByteRange};
use garth_engine::{FileSystem, OpenFile};

use crate::app::resolve_path;
use crate::fail::{Failure, Result};
use crate::progress;

/// Longest body that goes with the commit, and step of a longer one: 1 MiB, the largest extent.
pub(crate) const STEP: usize = 1 << 20;

/// Reads `from` to its end as a body for `at`. `name` names it in errors.
pub(crate) async fn read_body(
    fs: &dyn FileSystem,
    at: &At,
    from: &mut dyn Read,
    name: &Path,
) -> Result<Body> {
    let first = step(from, name)?;
    // A full first step may be followed by more.
    if first.len() < STEP { Ok(Body::Bytes(first)) } else { stage(fs, at, first, from, name).await }
}

/// Uploads `first` and the rest of `from` as a body for `at`.
pub(crate) async fn stage(
    fs: &dyn FileSystem,
    at: &At,
    first: Bytes,
    from: &mut dyn Read,
    name: &Path,
) -> Result<Body> {
    let mut upload = fs.stage(at).await?;
    upload.write(first).await?;
    finish(upload, from, name).await
}

/// Reads `from` as a body for `at`. Returns `None` if its content equals that of `old`.
pub(crate) async fn read_changed_body(
    fs: &dyn FileSystem,
    at: &At,
    old: Arc<dyn OpenFile>,
    from: &mut dyn Read,
    name: &Path,
) -> Result<Option<Body>> {
    let Some((offset, different)) = first_difference(&*old, from, name).await? else { return Ok(None) };
    if offset == 0 && different.len() < STEP {
        return Ok(Some(Body::Bytes(different)));
    }
    // `from` cannot be read again, so the common beginning is copied from `old`.
    let mut upload = fs.stage(at).await?;
    let mut common = std::pin::pin!(old.stream(ByteRange { offset: 0, length: offset }));
    while let Some(bytes) = common.try_next().await? {
        upload.write(bytes).await?;
    }
    upload.write(different).await?;
    finish(upload, from, name).await.map(Some)
}

/// Returns the first step at which `from` differs from `old`: its offset, and that step of `from`.
pub(crate) async fn first_difference(
    old: &dyn OpenFile,
    from: &mut dyn Read,
    name: &Path,
) -> Result<Option<(u64, Bytes)>> {
    let mut offset = 0;
    loop {
        let new = step(from, name)?;
        // Both sides are read in equal steps, so the first unequal pair is the first difference.
        let there = old.read_at(offset, STEP).await?;
        if new != there {
            return Ok(Some((offset, new)));
        }
        // Both sides end here.
        if new.len() < STEP {
            return Ok(None);
        }
        offset += new.len() as u64;
    }
}

/// Uploads the rest of `from`.
async fn finish(mut upload: Box<dyn garth_engine::Upload>, from: &mut dyn Read, name: &Path) -> Result<Body> {
    loop {
        let bytes = step(from, name)?;
        if bytes.is_empty() {
            return Ok(Body::Staged(upload.finish().await?));
        }
        upload.write(bytes).await?;
    }
}

/// Reads the next [`STEP`] bytes of `from`; fewer at its end.
pub(crate) fn step(from: &mut dyn Read, name: &Path) -> Result<Bytes> {
    let mut bytes = Vec::new();
    from.take(STEP as u64).read_to_end(&mut bytes).map_err(Failure::host(name))?;
    Ok(Bytes::from(bytes))
}

/// Returns the body of a text given as an argument, with a line feed at its end. Reads standard input without
/// a text, or if it is `-`.
pub(crate) async fn text_body(
    fs: &dyn FileSystem,
    path: &str,
    follow: Follow,
    text: Option<&str>,
) -> Result<Body> {
    let Some(text) = text.filter(|text| *text != "-") else { return stdin_body(fs, path, follow).await };
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    Ok(Body::Bytes(Bytes::from(format!("{text}{end}"))))
}

/// Reads standard input as a body for `path`.
async fn stdin_body(fs: &dyn FileSystem, path: &str, follow: Follow) -> Result<Body> {
    let at = At::Path(resolve_path(fs, path, follow).await?);
    let bar = progress::bytes();
    let body = read_body(fs, &at, &mut bar.wrap_read(std::io::stdin().lock()), Path::new("-")).await;
    bar.finish_and_clear();
    body
}
