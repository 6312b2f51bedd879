//! `garth find`: finds paths by their attributes.

mod marked;

use std::cmp::Ordering;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use garth_agent::files::GlobPattern;
use garth_engine::error::OptionalExt as _;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, Entry, Kind, Page, Timestamp};
use garth_engine::{FileSystem, FileSystemExt as _, TreePath};

use self::marked::{MarkedPaths, Marks};

use crate::app::{App, stat_path};
use crate::args::{Past, TREE_PATH};
use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result, usage};
use crate::size::{parse_count, parse_size};
use crate::verb::set::parse_pair;
use crate::walk::{DepthFirst, report};

/// Find paths by name, kind, size, time, tags and metadata
///
/// Walks each path, a directory before its contents, without following links, and prints the entries that
/// pass all tests. With --tag or --meta an index is read instead, except with --at; more than 100,000
/// matches are sorted in parts. One dash is enough, as in find(1): `-name`, `-type`, `-mtime`. With --json,
/// prints one object per path: path, name, kind, size, mode, times, attributes, version.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth find /projects -name '*.md' -newer 7d")]
pub(crate) struct Find {
    /// Paths to start from
    #[arg(value_hint = TREE_PATH, default_value = "/")]
    paths: Vec<String>,
    /// Match the name with this pattern (repeatable: one of them is enough)
    #[arg(long = "name", value_name = "GLOB")]
    names: Vec<String>,
    /// Like --name, ignoring case
    #[arg(long = "iname", value_name = "GLOB")]
    inames: Vec<String>,
    /// Match the whole path with this pattern, in which `*` also matches `/`
    #[arg(long = "path", value_name = "GLOB")]
    path_patterns: Vec<String>,
    /// Match kinds, separated by commas: f (file), d (directory), l (symbolic link), p (fifo), s (socket), c
    /// and b (devices)
    #[arg(long = "type", value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<KindLetter>,
    /// Match sizes above (+10k), below (-1M) or equal to this, in bytes or with k, M, G, T
    #[arg(long, value_name = "[+-]SIZE", allow_hyphen_values = true, value_parser = parse_test)]
    size: Option<Test>,
    /// Match entries that were modified after this path, or after this time (as for --at)
    #[arg(value_hint = TREE_PATH, long, visible_alias = "newermt", value_name = "PATH|TIME")]
    newer: Option<String>,
    /// Match entries that were modified more than (+2), less than (-2) or exactly this many whole days ago
    #[arg(long, value_name = "[+-]DAYS", allow_hyphen_values = true, value_parser = parse_test)]
    mtime: Option<Test>,
    /// Like --mtime, in minutes
    #[arg(long, value_name = "[+-]MINUTES", allow_hyphen_values = true, value_parser = parse_test)]
    mmin: Option<Test>,
    /// Match entries with this tag (repeatable: all must match)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Match entries with this value in their custom metadata (repeatable: all must match)
    #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = parse_pair)]
    values: Vec<(String, String)>,
    /// Match empty files and directories
    #[arg(long)]
    empty: bool,
    /// Descend at most this many levels; 0 is the path itself
    #[arg(long, value_name = "LEVELS", value_parser = parse_count::<usize>)]
    maxdepth: Option<usize>,
    /// Print only entries at this level or deeper
    #[arg(long, value_name = "LEVELS", default_value_t = 0, value_parser = parse_count::<usize>)]
    mindepth: usize,
    /// End each path with NUL instead of a newline, and escape nothing
    #[arg(short = '0', long)]
    print0: bool,
    /// Accepted and ignored: paths are always printed
    #[arg(long, hide = true)]
    print: bool,
    #[command(flatten)]
    past: Past,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum KindLetter {
    #[value(name = "f", alias = "file")]
    File,
    #[value(name = "d", aliases = ["dir", "directory"])]
    Directory,
    #[value(name = "l", aliases = ["link", "symlink"])]
    Symlink,
    #[value(name = "p", alias = "fifo")]
    Fifo,
    #[value(name = "s", alias = "socket")]
    Socket,
    #[value(name = "c")]
    CharDevice,
    #[value(name = "b")]
    BlockDevice,
}

/// Comparison with a number: `+5` is more than 5, `-5` less than 5, `5` exactly 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Test {
    order: Ordering,
    number: u64,
}

fn parse_test(text: &str) -> std::result::Result<Test, String> {
    let (order, number) = match text.split_at_checked(1) {
        Some(("+", number)) => (Ordering::Greater, number),
        Some(("-", number)) => (Ordering::Less, number),
        _ => (Ordering::Equal, text),
    };
    Ok(Test { order, number: parse_size(number)? })
}

impl Test {
    fn holds(self, value: u64) -> bool {
        value.cmp(&self.number) == self.order
    }
}

/// Compiled tests of one run.
struct Tests {
    names: Vec<GlobPattern>,
    paths: Vec<GlobPattern>,
    newer: Option<Timestamp>,
    now: Timestamp,
}

