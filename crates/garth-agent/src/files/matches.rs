//! Paths that match a glob pattern, one after the other.

use std::collections::VecDeque;

use super::cursor::unknown_cursor;
use super::glob_pattern::{GlobPattern, WILD};
use super::walker::{PAGE, Walker};
use garth_engine::compute::{go_on, working};
use garth_engine::error::{Error, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, Entry, Item, Kind, Page};
use garth_engine::path::{Name, TreePath};

/// Limit on the segments that are matched level by level. Longer patterns are matched as a whole.
const MAX_LEVELS: usize = 64;

/// Paths that match a glob pattern, see [`Glob`](super::Glob). Reads no more at a time than a page of names
/// of each level, and only directories that can contain a match. Matches are depth first, by name.
///
/// A pattern with `**`, with alternatives of different depths, or with more than 64 segments is compared with
/// every path below the directory before its first wildcard. Its matches are in the order of a walk, by
/// directory and then by name.
///
/// In a tree of several stores, such as that of all accounts, a store that cannot be read is left out
/// ([`Matches::take_failed`]).
pub struct Matches<'a> {
    source: Source<'a>,
    only_directories: bool,
    failed: Vec<Error>,
}

enum Source<'a> {
    /// At most one path, because the pattern has no wildcards.
    Fixed(Option<(TreePath, Entry)>),
    /// One pattern for each level, so that directories which cannot contain a match are not read.
    Levels(Levels<'a>),
    /// Matches may have different depths: everything below the fixed part is read.
    Deep(Deep<'a>),
}

/// Path that was looked at.
pub(super) struct Row {
    pub(super) path: TreePath,
    /// Entry of a match.
    pub(super) entry: Option<Entry>,
    /// Error of a directory that is left out, with everything below it.
    pub(super) failed: Option<Error>,
}

/// Path after which a search continues.
pub(super) struct After {
    pub(super) path: TreePath,
    /// True if everything below the path is left out.
    pub(super) is_left_out: bool,
}

impl<'a> Matches<'a> {
    /// Starts a search. If the fixed part of the pattern does not exist, nothing matches.
    ///
    /// # Errors
    /// `InvalidArgument`: the pattern does not begin with `/`, or is malformed. As
    /// [`resolve::stat`] for the fixed part.
    pub async fn new(fs: &'a dyn FileSystem, pattern: &str) -> Result<Self> {
        Self::resume(fs, pattern, None, None, PAGE).await
    }

    /// Starts a search after a path that was looked at, in a tree that begins at `top`. Reads at most `names`
    /// at a time.
    pub(super) async fn resume(
        fs: &'a dyn FileSystem,
        pattern: &str,
        top: Option<&TreePath>,
        after: Option<After>,
        names: usize,
    ) -> Result<Self> {
        if !pattern.starts_with('/') {
            let subject = if pattern.is_empty() { String::new() } else { format!("{pattern}: ") };
            return Err(Error::invalid(format!("{subject}a pattern must begin with `/`, such as /**/*.md")));
        }
        let only_directories = pattern.ends_with('/');
        let (base, rest) = split(pattern.trim_end_matches('/'));
        let whole = GlobPattern::parse(rest)?;
        if let Some(top) = top
            && let Ok(base) = TreePath::parse(base)
            && top != &base
            && top.is_within(&base)
        {
            let source = Source::from_above(fs, (&base, top), (rest, whole), after, names).await?;
            return Ok(Self { source, only_directories, failed: Vec::new() });
        }
        // A link matches as a link, but above wildcards or with a `/` at the end it stands for its directory.
        let follow = if rest.is_empty() && !only_directories { Follow::No } else { Follow::Yes };
        let found = resolve::stat(fs, base, follow).await.optional()?;
        let source = match found {
            Some((top, entry)) if !rest.is_empty() && entry.is_dir() => {
                if after.as_ref().is_some_and(|after| after.path == top || !after.path.is_within(&top)) {
                    return Err(unknown_cursor());
                }
                match levels(rest) {
                    Some(patterns) => {
                        Source::Levels(Levels::resume(fs, &top, after.as_ref(), patterns, names)?)
                    }
                    None => {
                        let walker = Walker::new(fs, &top, after.map(|after| after.path), names);
                        Source::Deep(Deep { first: None, walker, base: top, pattern: whole })
                    }
                }
            }
            // The root is above all paths that a pattern can name. After the only path there is nothing more.
            found => {
                Source::Fixed(found.filter(|(path, _)| rest.is_empty() && !path.is_root() && after.is_none()))
            }
        };
        Ok(Self { source, only_directories, failed: Vec::new() })
    }

    /// Returns the next match.
    ///
    /// # Errors
    /// Errors of the filesystem.
    pub async fn next(&mut self) -> Result<Option<(TreePath, Entry)>> {
        while let Some(row) = self.step().await? {
            self.failed.extend(row.failed);
            if let Some(entry) = row.entry {
                return Ok(Some((row.path, entry)));
            }
        }
        Ok(None)
    }

    /// Returns the errors of directories that [`Matches::next`] left out since the last call, each about the
    /// path of one.
    pub fn take_failed(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.failed)
    }

    /// Looks at the next path.
    pub(super) async fn step(&mut self) -> Result<Option<Row>> {
        let row = match &mut self.source {
            Source::Fixed(found) => found.take().map(|(path, entry)| Row::of(path, Some(entry))),
            Source::Levels(levels) => levels.step().await?,
            Source::Deep(deep) => deep.step().await?,
        };
        let Some(Row { path, entry, failed }) = row else { return Ok(None) };
        let entry = entry.filter(|entry| !self.only_directories || entry.is_dir());
        Ok(Some(Row { path, entry, failed }))
    }
}

