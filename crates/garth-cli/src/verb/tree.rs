//! `garth tree`: a subtree, drawn.

use clap::Args;
use garth::fs::resolve::Follow;
use garth::model::Kind;
use garth::{FileSystem, TreePath};

use crate::app::{App, stat_path};
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::Result;
use crate::out::entry_json;
use crate::walk::Lister;

/// Draw a subtree
///
/// With --json one object a path, each directory before what is in it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth tree -L 2 /agents")]
pub(crate) struct Tree {
    /// Where to begin
    #[arg(default_value = "/")]
    path: String,
    /// How many levels to show
    #[arg(short = 'L', long, value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    #[command(flatten)]
    past: Past,
}

/// A name that waits to be drawn.
struct Branch {
    path: TreePath,
    entry: garth::model::Entry,
    /// What is drawn before names below it.
    indent: String,
    last: bool,
    depth: u32,
}

impl Tree {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.pinned(&self.past).await?;
        let (top, entry) = stat_path(&*fs, &self.path, Follow::Yes).await?;
        app.out.item(&entry_json(&top, &entry), escaped(top.as_str()))?;
        if entry.kind != Kind::Directory {
            return Ok(());
        }
        let (mut directories, mut others) = (0_u64, 0_u64);
        // What is left to draw, the next one last.
        let mut todo = self.branches(&*fs, &top, "", 1).await?;
        while let Some(branch) = todo.pop() {
            let (twig, below) = if branch.last { ("└── ", "    ") } else { ("├── ", "│   ") };
            let name = escaped(branch.path.name().unwrap_or("/"));
            let target = branch.entry.target.as_ref().map(|target| format!(" -> {}", escaped(target)));
            app.out.item(
                &entry_json(&branch.path, &branch.entry),
                format_args!("{}{twig}{name}{}", branch.indent, target.unwrap_or_default()),
            )?;
            if branch.entry.kind == Kind::Directory {
                directories += 1;
                let indent = format!("{}{below}", branch.indent);
                todo.extend(self.branches(&*fs, &branch.path, &indent, branch.depth + 1).await?);
            } else {
                others += 1;
            }
        }
        let plural = |count, one, many| if count == 1 { one } else { many };
        app.out.note(format_args!(
            "\n{directories} {}, {others} {}",
            plural(directories, "directory", "directories"),
            plural(others, "file", "files")
        ))
    }

    /// What is in a directory, last name first.
    async fn branches(
        &self,
        fs: &dyn FileSystem,
        dir: &TreePath,
        indent: &str,
        depth: u32,
    ) -> Result<Vec<Branch>> {
        let mut branches = Vec::new();
        if self.depth.is_some_and(|most| depth > most) {
            return Ok(branches);
        }
        let mut lister = Lister::new(dir);
        loop {
            let page = lister.page(fs).await?;
            if page.is_empty() {
                break;
            }
            for (path, entry) in page {
                branches.push(Branch { path, entry, indent: indent.to_owned(), last: false, depth });
            }
        }
        if let Some(branch) = branches.last_mut() {
            branch.last = true;
        }
        branches.reverse();
        Ok(branches)
    }
}