impl Find {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let marked = self.past.at.is_none() && !(self.tags.is_empty() && self.values.is_empty());
        // The index describes the current state only.
        let fs = if marked { app.view(&self.past).await? } else { app.pinned(&self.past).await? };
        let tests = self.tests(app, &*fs).await?;
        app.each(&self.paths, async |app, path| self.path(app, &fs, &tests, path).await).await
    }

    async fn path(&self, app: &mut App, fs: &Arc<dyn FileSystem>, tests: &Tests, path: &str) -> Result {
        let most = self.maxdepth.unwrap_or(usize::MAX);
        if let Some(mut marked) = MarkedPaths::below(&**fs, path, self.marks()).await? {
            while let Some(paths) = marked.piece(&**fs).await? {
                for (path, depth) in paths {
                    // Deleted in between, if it has no entry.
                    if (self.mindepth..=most).contains(&depth)
                        && let Some(entry) = fs.lookup(&path).await?
                    {
                        self.consider(app, &**fs, tests, &path, &entry).await?;
                    }
                }
            }
            return Ok(());
        }
        let (top, entry) = stat_path(&**fs, path, Follow::No).await?;
        if self.mindepth == 0 {
            self.consider(app, &**fs, tests, &top, &entry).await?;
        }
        if entry.kind != Kind::Directory || most == 0 {
            return Ok(());
        }
        let (mut below, mut failures) = (DepthFirst::new(Arc::clone(fs), &top), Failures::default());
        while let Some((path, entry)) = below.next_readable(app, &mut failures).await? {
            let depth = below.depth();
            if depth >= most {
                // The contents of this directory are deeper than --maxdepth.
                below.skip();
            }
            if depth < self.mindepth {
                continue;
            }
            match self.consider(app, &**fs, tests, &path, &entry).await {
                // --empty lists the directory, which is then not listed again.
                Err(Failure::Tree(error)) if below.passes(&error) => {
                    below.skip();
                    report(app, &mut failures, error)?;
                }
                considered => considered?,
            }
        }
        failures.done()
    }

    fn marks(&self) -> Marks<'_> {
        Marks { tags: &self.tags, values: &self.values }
    }

    async fn tests(&self, app: &App, fs: &dyn FileSystem) -> Result<Tests> {
        let mut names = Vec::new();
        for (patterns, ignore_case) in [(&self.names, false), (&self.inames, true)] {
            for pattern in patterns {
                if pattern.contains('/') {
                    let message =
                        format!("{pattern}: a name cannot contain `/`; use --path to match complete paths");
                    return Err(Failure::Usage(message));
                }
                let compile = if ignore_case { GlobPattern::ignoring_case } else { GlobPattern::parse };
                names.push(compile(pattern).map_err(usage)?);
            }
        }
        let paths = self.path_patterns.iter().map(|pattern| GlobPattern::crossing(pattern).map_err(usage));
        let newer = match &self.newer {
            // No form of a time begins with `/`.
            Some(path) if path.starts_with('/') => Some(stat_path(fs, path, Follow::Yes).await?.1.mtime),
            Some(text) => Some(app.time(&self.past, text).await?),
            None => None,
        };
        Ok(Tests { names, paths: paths.collect::<Result<_>>()?, newer, now: app.env.now() })
    }

    /// Prints a path if all tests hold.
    async fn consider(
        &self,
        app: &mut App,
        fs: &dyn FileSystem,
        tests: &Tests,
        path: &TreePath,
        entry: &Entry,
    ) -> Result {
        if !self.holds(tests, path, entry) || (self.empty && !is_empty(fs, path, entry).await?) {
            return Ok(());
        }
        if self.print0 && !app.out.is_json() {
            app.out.bytes(path.as_str().as_bytes())?;
            return app.out.bytes(b"\0");
        }
        app.out.entry(path, entry, escaped(path.as_str()))
    }

    fn holds(&self, tests: &Tests, path: &TreePath, entry: &Entry) -> bool {
        let any = |patterns: &[GlobPattern], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.is_match(text))
        };
        // A time in the future counts as now.
        let age = u64::try_from(tests.now.0.saturating_sub(entry.mtime.0)).unwrap_or(0) / 1_000_000_000;
        // As in find(1), the name of the root is `/`.
        any(&tests.names, path.name().unwrap_or("/"))
            && any(&tests.paths, path.as_str())
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.kind() == entry.kind))
            && self.marks().are_in(&entry.attributes)
            && self.size.is_none_or(|size| size.holds(entry.size))
            && tests.newer.is_none_or(|newer| entry.mtime > newer)
            && self.mtime.is_none_or(|days| days.holds(age / 86_400))
            && self.mmin.is_none_or(|minutes| minutes.holds(age / 60))
    }
}

impl KindLetter {
    fn kind(self) -> Kind {
        match self {
            Self::File => Kind::File,
            Self::Directory => Kind::Directory,
            Self::Symlink => Kind::Symlink,
            Self::Fifo => Kind::Fifo,
            Self::Socket => Kind::Socket,
            Self::CharDevice => Kind::CharDevice,
            Self::BlockDevice => Kind::BlockDevice,
        }
    }
}

async fn is_empty(fs: &dyn FileSystem, path: &TreePath, entry: &Entry) -> garth_engine::Result<bool> {
    match entry.kind {
        Kind::File => Ok(entry.size == 0),
        Kind::Directory => {
            // One that was removed since the walk found it is not shown.
            let listing = fs.list(&At::from(path), &Page::default().limit(1)).await.optional()?;
            Ok(listing.is_some_and(|listing| listing.items.is_empty()))
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_numbers_are_more_less_or_exact() {
        assert!(parse_test("+5").is_ok_and(|test| test.holds(6) && !test.holds(5)));
        assert!(parse_test("-1k").is_ok_and(|test| test.holds(1023) && !test.holds(1024)));
        assert!(parse_test("7").is_ok_and(|test| test.holds(7) && !test.holds(8)));
        assert!(parse_test("+").is_err() && parse_test("--1").is_err() && parse_test("é").is_err());
    }
}
