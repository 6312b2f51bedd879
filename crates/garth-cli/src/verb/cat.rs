//! `garth cat`: content of files, in the current or an earlier version.

use std::sync::Arc;

use clap::Args;
use futures::TryStreamExt;
use garth_agent::files::with_path;
use garth_agent::tree::{USER_MEMORY, UserMemory, user_memory};
use garth_engine::fs::resolve::{Follow, retry};
use garth_engine::model::{At, ByteRange, HistoryPage, Ino, VersionId};
use garth_engine::{Error, ErrorKind, FileSystem, OpenFile, TreePath};
use serde_json::json;

use crate::app::{App, resolve_path};
use crate::args::{Past, TREE_PATH};
use crate::content;
use crate::fail::{Failure, Result};

/// Print the content of files
///
/// With --json, prints one object per file: path, version, size, offset, encoding (`utf-8` or `base64`) and
/// content, up to 64 MiB.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth cat /notes/today.md --at yesterday")]
pub(crate) struct Cat {
    /// Files to print
    #[arg(value_hint = TREE_PATH, required_unless_present = "version")]
    paths: Vec<String>,
    /// Number the lines
    #[arg(short, long)]
    number: bool,
    /// Print this version (ver_..., see `garth log PATH`); a path, if given, must be one of its paths
    #[arg(long, value_name = "VERSION", conflicts_with = "at")]
    version: Option<VersionId>,
    /// In an agent's tree, print a template if /.user/memory/MEMORY.md is missing, and report it on standard
    /// error; with --json `synthetic` is true for a template
    #[arg(long, conflicts_with_all = ["version", "at"])]
    template: bool,
    #[command(flatten)]
    past: Past,
}

impl Cat {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.view(&self.past).await?;
        // As `cat -n` does: the numbers continue from file to file.
        let mut line = 1;
        if let Some(version) = self.version {
            let path = match &self.paths[..] {
                [] => None,
                [path] => Some(with_version(&*fs, path, version).await?),
                _ => return Err(Failure::Usage("--version can be used with one path only".into())),
            };
            let file = fs.open_version(version).await?;
            return self.print(app, path.as_ref(), file, &mut line).await;
        }
        if self.template {
            return self.memory(app, &*fs).await;
        }
        let mut failures = crate::fail::Failures::default();
        for path in &self.paths {
            let outcome = match open(&*fs, path).await {
                Ok((path, file)) => self.print(app, Some(&path), file, &mut line).await,
                Err(failure) => Err(failure),
            };
            // Flushed first, so that a failure does not appear before the content of earlier files.
            app.out.flush()?;
            failures.add(outcome, app.global.json)?;
        }
        failures.done()
    }

    /// Prints the memory of the agent about the user, or a template.
    async fn memory(&self, app: &mut App, fs: &dyn FileSystem) -> Result {
        if self.paths != [USER_MEMORY] || !app.global.chat.names_somebody() {
            let message = format!(
                "--template can be used only for {USER_MEMORY} in the tree of an agent: set --user, --key or --chat"
            );
            return Err(Failure::Usage(message));
        }
        let UserMemory { content, synthetic } = user_memory(fs).await?;
        if app.out.is_json() {
            let json =
                json!({"path": USER_MEMORY, "encoding": "utf-8", "content": content, "synthetic": synthetic});
            return app.out.item(&json, "");
        }
        if synthetic {
            app.out.warn(format_args!("{USER_MEMORY}: does not exist yet; this is a template (synthetic)"));
        }
        app.out.bytes(content.as_bytes())
    }

    async fn print(
        &self,
        app: &mut App,
        path: Option<&TreePath>,
        file: Arc<dyn OpenFile>,
        line: &mut u64,
    ) -> Result {
        if self.number && !app.out.is_json() {
            return numbered(app, file, line).await;
        }
        content::print(app, path, file, ByteRange::ALL).await
    }
}

/// Opens a file at a path as the user wrote it.
pub(super) async fn open(fs: &dyn FileSystem, path: &str) -> Result<(TreePath, Arc<dyn OpenFile>)> {
    let opened = retry(fs, path, Follow::Yes, |path| async {
        let file = fs.open(&At::from(&path)).await?;
        Ok((path, file))
    });
    let named = opened.await.map_err(|error| match error.path() {
        Some(path) if error.is(ErrorKind::IsADirectory) => {
            Error::at(ErrorKind::IsADirectory, path, "is a directory; `garth ls` lists it")
        }
        _ => error,
    });
    Ok(named.map_err(with_path(path))?)
}

/// Returns the canonical path of `path`. Fails if it never had `version`.
async fn with_version(fs: &dyn FileSystem, path: &str, version: VersionId) -> Result<TreePath> {
    let path = resolve_path(fs, path, Follow::Yes).await?;
    // Just after `version` in the order of the history, so that the page starts with it if the path had it.
    let behind = VersionId { ino: Ino(version.ino.0.saturating_add(1)), ..version };
    let page = HistoryPage::default().before(behind).limit(1);
    let versions = fs.history(&At::from(&path), &page).await?;
    if versions.items.first().is_some_and(|had| had.id == version) {
        return Ok(path);
    }
    Err(Error::at(ErrorKind::NotFound, &path, format!("never had the version {version}")).into())
}

/// Prints a file with line numbers, which continue from file to file.
async fn numbered(app: &mut App, file: Arc<dyn OpenFile>, line: &mut u64) -> Result {
    let mut chunks = std::pin::pin!(file.stream(ByteRange::ALL));
    let mut begins = true;
    while let Some(chunk) = chunks.try_next().await? {
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            if begins {
                app.out.bytes(format!("{line:>6}\t").as_bytes())?;
                *line += 1;
            }
            app.out.bytes(part)?;
            begins = part.ends_with(b"\n");
        }
    }
    Ok(())
}
