//! `garth export`: a part of the tree into a folder or tar archive of this machine.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use garth::fs::resolve::Follow;
use serde_json::Value;

use crate::app::{App, stat_path};
use crate::args::Past;
use crate::fail::{Failure, Result};
use crate::transfer::{Count, Folder, Report, Tar, save};

/// Take out what is in a directory, as a folder or tar archive
///
/// All of it at one moment. A folder must be empty or not there yet, an archive not there yet; links are
/// written as links and never followed. An archive keeps times to the second. With --json one object: from, to,
/// files, directories, symlinks, hard_links, bytes, failed; on stderr if the archive goes to standard output.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth export /projects/garth ./garth-copy --at yesterday")]
pub(crate) struct Export {
    /// What to take out: what is in a directory, or one file
    #[arg(value_name = "PATH")]
    from: String,
    /// A folder, a tar archive (a name that ends in `.tar`), or `-` for a tar archive on standard output
    #[arg(value_name = "DIR|TAR")]
    to: PathBuf,
    #[command(flatten)]
    past: Past,
}

impl Export {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let json = app.out.is_json();
        let fs = app.pinned(&self.past).await?;
        // Asked before anything is made on this machine.
        let (path, _) = stat_path(&*fs, &self.from, Follow::Yes).await?;
        let mut report = Report::new(None, json);
        let standard = self.to == Path::new("-");
        let is_tar = self.to.extension().is_some_and(|extension| extension == "tar");
        let fs = Arc::clone(&fs);
        let mut count = if standard {
            let mut tar = Tar::new(BufWriter::new(std::io::stdout()), &self.to);
            save(fs, path.as_str(), &mut tar, &mut report).await?
        } else if is_tar {
            let file = OpenOptions::new().write(true).create_new(true).open(&self.to);
            let file = BufWriter::with_capacity(1 << 16, file.map_err(Failure::host(&self.to))?);
            let saved = save(fs, path.as_str(), &mut Tar::new(file, &self.to), &mut report).await;
            if saved.is_err() {
                // Half an archive reads like a whole one.
                let _ = std::fs::remove_file(&self.to);
            }
            saved?
        } else {
            save(fs, path.as_str(), &mut Folder::new(&self.to)?, &mut report).await?
        };
        count.failed = report.end();
        self.report(app, path.as_str(), &count, standard)?;
        report.done().map_err(|_| Failure::Reported(1))
    }

    fn report(&self, app: &mut App, from: &str, count: &Count, standard: bool) -> Result {
        let mut json = serde_json::to_value(count).unwrap_or(Value::Null);
        json["from"] = from.into();
        json["to"] = self.to.to_string_lossy().into();
        let text = format!("exported {count} to {}", self.to.display());
        if !standard {
            return app.out.item(&json, text);
        }
        // Standard output is the archive.
        let _ = if app.out.is_json() {
            writeln!(std::io::stderr(), "{json}")
        } else {
            writeln!(std::io::stderr(), "{text}")
        };
        Ok(())
    }
}
