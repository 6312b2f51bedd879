//! `garth cat`: content of files, now or in any version.

use std::sync::Arc;

use clap::Args;
use futures::TryStreamExt;
use garth::fs::resolve::{Follow, retry};
use garth::model::{At, ByteRange, HistoryPage, Seq, VersionId};
use garth::{Error, ErrorKind, FileSystem, OpenFile, stream};
use serde_json::json;

use crate::app::{App, resolve_path};
use crate::args::Past;
use crate::fail::{Failure, Result};
use crate::out::base64;

/// Longest content that fits in one JSON object, in bytes: it is held in memory. 64 MiB.
const MAX_JSON: u64 = 64 << 20;

/// Print files
///
/// With --json one object a file: path, version, size, encoding (`utf-8` or `base64`) and content, up to 64
/// MiB.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth cat /notes/today.md --at yesterday")]
pub(crate) struct Cat {
    /// Which files
    #[arg(required_unless_present = "version")]
    paths: Vec<String>,
    /// Print this version (ver_..., see `garth log PATH`); a path, if given, must have had it
    #[arg(long, value_name = "VERSION", conflicts_with = "at")]
    version: Option<VersionId>,
    #[command(flatten)]
    past: Past,
}

impl Cat {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.view(&self.past).await?;
        if let Some(version) = self.version {
            if self.paths.len() > 1 {
                return Err(Failure::Usage("--version goes with one path at most".into()));
            }
            if let Some(path) = self.paths.first() {
                check_had(&*fs, path, version).await?;
            }
            let file = fs.open_version(version).await?;
            return show(app, self.paths.first().map(String::as_str), file).await;
        }
        app.each(&self.paths, async |app, path| {
            let file = retry(&*fs, path, Follow::Yes, |path| fs_open(&fs, path)).await?;
            show(app, Some(path), file).await
        })
        .await
    }
}

async fn fs_open(fs: &Arc<dyn FileSystem>, path: garth::TreePath) -> garth::Result<Arc<dyn OpenFile>> {
    fs.open(&At::Path(path)).await
}

/// Checks that `version` is one of those that `path` has had.
async fn check_had(fs: &dyn FileSystem, path: &str, version: VersionId) -> Result {
    let path = resolve_path(fs, path, Follow::Yes).await?;
    let page = HistoryPage { before: Some(Seq(version.seq.0.saturating_add(1))), limit: 16 };
    let versions = fs.history(&At::Path(path.clone()), &page).await?;
    if versions.iter().any(|had| had.id == version) {
        return Ok(());
    }
    Err(Error::at(ErrorKind::NotFound, &path, format!("never had the version {version}")).into())
}

async fn show(app: &mut App, path: Option<&str>, file: Arc<dyn OpenFile>) -> Result {
    if !app.out.is_json() {
        return app.copy_to_stdout(file).await;
    }
    let entry = file.stat().await?;
    if entry.size > MAX_JSON {
        let message = format!("longer than {MAX_JSON} bytes; print it without --json");
        return Err(Error::new(ErrorKind::TooLarge, message).into());
    }
    let mut content = Vec::new();
    let mut chunks = std::pin::pin!(stream(file, ByteRange::ALL));
    while let Some(chunk) = chunks.try_next().await? {
        content.extend_from_slice(&chunk);
    }
    let size = content.len();
    let (encoding, content) = match String::from_utf8(content) {
        Ok(text) => ("utf-8", text),
        Err(bytes) => ("base64", base64(bytes.as_bytes())),
    };
    let version = entry.version.to_string();
    let json =
        json!({"path": path, "version": version, "size": size, "encoding": encoding, "content": content});
    app.out.item(&json, "")
}
