//! Bytes and entries of directories, in pages. They are counted depth first, so that the cursor of a page
//! only has the sums of the directories that it is inside of.

use std::collections::{HashMap, VecDeque};
use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cursor::{Cursors, moment_json, path_of, unknown_cursor};
use super::handle::Files;
use super::limits::{Budget, Limits};
use super::walker::PAGE;
use crate::boxed;
use garth_engine::compute::{go_on, working};
use garth_engine::error::{OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, Entry, Ino, Item, Kind, Moment, NamesPage, Page, Weigh as _};
use garth_engine::path::{Name, TreePath};

/// Limit on the files whose first names are remembered for a directory.
const MAX_REMEMBERED: usize = 10_000;

/// Request for the bytes and entries of a path, and of directories below it. They are counted as quotas count
/// them: bytes are the sizes of files, not the space on disk, a file with several names counts once, and the
/// entries of a directory are the names below it. Expired entries do not count.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Du {
    /// Path. A link at its end is counted itself.
    pub path: String,
    /// Levels below the path down to which each directory has a total of its own.
    pub depth: usize,
    /// Time as of which the tree is read; `None` for now.
    pub at: Option<Moment>,
    /// Limits of one call. No content is read.
    pub limits: Limits,
    /// Start: [`DuPage::next`] of the page before, or `None` for the first page.
    pub cursor: Option<String>,
}

/// Page of totals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DuPage {
    /// Totals, that of a directory after those of the directories in it. The last one of the last page is
    /// that of the path.
    pub items: Vec<DuTotal>,
    /// Cursor of the next page; `None` if this is the last one. A page may have no totals.
    pub next: Option<String>,
}

/// Total of a directory with everything below it, or of another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct DuTotal {
    /// Path.
    pub path: TreePath,
    /// Sizes of the files. A file with several names counts under the first of those below the requested
    /// path, in the order of a walk.
    pub bytes: u64,
    /// Names below the directory; 1 for another node.
    pub entries: u64,
    /// Files among them.
    pub files: u64,
    /// Directories among them.
    pub directories: u64,
}

impl Du {
    /// Returns a request for the total of a path in the current tree.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), depth: 0, at: None, limits: Limits::default(), cursor: None }
    }

    /// Sets the levels below the path down to which each directory has a total of its own.
    #[must_use]
    pub fn depth(self, depth: usize) -> Self {
        Self { depth, ..self }
    }
}

impl Files<'_> {
    /// Counts the bytes and entries of a path with everything below it, and of the directories in it.
    ///
    /// Each page reads the tree at its own time, unless [`Du::at`] names one. The cost grows with the number
    /// of names below the path.
    ///
    /// # Errors
    /// `NotFound` for a missing path; `InvalidArgument` for a limit of 0 or a cursor of another request; as
    /// [`as_of`](garth_engine::FileSystem::as_of); errors of the filesystem.
    #[boxed]
    pub async fn du(&self, asked: &Du) -> Result<DuPage> {
        let request = json!(["du", asked.path, asked.depth, moment_json(asked.at.as_ref())]);
        let cursors = Cursors::of(&request);
        let position = asked.cursor.as_deref().map(|cursor| cursors.open::<Position>(cursor)).transpose()?;
        let mut budget = Budget::new(asked.limits, self.stop)?;
        let past = self.past(asked.at.as_ref()).await?;
        let fs: &dyn FileSystem = past.as_deref().unwrap_or(self.fs);
        let (top, entry) = resolve::stat(fs, &asked.path, Follow::No).await?;
        if !entry.is_dir() {
            // After the only total there is nothing more.
            let total = position.is_none().then(|| Sum::of(&entry).total(top));
            return Ok(DuPage { items: vec![total.ok_or_else(unknown_cursor)?], next: None });
        }
        let mut count = Count::new(fs, (top, asked.depth), position, asked.limits.names)?;
        let mut page = DuPage::default();
        while !count.open.is_empty() {
            if let Some(total) = count.step(&mut budget).await? {
                budget.item(total.path.weight() + size_of::<Sum>());
                page.items.push(total);
            }
            if budget.is_spent()
                && let Some(position) = count.position()
            {
                page.next = Some(cursors.seal(&position)?);
                break;
            }
        }
        Ok(page)
    }
}

/// Position of a page.
#[derive(Serialize, Deserialize)]
struct Position {
    /// Key of the last path that was looked at.
    after: String,
    /// True for a directory in which nothing was looked at, false if the path is complete.
    is_open: bool,
    /// Sums so far, as in [`Count::sums`].
    sums: Vec<Sum>,
}

/// Sum of what was counted below a directory.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Sum {
    bytes: u64,
    entries: u64,
    files: u64,
    directories: u64,
}

