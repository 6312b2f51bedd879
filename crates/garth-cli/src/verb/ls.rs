//! `garth ls`: contents of directories.

use std::cell::Cell;
use std::cmp::Reverse;
use std::fmt;

use clap::Args;
use garth_agent::files::{Matches, is_pattern};
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Entry, Kind};
use garth_engine::{Error, ErrorKind, FileSystem, TreePath};

use crate::app::{App, stat_path};
use crate::args::{LongHelp, Past, TREE_PATH};
use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result, usage};
use crate::out::{mode_text, seconds};
use crate::size::size_text;
use crate::walk::{Lister, report};

/// Limit on the names of one directory that are sorted: they are held in memory.
const MAX_SORTED: usize = 100_000;

/// List the contents of directories
///
/// Names are sorted by bytes, one per line, including those that begin with a dot. A path that does not
/// exist and contains wildcards is a pattern, as for `garth glob`. With --json, prints one object per name:
/// path, name, kind, size, mode, times, attributes, version.
#[derive(Args, Debug)]
#[command(disable_help_flag = true, after_help = "Example:\n  garth ls -lht /notes")]
pub(crate) struct Ls {
    /// Paths to list
    #[arg(value_hint = TREE_PATH, default_value = "/")]
    paths: Vec<String>,
    /// Show kind, mode, links, owner, size, modification time and link target; do not follow links
    #[arg(short, long)]
    long: bool,
    /// Show sizes in powers of 1024: 1.5K, 23M, 4.0G
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Sort by modification time, newest first
    #[arg(short = 't', overrides_with = "by_size")]
    by_time: bool,
    /// Sort by size, largest first
    #[arg(short = 'S', overrides_with = "by_time")]
    by_size: bool,
    /// Append a sign to names: / directory, @ link, * executable, | fifo, = socket
    #[arg(short = 'F', long)]
    classify: bool,
    /// Reverse the order
    #[arg(short, long)]
    reverse: bool,
    /// List subdirectories recursively
    #[arg(short = 'R', long)]
    recursive: bool,
    /// List directories themselves, not their contents
    #[arg(short, long)]
    directory: bool,
    /// Accepted and ignored: names that begin with a dot are always shown
    #[arg(short, long, short_alias = 'A', hide = true)]
    all: bool,
    /// Accepted and ignored: each name is always on its own line
    #[arg(short = '1', hide = true)]
    one_column: bool,
    #[command(flatten)]
    past: Past,
    #[command(flatten)]
    help: LongHelp,
}