impl Row {
    fn of(path: TreePath, entry: Option<Entry>) -> Self {
        Self { path, entry, failed: None }
    }
}

impl<'a> Source<'a> {
    /// Starts a search whose pattern begins at `base`, above the path `top` at which the tree begins. `rest`
    /// is the pattern below `base`.
    async fn from_above(
        fs: &'a dyn FileSystem,
        (base, top): (&TreePath, &TreePath),
        (rest, whole): (&str, GlobPattern),
        after: Option<After>,
        names: usize,
    ) -> Result<Self> {
        if after.as_ref().is_some_and(|after| !after.path.is_within(top)) {
            return Err(unknown_cursor());
        }
        let nothing = Self::Fixed(None);
        let Some(entry) = fs.stat(&At::from(top)).await.optional()? else { return Ok(nothing) };
        let is_dir = entry.is_dir();
        // The top itself may match, too. It is the first row.
        let first = Some((top.clone(), entry)).filter(|_| after.is_none());
        let Some(mut patterns) = levels(rest) else {
            if !is_dir {
                return Ok(Self::Fixed(first.filter(|_| whole.is_match(relative(top, base)))));
            }
            let after = after.map(|after| after.path).filter(|after| after != top);
            let walker = Walker::new(fs, top, after, names);
            return Ok(Self::Deep(Deep { first, walker, base: base.clone(), pattern: whole }));
        };
        let between: Vec<&str> = relative(top, base).split('/').collect();
        let leads = |(pattern, name): (&GlobPattern, &&str)| pattern.is_match(name);
        if patterns.len() < between.len() || !patterns.iter().zip(&between).all(leads) {
            return Ok(nothing);
        }
        let below = patterns.split_off(between.len());
        match (below.is_empty(), is_dir) {
            (true, _) => Ok(Self::Fixed(first)),
            (false, true) => {
                // The top is above the rows of these levels.
                if after.as_ref().is_some_and(|after| &after.path == top) {
                    return Err(unknown_cursor());
                }
                Ok(Self::Levels(Levels::resume(fs, top, after.as_ref(), below, names)?))
            }
            (false, false) => Ok(nothing),
        }
    }
}

