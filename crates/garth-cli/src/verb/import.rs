//! `garth import`: a folder or tar archive of this machine into the tree.

use std::fs::File;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use garth::ErrorKind;
use garth::fs::resolve::Follow;
use garth::model::Kind;

use crate::app::{App, stat_optional};
use crate::args::CommitArgs;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::transfer::{Exclude, Loader, Report, count, from_folder, from_tar};

/// Bring in what is in a folder or tar archive
///
/// Files, directories, symbolic and hard links, with modes and times, many to a commit; what is there already
/// gets a new version. What cannot be brought in is told on stderr and makes the exit code 1. With --json one
/// object: to, files, directories, symlinks, hard_links, bytes, failed.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth import ./project /projects/garth --exclude target")]
pub(crate) struct Import {
    /// A folder, a tar archive, or `-` for a tar archive on standard input
    #[arg(value_name = "DIR|TAR")]
    from: PathBuf,
    /// The directory to bring it into; made if missing
    #[arg(value_name = "DEST", default_value = "/")]
    to: String,
    /// Leave out names that match, at any depth; a pattern with `/` is matched from the top (may be repeated)
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    #[command(flatten)]
    commit: CommitArgs,
}

impl Import {
    pub(crate) async fn run(mut self, app: &mut App) -> Result {
        let exclude = Exclude::new(&self.exclude)?;
        let json = app.out.is_json();
        let tree = app.tree_or_new()?;
        let is_folder = self.from != Path::new("-") && self.is_folder()?;
        let (base, there) = stat_optional(&*tree.fs, &self.to, Follow::Yes).await?;
        if there.is_some_and(|entry| entry.kind != Kind::Directory) {
            return Err(garth::Error::at(ErrorKind::NotADirectory, &base, "not a directory").into());
        }
        let total = (is_folder && std::io::stderr().is_terminal()).then(|| count(&self.from));
        self.commit.message.get_or_insert_with(|| format!("import to {base}"));
        let report = Report::new(total, json);
        let mut loader = Loader::new(&tree, &self.commit, base.clone(), exclude, report);
        let read = if is_folder {
            let own = app.folder()?;
            let own = own.canonicalize().map_err(Failure::host(&own))?;
            from_folder(&mut loader, &self.from, &own).await
        } else if self.from == Path::new("-") {
            from_tar(&mut loader, std::io::stdin().lock(), &self.from).await
        } else {
            let file = File::open(&self.from).map_err(Failure::host(&self.from))?;
            from_tar(&mut loader, file, &self.from).await
        };
        match read {
            // What came before it is kept and counted.
            Err(failure) if loader.has_begun() => loader.fail(failure)?,
            read => read?,
        }
        let (count, done) = loader.finish().await?;
        let mut json = serde_json::to_value(&count).unwrap_or_default();
        json["to"] = base.as_str().into();
        app.out.item(&json, format_args!("imported {count} to {}", escaped(base.as_str())))?;
        done.map_err(|_| Failure::Reported(1))
    }

    fn is_folder(&self) -> Result<bool> {
        Ok(std::fs::metadata(&self.from).map_err(Failure::host(&self.from))?.is_dir())
    }
}
