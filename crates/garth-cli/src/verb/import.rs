//! `garth import`: imports a folder, a file or a tar archive of this machine into the tree.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Author, Kind, Seq};
use garth_engine::{Error, ErrorKind, Name, TreePath};
use serde_json::json;

use crate::app::{App, AuthoredTree, stat_optional};
use crate::args::{CommitArgs, Layout, TREE_PATH, TransferArgs};
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::progress::Interrupt;
use crate::terminal;
use crate::transfer::{
    CurrentFolder, Exclude, Format, Loader, Policy, Report, Style, check_layout, count, decompress_first,
    from_file, from_folder, from_tar,
};

/// Import a folder, a file or a tar archive, or update an earlier import
///
/// Compares first, as rsync does: size and time, then content. Equal files are not written, and if all are
/// equal there is no commit. Keeps modes, times, symbolic and hard links; never follows symbolic links.
/// Files and links of the tree that differ get a new version. Entries that cannot be imported are reported
/// on stderr, the rest is imported, and the exit code is 1. Ctrl-C stops between two commits: repeat the
/// import to continue.
///
/// With --layout gsv the source is a folder in the layout of a bucket, and its files replace those of the
/// account. Content type and custom metadata of each file are in FILE.metadata.json next to it. Reserved data
/// of garth stays. All metadata is checked first: if some is invalid or has no file, nothing is imported.
///
/// With --json, prints one object: to, new, changed, same, removed, failed, files, directories, symlinks,
/// hard_links, bytes (written), seq_before (as an argument of `restore --at`) and seq (null if nothing was
/// committed).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth import ./project /projects/garth --exclude target --delete\n  \
                        garth import notes.md /notes\n  garth import backup.tar.gz /restored\n  \
                        xz -dc backup.tar.xz | garth import - /restored\n  \
                        garth import --layout gsv ./bucket")]
pub(crate) struct Import {
    /// A folder, a file, a tar archive (.tar, .tar.gz, .tgz), or `-` for a tar archive on standard input
    #[arg(value_name = "SOURCE")]
    from: PathBuf,
    /// Directory for the contents of a folder or archive, created if missing; for a file its directory or
    /// new name
    #[arg(value_hint = TREE_PATH, value_name = "DEST", default_value = "/")]
    to: String,
    /// Import a folder in this layout as the complete account
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<Layout>,
    /// Remove entries that the folder does not have, and replace directories by files and files by
    /// directories
    #[arg(long)]
    delete: bool,
    #[command(flatten)]
    transfer: TransferArgs,
    #[command(flatten)]
    commit: CommitArgs,
}

/// Kind of source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Folder,
    File,
    Archive,
    Stdin,
}

impl Import {
    pub(crate) async fn run(mut self, app: &mut App) -> Result {
        let exclude = Exclude::new(&self.transfer.exclude)?;
        let source = self.source()?;
        if self.delete && source != Source::Folder {
            return Err(Failure::Usage("--delete requires a folder as source".into()));
        }
        self.check_layout(app, source)?;
        let tree = if self.transfer.dry_run { app.tree().await? } else { app.tree_or_new().await? };
        let mut tree = tree.importing();
        let own = CurrentFolder::new(&*app.home().await?)?;
        if source != Source::Stdin {
            own.refuse(&self.from)?;
        }
        if !self.transfer.dry_run {
            // An import may be the first write to a chat.
            tree.make_for(&[]).await?;
        }
        let (base, is_there) = self.destination(&tree, source).await?;
        // Counting takes time, and only the progress bar needs the count.
        let total = (source == Source::Folder && terminal::is_watched()).then(|| count(&self.from));
        self.commit.message.get_or_insert_with(|| format!("import to {base}"));
        let before = tree.fs.head().await?.seq;
        let list = self.transfer.lists_changes(app.out.is_json());
        let style = Style { list, to_stderr: false };
        let mut report = Report::new(&mut app.out, total, style, Interrupt::listen()?);
        if self.layout.is_some() {
            // Skills of all agents may only be written by people, not by an agent.
            tree.author = Author::default();
            if !check_layout(&self.from, Exclude::new(&self.transfer.exclude)?, &own, &mut report)? {
                return refused(&report);
            }
        }
        let policy =
            Policy { delete: self.delete, dry_run: self.transfer.dry_run, layout: self.layout.is_some() };
        // The destination of a single file is its complete path, so it has no base directory.
        let root = if source == Source::File { TreePath::root() } else { base.clone() };
        let is_made = source == Source::File || is_there;
        let mut loader = Loader::new(&tree, &self.commit, root, is_made, policy, report);
        let read = match source {
            Source::Folder => from_folder(&mut loader, &self.from, &base, is_there, exclude, &own).await,
            Source::File => from_file(&mut loader, &self.from, base.clone()).await,
            Source::Archive => match File::open(&self.from) {
                Ok(file) => from_tar(&mut loader, &exclude, file, &self.from).await,
                Err(error) => Err(Failure::host(&self.from)(error)),
            },
            Source::Stdin => from_tar(&mut loader, &exclude, std::io::stdin().lock(), &self.from).await,
        };
        // The format of the archive is wrong, and nothing was imported.
        if let Err(Failure::Usage(_)) = read {
            return read;
        }
        // Entries read before the failure are imported.
        let mut ended = read.or_else(|failure| loader.fail(failure));
        if ended.is_ok() {
            ended = loader.finish().await;
        }
        self.conclude(loader, &base, is_there, before, ended)
    }

