//! `garth export`: exports a part of the tree to a folder, a file or a tar archive of this machine.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use garth_engine::fs::resolve::Follow;
use garth_engine::fs::restore::is_uncreated_root;
use garth_engine::model::{Entry, Kind};
use garth_engine::{Error, ErrorKind, FileSystem, TreePath};
use serde_json::json;

use crate::app::{App, stat_path};
use crate::args::{Layout, Past, TREE_PATH, TransferArgs};
use crate::fail::{Failure, Result};
use crate::out::counted;
use crate::progress::Interrupt;
use crate::terminal;
use crate::transfer::{
    CurrentFolder, Exclude, Format, LeftOut, Policy, Report, Sink, Style, to_file, to_folder, to_tar,
};

/// Export a directory or file as a folder, a file or a tar archive, or update an earlier export
///
/// Exports the state of one point in time. Compares a folder first, as rsync does: size and time, then
/// content. Equal files stay untouched; others are replaced by a rename. Keeps modes, times, symbolic and
/// hard links; never writes through symbolic links. Leaves out set-user-ID, set-group-ID and sticky bits in
/// a folder and reports it: a program that an agent wrote must not get the rights of the exporting user. An
/// archive keeps them, and times to the second; it must not exist yet. Entries that cannot be exported are
/// reported on stderr, and the exit code is 1.
///
/// With --layout gsv the account is exported to a folder in the layout of a bucket: agents, skills and
/// media, with content type and custom metadata of each file in FILE.metadata.json next to it. Reserved data
/// of garth (settings, key-value entries, memories, live sessions, events) is left out and counted.
///
/// With --json, prints one object: from, to, new, changed, same, removed, failed, files, directories,
/// symlinks, hard_links, bytes (written), special_bits_left_out (entries), with --layout left_out (entries;
/// a directory with all that is in it counts once); on stderr if the archive goes to standard output.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth export /projects/garth ./garth-copy --delete\n  \
                        garth export /notes/today.md .\n  garth export / all.tar.gz --at 1h\n  \
                        garth export / - | zstd > all.tar.zst\n  \
                        garth export --layout gsv ./bucket")]
pub(crate) struct Export {
    /// Directory or file; with --layout the account
    #[arg(value_hint = TREE_PATH, value_name = "PATH")]
    from: String,
    /// A folder, a file, a tar archive (.tar, .tar.gz, .tgz), or `-` for a tar archive on standard output
    #[arg(value_name = "DEST", required_unless_present = "layout")]
    to: Option<PathBuf>,
    /// Export the account to a folder in this layout
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<Layout>,
    /// Remove entries that the directory does not have, and replace folders and devices by files and files by
    /// folders
    #[arg(long)]
    delete: bool,
    #[command(flatten)]
    transfer: TransferArgs,
    #[command(flatten)]
    past: Past,
}

/// Kind of destination.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Folder,
    File,
    Archive(Format),
    Stdout,
}

impl Export {
    pub(crate) async fn run(mut self, app: &mut App) -> Result {
        let exclude = Exclude::new(&self.transfer.exclude)?;
        let to = self.destination(app)?;
        let fs = app.pinned(&self.past).await?;
        let own = CurrentFolder::new(&*app.home().await?)?;
        // Checked before anything is created on this machine.
        let (path, entry) = stat_path(&*fs, &self.from, Follow::Yes).await?;
        let target = self.target(&to, entry.kind)?;
        if self.layout.is_some() && target != Target::Folder {
            return Err(Failure::Usage("--layout requires a folder as destination".into()));
        }
        if self.delete && target != Target::Folder {
            return Err(Failure::Usage("--delete requires a folder as destination".into()));
        }
        if self.delete && is_uncreated_root(&*fs, &path, &entry).await {
            let message = "nobody has written to this chat, so --delete would remove all files of the folder";
            return Err(Error::new(ErrorKind::NotFound, message).into());
        }
        if target != Target::Stdout {
            own.refuse(&to)?;
        }
        let list = self.transfer.lists_changes(app.out.is_json());
        let style = Style { list, to_stderr: target == Target::Stdout };
        let mut report = Report::new(&mut app.out, None, style, Interrupt::listen()?);
        let ended = self.export(fs, (&path, entry), (&to, target), (exclude, &own), &mut report).await;
        // An error of a read that Ctrl-C ended is the interrupt, not a failure.
        let ended = ended.or_else(|failure| report.interrupt().check().and(Err(failure)));
        if let Err(Failure::Pipe) = ended {
            return Err(Failure::Pipe);
        }
        let verb = match (&ended, self.transfer.dry_run) {
            (Ok(_), true) => "would export to",
            (Ok(_), false) => "exported to",
            (Err(_), _) => "stopped exporting to",
        };
        if let Err(failure) = &ended {
            report.stopped(failure);
        }
        let left_out = ended.as_ref().map_or_else(|_| LeftOut::default(), |left_out| *left_out);
        let to = to.to_string_lossy();
        let mut more =
            json!({"from": path.as_str(), "to": to, "special_bits_left_out": left_out.special_bits});
        if self.layout.is_some() {
            more["left_out"] = left_out.entries.into();
        }
        report.summary(verb, &to, &more)?;
        tell(left_out);
        match ended {
            Ok(_) => report.outcome(),
            Err(failure) => Err(Failure::Reported(failure.code())),
        }
    }

