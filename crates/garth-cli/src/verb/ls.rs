//! `garth ls`: what is in a directory.

use std::fmt;

use clap::Args;
use garth::fs::resolve::Follow;
use garth::model::{Entry, Kind};
use garth::{FileSystem, TreePath};

use crate::app::{App, stat_path};
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::Result;
use crate::out::{entry_json, mode_text, seconds};
use crate::walk::Lister;

/// List directories
///
/// With --json one object a name: path, name, kind, size, mode, times, attributes, version.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth ls -l /notes")]
pub(crate) struct Ls {
    /// What to list
    #[arg(default_value = "/")]
    paths: Vec<String>,
    /// Show kind, mode, links, owner, size, time and target; do not follow a link
    #[arg(short)]
    long: bool,
    /// List subdirectories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Accepted from habit: names that begin with a dot are always shown
    #[arg(short)]
    all: bool,
    #[command(flatten)]
    past: Past,
}

impl Ls {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.view(&self.past).await?;
        let follow = if self.long { Follow::No } else { Follow::Yes };
        let headed = self.recursive || self.paths.len() > 1;
        app.each(&self.paths, async |app, path| {
            let (path, entry) = stat_path(&*fs, path, follow).await?;
            if entry.kind != Kind::Directory {
                return self.line(app, &path, path.as_str(), &entry);
            }
            self.directory(app, &*fs, path, headed).await
        })
        .await
    }

    /// Lists a directory and, if asked, those in it: parents before children, in byte order.
    async fn directory(&self, app: &mut App, fs: &dyn FileSystem, top: TreePath, headed: bool) -> Result {
        let mut todo = vec![top];
        let mut first = true;
        while let Some(dir) = todo.pop() {
            if headed {
                app.out.note(format_args!("{}{}:", if first { "" } else { "\n" }, escaped(dir.as_str())))?;
            }
            first = false;
            let mut below = Vec::new();
            let mut lister = Lister::new(&dir);
            loop {
                let page = lister.page(fs).await?;
                if page.is_empty() {
                    break;
                }
                for (path, entry) in page {
                    self.line(app, &path, path.name().unwrap_or("/"), &entry)?;
                    if self.recursive && entry.kind == Kind::Directory {
                        below.push(path);
                    }
                }
            }
            todo.extend(below.into_iter().rev());
        }
        Ok(())
    }

    fn line(&self, app: &mut App, path: &TreePath, name: &str, entry: &Entry) -> Result {
        let json = entry_json(path, entry);
        if self.long { app.out.item(&json, Long(name, entry)) } else { app.out.item(&json, escaped(name)) }
    }
}

/// A line of `ls -l`.
struct Long<'a>(&'a str, &'a Entry);

impl fmt::Display for Long<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, entry) = self;
        write!(
            f,
            "{} {:>3} {:>4} {:>4} {:>10} {} {}",
            mode_text(entry.kind, entry.mode),
            entry.nlink,
            entry.uid,
            entry.gid,
            entry.size,
            seconds(entry.mtime),
            escaped(name),
        )?;
        entry.target.as_ref().map_or(Ok(()), |target| write!(f, " -> {}", escaped(target)))
    }
}