    /// Checks that with --layout a folder is imported as the account.
    fn check_layout(&self, app: &App, source: Source) -> Result {
        if self.layout.is_none() {
            return Ok(());
        }
        app.only_account("--layout")?;
        if source == Source::Folder && self.to == "/" {
            return Ok(());
        }
        let message = "--layout imports a folder as the complete account: import it to /";
        Err(Failure::Usage(message.into()))
    }

    fn source(&self) -> Result<Source> {
        if self.from == Path::new("-") {
            return Ok(Source::Stdin);
        }
        let meta = std::fs::metadata(&self.from).map_err(Failure::host(&self.from))?;
        match Format::of_name(&self.from) {
            _ if meta.is_dir() => Ok(Source::Folder),
            Some(Err(tool)) => Err(decompress_first(tool, &self.from)),
            Some(Ok(_)) => Ok(Source::Archive),
            None if meta.is_file() => Ok(Source::File),
            None => Ok(Source::Archive), // a pipe, as of `<(tar c ...)`
        }
    }

    /// Returns the destination, and true if it exists.
    async fn destination(&self, tree: &AuthoredTree, source: Source) -> Result<(TreePath, bool)> {
        let (base, there) = stat_optional(&*tree.fs, &self.to, Follow::Yes).await?;
        let is_directory = there.as_ref().is_some_and(|entry| entry.kind == Kind::Directory);
        if source == Source::File {
            if !is_directory && !self.to.ends_with('/') {
                return Ok((base, there.is_some()));
            }
            let name = self.from.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| Failure::Usage("the name of the file is not UTF-8".into()))?;
            let path = base.join(&Name::parse(name)?)?;
            let (path, there) = stat_optional(&*tree.fs, path.as_str(), Follow::No).await?;
            return Ok((path, there.is_some()));
        }
        if there.is_some() && !is_directory {
            return Err(Error::at(ErrorKind::NotADirectory, &base, "not a directory").into());
        }
        Ok((base, is_directory))
    }

    /// Prints the summary. If the import stopped, explains how to continue.
    fn conclude(
        &self,
        mut loader: Loader<'_>,
        base: &TreePath,
        was_there: bool,
        before: Seq,
        ended: Result,
    ) -> Result {
        let commits = loader.commits();
        // Others may have committed after `before` was read; an undo must keep that.
        let before = commits.map_or(before, |(first, _)| Seq(first.0 - 1));
        let more = json!({"to": base.as_str(), "seq_before": before, "seq": commits.map(|(_, last)| last)});
        let verb = match (&ended, self.transfer.dry_run) {
            (Ok(()), true) => "would import to",
            (Ok(()), false) => "imported to",
            (Err(_), _) => "stopped importing to",
        };
        let Err(failure) = ended else {
            loader.report.summary(verb, base.as_str(), &more)?;
            return loader.report.outcome();
        };
        let code = failure.code();
        loader.report.stopped(&reword(failure));
        loader.report.summary(verb, base.as_str(), &more)?;
        terminal::tell(advice(commits, base, was_there, before));
        Err(Failure::Reported(code))
    }
}

/// Ends an import before anything was written, because the check failed.
fn refused(report: &Report<'_>) -> Result {
    let outcome = report.outcome();
    terminal::tell("nothing was imported; correct it first, or --exclude it");
    outcome
}

/// Returns the advice after an import that stopped: how to continue, and how to undo it.
fn advice(commits: Option<(Seq, Seq)>, base: &TreePath, was_there: bool, before: Seq) -> String {
    let Some((first, last)) = commits else { return "nothing was committed".into() };
    let path = escaped(base.as_str());
    let undo = match (was_there, before) {
        (false, _) => format!(", or undo it: garth rm -r '{path}'"),
        (true, Seq(0)) => String::new(),
        (true, _) => format!(", or undo it: garth restore '{path}' --at {before}"),
    };
    format!("entries counted above are imported (commits {first} to {last}); import again to continue{undo}")
}

/// Replaces the message for a full disk, whose advice is about a single commit and not about a complete
/// import.
fn reword(failure: Failure) -> Failure {
    match failure {
        Failure::Tree(error) if error.is(ErrorKind::NoSpace) => {
            Error::new(ErrorKind::NoSpace, "the disk of the data folder is full").into()
        }
        other => other,
    }
}