/// Returns the part of a path below `base`, without a slash at its beginning.
fn relative<'p>(path: &'p TreePath, base: &TreePath) -> &'p str {
    path.key()[base.key().len()..].trim_start_matches('/')
}

struct Deep<'a> {
    /// Row before those of the walk.
    first: Option<(TreePath, Entry)>,
    walker: Walker<'a>,
    /// Path to which the pattern is relative.
    base: TreePath,
    pattern: GlobPattern,
}

impl Deep<'_> {
    async fn step(&mut self) -> Result<Option<Row>> {
        let next = match self.first.take() {
            Some(first) => Some(first),
            None => self.walker.next().await?,
        };
        let Some((path, entry)) = next else { return Ok(None) };
        let fits = self.pattern.is_match(relative(&path, &self.base));
        Ok(Some(Row::of(path, fits.then_some(entry))))
    }
}

struct Levels<'a> {
    fs: &'a dyn FileSystem,
    patterns: Vec<GlobPattern>,
    /// Directories on the way down.
    open: Vec<OpenDirectory>,
    page: usize,
}

/// Directory with the rest of its page. Up to [`MAX_LEVELS`] are open at once, so those above the last level
/// hold names without entries.
struct OpenDirectory {
    path: TreePath,
    after: Option<Name>,
    more: bool,
    ready: VecDeque<Item>,
}

impl<'a> Levels<'a> {
    fn resume(
        fs: &'a dyn FileSystem,
        top: &TreePath,
        after: Option<&After>,
        patterns: Vec<GlobPattern>,
        names: usize,
    ) -> Result<Self> {
        let (mut dir, mut open) = (top.clone(), Vec::new());
        let below = after.map_or("", |after| &after.path.key()[top.key().len()..]);
        let names_below: Vec<&str> = below.split('/').skip(1).collect();
        if names_below.len() > patterns.len() {
            return Err(unknown_cursor());
        }
        for name in &names_below {
            let name = Name::parse(name)?;
            let next = dir.join(&name)?;
            open.push(OpenDirectory::new(dir, Some(name)));
            dir = next;
        }
        // The path itself was looked at, but not what is in it.
        let level = names_below.len();
        let is_open = match names_below.last() {
            Some(_) if after.is_some_and(|after| after.is_left_out) => false,
            Some(name) => level < patterns.len() && patterns[level - 1].is_match(name),
            None => true,
        };
        if is_open {
            open.push(OpenDirectory::new(dir, None));
        }
        Ok(Self { fs, patterns, open, page: names.clamp(1, PAGE) })
    }

    async fn step(&mut self) -> Result<Option<Row>> {
        loop {
            let level = self.open.len();
            let is_last = level == self.patterns.len();
            let Some(dir) = self.open.last_mut() else { return Ok(None) };
            let item = match dir.next(self.fs, self.page, is_last).await {
                Ok(Some(item)) => item,
                Ok(None) => {
                    self.open.pop();
                    continue;
                }
                Err(error) => return self.leave_out(error).map(Some),
            };
            let path = dir.path.join(&item.name)?;
            let fits = self.patterns[level - 1].is_match(item.name.as_str());
            if fits && !is_last && item.kind == Kind::Directory {
                self.open.push(OpenDirectory::new(path.clone(), None));
            }
            let entry = item.entry.filter(|_| fits && is_last);
            return Ok(Some(Row::of(path, entry.map(|entry| *entry))));
        }
    }

    /// Leaves the part of the tree that an error is about, such as an account that cannot be read, so that
    /// the search goes on after it. Any other error ends the search.
    fn leave_out(&mut self, error: Error) -> Result<Row> {
        let (top, dir) = (self.open.first(), self.open.last());
        let part = top.zip(dir).and_then(|(top, dir)| error.unreadable_part(&top.path, &dir.path)).cloned();
        let Some(part) = part else { return Err(error) };
        self.open.retain(|dir| !dir.path.is_within(&part));
        Ok(Row { path: part, entry: None, failed: Some(error) })
    }
}