impl Sum {
    /// Returns the sum of a node that is not a directory.
    fn of(entry: &Entry) -> Self {
        let files = u64::from(entry.is_file());
        Self { bytes: if entry.is_file() { entry.size } else { 0 }, entries: 1, files, directories: 0 }
    }

    fn total(self, path: TreePath) -> DuTotal {
        let Self { bytes, entries, files, directories } = self;
        DuTotal { path, bytes, entries, files, directories }
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        // A cursor can have any numbers: its digest is no signature.
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.entries = self.entries.saturating_add(other.entries);
        self.files = self.files.saturating_add(other.files);
        self.directories = self.directories.saturating_add(other.directories);
    }
}

/// Count in progress.
struct Count<'a> {
    fs: &'a dyn FileSystem,
    top: TreePath,
    depth: usize,
    /// Directories on the way down, the top first. The count is complete when there are none.
    open: Vec<OpenDirectory>,
    /// Sums of these directories down to `depth` levels below the top. That of the last one includes what was
    /// counted in deeper ones.
    sums: Vec<Sum>,
    /// Limit on the names of one listing.
    page: usize,
}

/// Directory that is being counted, with the rest of its page.
struct OpenDirectory {
    path: TreePath,
    /// Last name that was looked at.
    last: Option<Name>,
    more: bool,
    ready: VecDeque<Row>,
    /// First names of files with several: the name if it is in this directory, `None` if it is elsewhere. A
    /// tree of several stores can have an inode twice, but not in one directory.
    first_names: HashMap<Ino, Option<Name>>,
}

/// Name in a directory. Attributes are left out, because thousands of names can wait.
struct Row {
    name: Name,
    is_dir: bool,
    sum: Sum,
    /// Inode of a file with several names.
    shared: Option<Ino>,
}

impl<'a> Count<'a> {
    /// Returns a count that begins at the top, or at a position below it. Reads at most `names` at a time.
    fn new(
        fs: &'a dyn FileSystem,
        (top, depth): (TreePath, usize),
        position: Option<Position>,
        names: usize,
    ) -> Result<Self> {
        let page = names.clamp(1, PAGE);
        let Some(position) = position else {
            let (open, sums) = (vec![OpenDirectory::new(top.clone(), None)], vec![Sum::default()]);
            return Ok(Self { fs, top, depth, open, sums, page });
        };
        let after = path_of(&position.after)?;
        if after == top || !after.is_within(&top) {
            return Err(unknown_cursor());
        }
        let (mut dir, mut open) = (top.clone(), Vec::new());
        for name in after.key()[top.key().len()..].split('/').skip(1) {
            let name = Name::parse(name)?;
            let below = dir.join(&name)?;
            open.push(OpenDirectory::new(dir, Some(name)));
            dir = below;
        }
        if position.is_open {
            open.push(OpenDirectory::new(dir, None));
        }
        let count = Self { fs, top, depth, open, sums: position.sums, page };
        if count.sums.len() == count.level().min(depth) + 1 { Ok(count) } else { Err(unknown_cursor()) }
    }

    /// Returns the levels of the innermost open directory below the top.
    fn level(&self) -> usize {
        self.open.len().saturating_sub(1)
    }

    /// Returns the position to continue from; `None` if the count is complete.
    fn position(&self) -> Option<Position> {
        let dir = self.open.last()?;
        let below = dir.last.as_ref().map_or_else(String::new, |name| format!("/{name}"));
        let after = format!("{}{below}", dir.path.key());
        Some(Position { after, is_open: dir.last.is_none(), sums: self.sums.clone() })
    }

    /// Looks at the next name, or leaves a directory after its last one. Returns the total of a directory
    /// that is left, down to `depth`.
    async fn step(&mut self, budget: &mut Budget<'_>) -> Result<Option<DuTotal>> {
        if self.open.last().is_some_and(|dir| dir.more && dir.ready.is_empty()) {
            // Counted when they are read: as many are held in memory.
            for _ in 0..self.read().await? {
                budget.name();
            }
        }
        let Some(dir) = self.open.last_mut() else { return Ok(None) };
        let Some(Row { name, is_dir, mut sum, shared }) = dir.ready.pop_front() else {
            return Ok(self.leave());
        };
        if is_dir {
            let path = dir.path.join(&name)?;
            dir.last = Some(name);
            if self.is_repeated(&path) {
                return Ok(None);
            }
            self.open.push(OpenDirectory::new(path, None));
            if self.level() <= self.depth {
                self.sums.push(Sum::default());
            }
            return Ok(None);
        }
        dir.last = Some(name.clone());
        if let Some(ino) = shared
            && !self.is_first_name(ino, &name).await?
        {
            sum.bytes = 0;
        }
        self.add(sum);
        Ok(None)
    }

