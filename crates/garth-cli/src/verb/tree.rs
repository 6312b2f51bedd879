//! `garth tree`: prints a directory tree.

use clap::Args;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Entry, Kind};

use crate::app::{App, stat_path};
use crate::args::{LongHelp, Past, TREE_PATH};
use crate::escape::escaped;
use crate::fail::{Failures, Result};
use crate::out::counted;
use crate::size::size_text;
use crate::walk::DepthFirst;

/// Print a directory tree
///
/// With --json, prints one object per path, each directory before its contents: path, name, kind, size,
/// mode, times, attributes, version.
#[derive(Args, Debug)]
#[command(disable_help_flag = true, after_help = "Example:\n  garth tree -L 2 /agents")]
pub(crate) struct Tree {
    /// Directory to start from
    #[arg(value_hint = TREE_PATH, default_value = "/")]
    path: String,
    /// Show at most this many levels
    #[arg(short = 'L', long, value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Show the sizes of files, in powers of 1024: 1.5K, 23M, 4.0G
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Accepted and ignored: names that begin with a dot are always shown
    #[arg(short, long, hide = true)]
    all: bool,
    #[command(flatten)]
    past: Past,
    #[command(flatten)]
    help: LongHelp,
}

impl Tree {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.pinned(&self.past).await?;
        let (top, entry) = stat_path(&*fs, &self.path, Follow::Yes).await?;
        app.out.entry(&top, &entry, escaped(top.as_str()))?;
        if entry.kind != Kind::Directory {
            return Ok(());
        }
        let most = self.depth.map_or(usize::MAX, |depth| usize::try_from(depth).unwrap_or(usize::MAX));
        let (mut directories, mut others) = (0_u64, 0_u64);
        let (mut below, mut failures) = (DepthFirst::new(fs, &top), Failures::default());
        // Indentation at each depth.
        let mut indents = vec![String::new()];
        while let Some((path, entry)) = below.next_readable(app, &mut failures).await? {
            let depth = below.depth();
            // Drops the indentations of directories that the walk has left.
            indents.truncate(depth);
            let (twig, space) =
                if below.is_last().await { ("└── ", "    ") } else { ("├── ", "│   ") };
            let indent = indents.last().map_or("", String::as_str);
            let line = format!("{indent}{twig}{}", self.label(path.name().unwrap_or("/"), &entry));
            app.out.entry(&path, &entry, line)?;
            indents.push(format!("{indent}{space}"));
            if entry.kind == Kind::Directory {
                directories += 1;
            } else {
                others += 1;
            }
            if depth >= most {
                below.skip();
            }
        }
        let directories = counted(directories, "directory", "directories");
        app.out.note(format_args!("\n{directories}, {}", counted(others, "file", "files")))?;
        failures.done()
    }

    fn label(&self, name: &str, entry: &Entry) -> String {
        let size = match entry.kind {
            Kind::File if self.human_readable => format!("[{:>4}]  ", size_text(entry.size, true)),
            _ => String::new(),
        };
        let target = entry.target.as_ref().map(|target| format!(" -> {}", escaped(target)));
        format!("{size}{}{}", escaped(name), target.unwrap_or_default())
    }
}