impl OpenDirectory {
    fn new(path: TreePath, after: Option<Name>) -> Self {
        Self { path, after, more: true, ready: VecDeque::new() }
    }

    async fn next(&mut self, fs: &dyn FileSystem, limit: usize, entries: bool) -> Result<Option<Item>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if !self.more {
                return Ok(None);
            }
            go_on()?;
            let page = Page::default().after(self.after.take()).limit(limit);
            let page = if entries { page.with_entries() } else { page };
            // Another client may have removed the directory, or put a file in its place, since its name was
            // read.
            let Some(listing) = fs.list(&At::from(&self.path), &page).await.optional()? else {
                return Ok(None);
            };
            working(listing.items.iter().map(|item| item.name.as_str().len()).sum());
            self.more = listing.more;
            self.after = listing.items.last().map(|item| item.name.clone());
            self.ready = listing.items.into();
        }
    }
}

/// Splits a pattern into the directory above all matches, and the rest, which is empty without wildcards.
fn split(pattern: &str) -> (&str, &str) {
    let Some(wild) = pattern.find(WILD) else { return (if pattern.is_empty() { "/" } else { pattern }, "") };
    match pattern[..wild].rfind('/') {
        Some(0) | None => ("/", pattern.trim_start_matches('/')),
        Some(end) => (&pattern[..end], &pattern[end + 1..]),
    }
}

/// Returns a pattern for each segment; `None` if matches may have different depths.
fn levels(pattern: &str) -> Option<Vec<GlobPattern>> {
    let segments: Vec<&str> = pattern.split('/').filter(|segment| !segment.is_empty()).collect();
    if pattern.contains("**") || segments.len() > MAX_LEVELS {
        return None;
    }
    segments.into_iter().map(|segment| GlobPattern::parse(segment).ok()).collect()
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use garth_engine::engine::memory::MemoryFs;
    use garth_engine::model::{Batch, Op};
    use garth_engine::{Env, FileSystemExt as _};

    use super::*;

    #[test]
    fn entries_are_read_only_on_the_last_level() {
        block_on(async {
            let fs = MemoryFs::new(Env::system(), crate::registry());
            let paths = ["/a/x/1", "/a/y/1", "/b/x/1"].map(|path| TreePath::parse(path).unwrap());
            let ops = paths.map(|path| Op::write(path, "").with_parents());
            fs.commit(Batch::new(ops)).await.unwrap();
            let mut matches = Matches::new(&fs, "/*/*/*").await.unwrap();
            let (path, entry) = matches.next().await.unwrap().unwrap();
            assert_eq!((path.as_str(), entry), ("/a/x/1", fs.entry("/a/x/1").await.unwrap()));
            let Source::Levels(levels) = &matches.source else { panic!("one pattern for each level") };
            let waiting: Vec<&Item> = levels.open.iter().flat_map(|dir| &dir.ready).collect();
            let names: Vec<&str> = waiting.iter().map(|item| item.name.as_str()).collect();
            assert_eq!(names, ["b", "y"]);
            assert!(waiting.iter().all(|item| item.entry.is_none()));
        });
    }

    #[test]
    fn splits_off_fixed_part_of_pattern() {
        assert_eq!(split("/notes/2026/*.md"), ("/notes/2026", "*.md"));
        assert_eq!(split("/notes/**"), ("/notes", "**"));
        assert_eq!(split("/n*/a"), ("/", "n*/a"));
        assert_eq!(split("/notes/a.md"), ("/notes/a.md", ""));
        assert_eq!(split("/{a,b}"), ("/", "{a,b}"));
        assert_eq!(split(""), ("/", ""));
    }

    #[test]
    fn patterns_match_level_by_level() {
        assert_eq!(levels("*/a?.md").map(|levels| levels.len()), Some(2));
        assert!(levels("**/a").is_none());
        assert!(levels("{a/b,c}").is_none(), "its matches lie at two depths");
        assert!(levels(&"?/".repeat(100)).is_none());
    }
}