    /// Returns true for a path of an alias whose files are counted under their other path.
    fn is_repeated(&self, path: &TreePath) -> bool {
        let original = self.fs.view_base().original_of(path);
        original.is_some_and(|original| original.is_within(&self.top))
    }

    fn add(&mut self, sum: Sum) {
        if let Some(last) = self.sums.last_mut() {
            *last += sum;
        }
    }

    /// Leaves the innermost directory, which is complete.
    fn leave(&mut self) -> Option<DuTotal> {
        let has_total = self.level() <= self.depth;
        let left = self.open.pop()?;
        let sum = if has_total { self.sums.pop() } else { None };
        self.add(sum.unwrap_or_default());
        self.add(Sum { entries: 1, directories: 1, ..Sum::default() });
        Some(sum?.total(left.path))
    }

    /// Reads the next names of the innermost directory. Returns their number.
    async fn read(&mut self) -> Result<usize> {
        go_on()?;
        let is_top = self.open.len() == 1;
        let Some(dir) = self.open.last_mut() else { return Ok(0) };
        let page = Page::default().after(dir.last.clone()).limit(self.page).with_entries();
        let listing = match self.fs.list(&At::from(&dir.path), &page).await {
            // Another client has removed the directory since its name was read. If the top is gone as well,
            // the count fails.
            Err(error) if error.is_absent() && !is_top => {
                self.fs.stat(&At::from(&self.top)).await?;
                dir.more = false;
                return Ok(0);
            }
            listing => listing?,
        };
        working(listing.items.iter().map(|item| item.name.as_str().len()).sum());
        dir.more = listing.more && !listing.items.is_empty();
        dir.ready = listing.items.into_iter().filter_map(Row::of).collect();
        Ok(dir.ready.len())
    }

    /// Returns true if a name in the innermost directory is the first name below the top that its file has.
    async fn is_first_name(&mut self, ino: Ino, name: &Name) -> Result<bool> {
        let Some(dir) = self.open.last() else { return Ok(true) };
        // Looked up once for all names in the directory: before the first name, there may be many of aliases.
        if let Some(first) = dir.first_names.get(&ino) {
            return Ok(first.as_ref() == Some(name));
        }
        // A name that was removed since it was listed counts as it was listed.
        let Some(first) = self.first_name(&dir.path.join(name)?).await? else { return Ok(true) };
        let first = first.split().filter(|(parent, _)| *parent == dir.path).map(|(_, name)| name);
        let is_first = first.as_ref() == Some(name);
        if let Some(dir) = self.open.last_mut() {
            if dir.first_names.len() >= MAX_REMEMBERED {
                dir.first_names.clear();
            }
            dir.first_names.insert(ino, first);
        }
        Ok(is_first)
    }

    /// Returns the first of the names below the top that the file at a path has. Reads no name before the
    /// top: a file may have very many outside of it.
    async fn first_name(&self, path: &TreePath) -> Result<Option<TreePath>> {
        for start in self.starts() {
            let (mut page, mut limit) = (NamesPage::default().after(start), 1);
            'pages: loop {
                go_on()?;
                page = page.limit(limit);
                let Some(names) = self.fs.names(&At::from(path), &page).await.optional()? else {
                    return Ok(None);
                };
                working(names.items.iter().map(|name| name.key().len()).sum());
                for name in &names.items {
                    if !name.is_within(&self.top) {
                        break 'pages;
                    }
                    if !self.is_repeated(name) {
                        return Ok(Some(name.clone()));
                    }
                }
                let Some(last) = names.items.last().filter(|_| names.more) else { break };
                page = page.after(last.clone());
                // The first name counts, unless it is one of an alias.
                limit = (limit * 8).min(PAGE);
            }
        }
        Ok(None)
    }

    /// Returns the positions before the names in the top, and before those in the directories below it. Names
    /// are in the order of their directories as text, so that names in `/a-b` are between those in `/a` and
    /// in `/a/b`.
    fn starts(&self) -> Vec<Option<TreePath>> {
        if self.top.is_root() {
            return vec![None];
        }
        // No name is empty, so that the empty one comes before all others.
        let top = self.top.key();
        vec![Some(TreePath::from_row(top, "")), Some(TreePath::from_row(&format!("{top}/"), ""))]
    }
}

impl OpenDirectory {
    fn new(path: TreePath, last: Option<Name>) -> Self {
        Self { path, last, more: true, ready: VecDeque::new(), first_names: HashMap::new() }
    }
}

impl Row {
    fn of(item: Item) -> Option<Self> {
        let entry = item.entry?;
        let shared = (entry.is_file() && entry.nlink > 1).then_some(entry.ino);
        Some(Self { name: item.name, is_dir: item.kind == Kind::Directory, sum: Sum::of(&entry), shared })
    }
}