    /// Returns the destination. With a layout the root is exported, so the path may be omitted.
    fn destination(&mut self, app: &App) -> Result<PathBuf> {
        if self.layout.is_none() {
            return Ok(self.to.clone().unwrap_or_default()); // required
        }
        app.only_account("--layout")?;
        match self.to.take() {
            None => Ok(PathBuf::from(std::mem::replace(&mut self.from, "/".into()))),
            Some(to) if self.from == "/" => Ok(to),
            Some(_) => Err(Failure::Usage("--layout exports the complete account: export /".into())),
        }
    }

    fn target(&self, to: &Path, kind: Kind) -> Result<Target> {
        if to == Path::new("-") {
            return Ok(Target::Stdout);
        }
        match Format::of_name(to) {
            // A folder may have the name of an archive.
            _ if to.is_dir() => {}
            Some(Ok(format)) => return Ok(Target::Archive(format)),
            Some(Err(tool)) => {
                let (from, to) = (&self.from, to.display());
                let message = format!("{to}: compress it yourself: garth export {from} - | {tool} > {to}");
                return Err(Failure::Usage(message));
            }
            None if kind == Kind::Directory && !to.as_os_str().as_encoded_bytes().ends_with(b"/") => {
                if let Some(ending) = Format::other_of_name(to) {
                    let to = to.display();
                    let message = format!(
                        "{to}: a directory cannot be exported as {ending}; name a folder, a .tar or a .tar.gz (a folder of \
                         this name: {to}/)"
                    );
                    return Err(Failure::Usage(message));
                }
            }
            None => {}
        }
        Ok(if kind == Kind::Directory { Target::Folder } else { Target::File })
    }

    /// Exports. Returns what was left out.
    async fn export(
        &self,
        fs: Arc<dyn FileSystem>,
        (path, entry): (&TreePath, Entry),
        (to, target): (&Path, Target),
        (exclude, own): (Exclude, &CurrentFolder),
        report: &mut Report<'_>,
    ) -> Result<LeftOut> {
        let policy =
            Policy { delete: self.delete, dry_run: self.transfer.dry_run, layout: self.layout.is_some() };
        let sink: Sink<Box<dyn Write>> = match target {
            Target::Folder => {
                return to_folder(fs, (path, entry), to, (exclude, own), policy, report).await;
            }
            Target::File => {
                let to = match path.name() {
                    Some(name) if to.is_dir() => to.join(name),
                    _ => to.to_owned(),
                };
                return to_file(fs, (path, entry), &to, own, policy, report).await;
            }
            Target::Archive(_) if self.transfer.dry_run => {
                // As `create_new` below would fail.
                if std::fs::symlink_metadata(to).is_ok() {
                    return Err(Failure::host(to)(io::ErrorKind::AlreadyExists.into()));
                }
                Sink::Nowhere
            }
            Target::Stdout if self.transfer.dry_run => Sink::Nowhere,
            Target::Stdout => Sink::Plain(Box::new(BufWriter::new(terminal::stdout(false)))),
            Target::Archive(format) => {
                let file = OpenOptions::new().write(true).create_new(true).open(to);
                let file = file.map_err(Failure::host(to))?;
                let file = Box::new(BufWriter::with_capacity(1 << 16, file));
                if format == Format::TarGz { Sink::gzip(file) } else { Sink::Plain(file) }
            }
        };
        let is_new = matches!(target, Target::Archive(_)) && !self.transfer.dry_run;
        let written = to_tar(fs, (path, entry), &exclude, (sink, to), report).await;
        if written.is_err() && is_new {
            // An incomplete archive could be taken for a complete one.
            let _ = std::fs::remove_file(to);
        }
        written.map(|()| LeftOut::default())
    }
}

/// Reports entries and permissions that were left out.
fn tell(left_out: LeftOut) {
    let LeftOut { special_bits, entries } = left_out;
    if special_bits > 0 {
        terminal::tell(format_args!(
            "set-user-ID, set-group-ID and sticky bits were left out (entries: {special_bits})"
        ));
    }
    if entries > 0 {
        let entries = counted(entries, "entry", "entries");
        terminal::tell(format_args!("{entries} reserved for garth left out of the layout"));
    }
}