impl Ls {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.view(&self.past).await?;
        // As in ls: with -l or -d, a link is listed itself.
        let follow = if self.long || self.directory { Follow::No } else { Follow::Yes };
        let heading = Heading { shown: self.recursive || self.paths.len() > 1, first: Cell::new(true) };
        app.each(&self.paths, async |app, written| match stat_path(&*fs, written, follow).await {
            Ok((path, entry)) => self.path(app, &*fs, path, &entry, &heading).await,
            Err(error) if error.is(ErrorKind::NotFound) && is_pattern(written) => {
                self.pattern(app, &*fs, written, error).await
            }
            Err(error) => Err(error.into()),
        })
        .await
    }

    async fn path(
        &self,
        app: &mut App,
        fs: &dyn FileSystem,
        path: TreePath,
        entry: &Entry,
        heading: &Heading,
    ) -> Result {
        if self.directory || entry.kind != Kind::Directory {
            return self.line(app, &path, path.as_str(), entry);
        }
        self.directory(app, fs, path, heading).await
    }

    /// Lists the matches of `pattern`. `missing` is the error if there are none.
    async fn pattern(&self, app: &mut App, fs: &dyn FileSystem, pattern: &str, missing: Error) -> Result {
        let mut matches = Matches::new(fs, pattern).await.map_err(usage)?;
        let (mut found, heading) = (false, Heading { shown: true, first: Cell::new(true) });
        let mut failures = Failures::default();
        loop {
            let next = matches.next().await?;
            for error in matches.take_failed() {
                found = true;
                report(app, &mut failures, error)?;
            }
            let Some((path, entry)) = next else { break };
            found = true;
            let listed = self.path(app, fs, path, &entry, &heading).await;
            // As for paths that are written out.
            app.out.flush()?;
            failures.add(listed, app.global.json)?;
        }
        // Without matches, it is a path that does not exist.
        if found { failures.done() } else { Err(missing.into()) }
    }

    /// Lists a directory, and with -R the directories below it, parents before children.
    async fn directory(
        &self,
        app: &mut App,
        fs: &dyn FileSystem,
        top: TreePath,
        heading: &Heading,
    ) -> Result {
        let (mut todo, mut failures) = (vec![top.clone()], Failures::default());
        while let Some(dir) = todo.pop() {
            if heading.shown {
                let gap = if heading.first.replace(false) { "" } else { "\n" };
                app.out.note(format_args!("{gap}{}:", escaped(dir.as_str())))?;
            }
            let mut below = Vec::new();
            let mut lister = if dir == top { Lister::new(&dir) } else { Lister::below(&top, &dir) };
            let mut page = match self.sorted(fs, &dir, &mut lister).await {
                Err(Failure::Tree(error)) if error.unreadable_part(&top, &dir).is_some() => {
                    report(app, &mut failures, error)?;
                    continue;
                }
                page => page?,
            };
            while !page.is_empty() {
                for (path, entry) in page {
                    self.line(app, &path, path.name().unwrap_or("/"), &entry)?;
                    if self.recursive && entry.kind == Kind::Directory {
                        below.push(path);
                    }
                }
                page = lister.page(fs).await?;
            }
            // The last one in `todo` is next, so the order is reversed.
            todo.extend(below.into_iter().rev());
        }
        failures.done()
    }

    /// Returns the first names to print: a page of them, or all if they are sorted.
    async fn sorted(
        &self,
        fs: &dyn FileSystem,
        dir: &TreePath,
        lister: &mut Lister,
    ) -> Result<Vec<(TreePath, Entry)>> {
        let mut all = lister.page(fs).await?;
        if !(self.by_time || self.by_size || self.reverse) {
            return Ok(all);
        }
        loop {
            let page = lister.page(fs).await?;
            if page.is_empty() {
                break;
            }
            all.extend(page);
            if all.len() > MAX_SORTED {
                let message =
                    format!("more than {MAX_SORTED} names are not sorted; list without -t, -S and -r");
                return Err(Failure::from(Error::at(ErrorKind::TooLarge, dir, message)));
            }
        }
        // Both sorts are stable: entries that are equal stay in byte order.
        if self.by_time {
            all.sort_by_key(|(_, entry)| Reverse(entry.mtime));
        } else if self.by_size {
            all.sort_by_key(|(_, entry)| Reverse(entry.size));
        }
        if self.reverse {
            all.reverse();
        }
        Ok(all)
    }

    fn line(&self, app: &mut App, path: &TreePath, name: &str, entry: &Entry) -> Result {
        let sign = if self.classify { sign(entry) } else { "" };
        if self.long {
            app.out.entry(path, entry, Long { name, sign, entry, human: self.human_readable })
        } else {
            app.out.entry(path, entry, format_args!("{}{sign}", escaped(name)))
        }
    }
}

/// Line before each directory, if several are listed.
struct Heading {
    shown: bool,
    /// True until the first one is printed: an empty line precedes the others.
    first: Cell<bool>,
}

/// Returns the sign that `-F` appends to a name.
fn sign(entry: &Entry) -> &'static str {
    match entry.kind {
        Kind::Directory => "/",
        Kind::Symlink => "@",
        Kind::Fifo => "|",
        Kind::Socket => "=",
        Kind::File if entry.mode & 0o111 != 0 => "*",
        _ => "",
    }
}

/// Line of `ls -l`.
struct Long<'a> {
    name: &'a str,
    sign: &'a str,
    entry: &'a Entry,
    human: bool,
}

impl fmt::Display for Long<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.entry;
        write!(
            f,
            "{} {:>3} {:>4} {:>4} {:>width$} {} {}",
            mode_text(entry.kind, entry.mode),
            entry.nlink,
            entry.uid,
            entry.gid,
            size_text(entry.size, self.human),
            seconds(entry.mtime),
            escaped(self.name),
            width = if self.human { 5 } else { 10 },
        )?;
        match &entry.target {
            // The sign would belong to the target.
            Some(target) => write!(f, " -> {}", escaped(target)),
            None => f.write_str(self.sign),
        }
    }
}
