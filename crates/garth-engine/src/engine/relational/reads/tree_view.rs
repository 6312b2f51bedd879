//! Reads of the tree, now or after a past commit, inside one read transaction.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use bytes::Bytes;

use crate::engine::planner::{NameRow, NodeRow, Region};
use crate::engine::relational::confinement::Reach;
use crate::engine::relational::open_nodes::OpenNodes;
use crate::engine::relational::reads::gated_facts::{GatedFacts, Passing};
use crate::engine::relational::reads::tree_rows::{
    CommitSpan, EachRow, MAX, NameRange, PageRow, PastPage, Read, ReadError, TreeRows,
};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    At, Attributes, ByteRange, Entry, Fetched, Filling, Ino, Item, Kind, Listing, MAX_PAGE, MAX_READ,
    NamesPage, Page, Seq, Timestamp, VersionId, Walk, WalkItem, WalkPage,
};
use crate::path::{Name, TreePath};

/// A view of the tree in one state.
#[derive(Debug)]
pub struct TreeView<'a, R> {
    /// Rows of the transaction.
    pub rows: R,
    /// Nodes that this instance holds open.
    pub open: &'a OpenNodes,
    /// Part of the tree that is in reach.
    pub reach: &'a Reach,
    /// The commit whose state is read; `None` for the newest state.
    pub as_of: Option<u64>,
    /// True for a view of the past, even while its commit is the newest. Such a view has no open nodes and no
    /// keys.
    pub is_past: bool,
    /// First commit whose state is readable, once it was looked up. See [`TreeView::oldest`].
    pub oldest: OnceCell<u64>,
    /// The time by which entries have expired.
    pub time: i64,
    /// Time at which a view of the past was opened.
    pub opened: i64,
    /// Facts about gated directories.
    pub gated: GatedFacts,
}

impl<R: TreeRows> TreeView<'_, R> {
    /// Returns the sequence number of the state, [`MAX`] for the newest.
    pub fn seq(&self) -> u64 {
        self.as_of.unwrap_or(MAX)
    }

    pub(crate) fn name(&self, dir: &str, name: &str) -> Read<R, Option<NameRow>> {
        self.rows.name(dir, name, self.seq())
    }

    /// Returns the row of a node, with or without a name.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn row(&self, ino: u64) -> Read<R, Option<NodeRow>> {
        self.rows.version(ino.min(MAX), self.seq())
    }

    /// Returns the node at a path, if any. The reason for a missing one takes more reads.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn lookup(&self, path: &TreePath) -> Read<R, Option<NodeRow>> {
        let node = match (path.key().rsplit_once('/'), self.as_of) {
            (None, _) => self.row(Ino::ROOT.0)?,
            (Some((dir, name)), None) => self.rows.node_by_name(dir, name)?,
            (Some((dir, name)), Some(seq)) => match self.rows.name(dir, name, seq)? {
                Some(name) => self.row(name.ino)?,
                None => None,
            },
        };
        Ok(node.filter(|node| !node.expired(self.time)))
    }

    /// Returns the node at a path; fails with `NotDirectory` instead of `NotFound` if a file is in the way.
    pub(crate) fn find(&self, path: &TreePath) -> Read<R, NodeRow> {
        let misses = self.rows.misses();
        if let Some(node) = self.lookup(path)? {
            return Ok(node);
        }
        if self.rows.misses() > misses {
            // Nothing is known of the path yet. It mostly exists, and then the entries above are not needed.
            return Err(Error::not_found(path).into());
        }
        // An entry above the subtree in reach must not be reported as the reason.
        let top = self.reach.within.top_of(path).map_or(path.key(), TreePath::key).len();
        let above: Vec<_> = path.ancestors().skip(1).filter(|above| above.key().len() >= top).collect();
        if let Some((dir, name)) = above.last().and_then(|parent| parent.key().rsplit_once('/'))
            && self.name(dir, name)?.is_some_and(|row| row.kind == Kind::Directory)
        {
            // The common case: the parent exists, so nothing can be in the way.
            return Err(Error::not_found(path).into());
        }
        for above in above {
            let Some((dir, name)) = above.key().rsplit_once('/') else { continue };
            match self.name(dir, name)? {
                // All entries above are fetched at once.
                None if !self.rows.is_complete() => {}
                None => break,
                Some(row) if row.kind == Kind::Directory => {}
                Some(_) if self.lookup(&above)?.is_some() => {
                    return Err(Error::not_a_directory(&above).into());
                }
                // An expired entry is missing, so it is not in the way.
                Some(_) => break,
            }
        }
        Err(Error::not_found(path).into())
    }

    /// Returns the path that an address names, if it is in reach; `None` for an inode.
    pub(crate) fn path_at(&self, at: &At) -> Read<R, Option<TreePath>> {
        match at {
            At::Path(path) if self.reaches(path)? => Ok(Some(path.clone())),
            At::Path(path) => Err(Error::not_found(path).into()),
            At::Node(_) => Ok(None),
            At::Child(dir, name) => {
                // A removed directory has no children, even while it is held open.
                let node = self.row(dir.0)?.filter(|node| node.nlink > 0).ok_or_else(Error::no_node)?;
                let path = self.first_name(&node)?.ok_or_else(Error::no_node)?;
                if node.kind != Kind::Directory {
                    return Err(Error::not_a_directory(&path).into());
                }
                let path = path.join(name)?;
                if !self.reaches(&path)? {
                    return Err(Error::not_found(&path).into());
                }
                Ok(Some(path))
            }
        }
    }

    /// Returns the node at an address. An inode may be of a node without a name that this instance holds
    /// open.
    ///
    /// # Errors
    /// Errors of a lookup; errors of the database.
    pub fn at(&self, at: &At) -> Read<R, NodeRow> {
        match (at, self.path_at(at)?) {
            (At::Node(ino), _) => {
                let node = self.row(ino.0)?.ok_or_else(Error::no_node)?;
                // An inode alone gives no access: the node must have a name in reach, or be held open.
                let named = !node.expired(self.time) && self.is_named(&node)?;
                let held = !self.is_past && self.reach.holds(ino.0, self.open);
                if named || held { Ok(self.as_held(node)) } else { Err(Error::no_node().into()) }
            }
            (_, Some(path)) => self.find(&path),
            (_, None) => Err(Error::no_node().into()),
        }
    }

    /// Returns a node as an open handle sees it: an expired one has no name, whether its removal is recorded
    /// or not.
    pub fn as_held(&self, node: NodeRow) -> NodeRow {
        if node.expired(self.time) { NodeRow { nlink: 0, ..node } } else { node }
    }

    /// Returns the span of names that exist in this view.
    fn span(&self) -> CommitSpan {
        self.as_of.map_or(CommitSpan::NOW, CommitSpan::at)
    }

    /// Returns true if a node has a name in reach, expired or not.
    fn is_named(&self, node: &NodeRow) -> Read<R, bool> {
        let within = &self.reach.within;
        if node.nlink == 0 || self.sees_everything() {
            return Ok(node.nlink > 0);
        }
        if node.ino == Ino::ROOT.0 {
            // The root has no name, but a path.
            return Ok(within.contains(&TreePath::root()));
        }
        self.has_open_name(node.ino, self.span())
    }

    /// Returns the first path of a node that is in reach, in the order of a walk.
    pub(crate) fn first_name(&self, node: &NodeRow) -> Read<R, Option<TreePath>> {
        Ok(self.names_behind(node, None, 1)?.pop())
    }

    /// Returns at most `limit` paths of a node in reach after one, in that order.
    fn names_behind(&self, node: &NodeRow, after: Option<&TreePath>, limit: usize) -> Read<R, Vec<TreePath>> {
        let within = &self.reach.within;
        if node.ino == Ino::ROOT.0 {
            let first = after.is_none() && within.contains(&TreePath::root());
            return Ok(Vec::from_iter(first.then(TreePath::root)));
        }
        if node.expired(self.time) {
            return Ok(Vec::new());
        }
        let after = after.and_then(|after| after.key().rsplit_once('/')).unwrap_or_default();
        let keys = match self.as_of {
            None => self.names_now(node.ino, within, after, limit)?,
            Some(_) => {
                // No index has past names in this order: all of them are read.
                let mut keys = self.rows.names_in_span(node.ino, self.span(), within, usize::MAX)?;
                keys.retain(|(dir, name)| (dir.as_str(), name.as_str()) > after);
                keys.sort_unstable();
                self.open_names(keys, limit)?
            }
        };
        Ok(keys.into_iter().map(|(dir, name)| TreePath::from_row(&dir, &name)).collect())
    }

    /// Returns a page of the paths of a node.
    ///
    /// # Errors
    /// As `FileSystem::names`.
    pub fn names_page(&self, at: &At, page: &NamesPage) -> Read<R, Listing<TreePath>> {
        check_limit(page.limit)?;
        let node = self.at(at)?;
        let (mut filling, mut after) = (Filling::new(page.limit), page.after.clone());
        loop {
            // Few at a time: a page may be full by its bytes long before it is by its number of items.
            let step = NAMES_STEP.min(filling.room() + 1);
            let names = self.names_behind(&node, after.as_ref(), step)?;
            let last = names.len() < step;
            after = names.last().cloned();
            if !names.into_iter().all(|name| filling.push(name)) || last {
                return Ok(filling.done());
            }
        }
    }

    /// Returns the attributes of a node.
    pub(crate) fn attributes(&self, node: &NodeRow) -> Read<R, Attributes> {
        match node.attrs_seq {
            0 => Ok(Attributes::default()),
            seq => self.rows.attributes(node.ino, seq),
        }
    }

    /// Returns a node as `stat` shows it.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn entry(&self, node: NodeRow) -> Read<R, Entry> {
        let mut node = self.masked(node)?;
        let attributes = self.attributes(&node)?;
        if node.nlink == 0
            && let Some(before) = self.rows.version(node.ino, node.seq.saturating_sub(1))?
        {
            // Its version is that of the last change, not of the removal of its name.
            node.seq = node.last_change(&before);
        }
        Ok(entry_of(node, attributes))
    }

    /// Returns the entry at the first of two addresses that exists, and its index.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn first(&self, one: &At, other: &At) -> Read<R, (usize, Result<Entry>)> {
        match own(self.entry_at(one))? {
            Err(error) if error.is(ErrorKind::NotFound) => Ok((1, own(self.entry_at(other))?)),
            found => Ok((0, found)),
        }
    }

    /// Returns the entry at an address.
    ///
    /// # Errors
    /// As `FileSystem::stat`.
    pub fn entry_at(&self, at: &At) -> Read<R, Entry> {
        self.entry(self.at(at)?)
    }

    /// Returns the entry at a path in the newest state, in one statement: the fast path of `stat`. Also
    /// returns `None` for the paths that [`Self::key_now`] leaves out, which the caller looks up in the usual
    /// way.
    pub(crate) fn entry_now(&self, path: &TreePath) -> Read<R, Option<Entry>> {
        let Some((dir, name)) = self.key_now(path) else { return Ok(None) };
        // The caller finds out why an entry is missing.
        let found = self.rows.entry_by_name(dir, name)?.filter(|(node, _)| !node.expired(self.time));
        Ok(found.map(|(node, attributes)| entry_of(node, attributes)))
    }

    /// Returns directory and name of a path. Returns `None` for the root, for paths out of reach and for
    /// those that have a gate.
    pub(crate) fn key_now<'p>(&self, path: &'p TreePath) -> Option<(&'p str, &'p str)> {
        // A gate takes more statements, and so a transaction.
        let reached = self.reach.within.contains(path) && !self.reach.gates.cover(path);
        path.key().rsplit_once('/').filter(|_| reached)
    }

    /// Returns the path of the directory at an address; `None` for one that was removed while it is held
    /// open.
    fn directory(&self, at: &At) -> Read<R, Option<TreePath>> {
        let node = self.at(at)?;
        let path = match self.path_at(at)? {
            Some(path) => Some(path),
            None => self.first_name(&node)?,
        };
        match (node.kind, path) {
            (Kind::Directory, path) => Ok(path),
            (_, Some(path)) => Err(Error::not_a_directory(&path).into()),
            (_, None) => Err(Error::new(ErrorKind::NotADirectory, "not a directory").into()),
        }
    }

    /// Returns the path of a directory as [`Self::directory`] does. If that is not known yet, returns the
    /// path of the address, so that the names there are fetched together with it.
    fn directory_to_read(&self, at: &At) -> Read<R, Option<TreePath>> {
        match (self.directory(at), at) {
            (Err(_), At::Path(path)) if !self.rows.is_complete() => Ok(Some(path.clone())),
            (found, _) => found,
        }
    }

    /// Returns a page of a directory.
    ///
    /// # Errors
    /// As `FileSystem::list`.
    pub fn list(&self, dir: &At, page: &Page) -> Read<R, Listing> {
        check_limit(page.limit)?;
        let Some(dir) = self.directory_to_read(dir)? else {
            return Ok(Listing { items: Vec::new(), more: false });
        };
        let mut filling = Filling::new(page.limit);
        let after = page.after.as_ref().map_or("", Name::as_str);
        let left_out = self.left_out(&dir);
        let span = NameRange { from: dir.key(), after, to: None, left_out: &left_out };
        if self.as_of.is_none() {
            self.rows.check_length(&span, page.limit, page.entries)?;
        }
        // One more than the page holds shows whether there are more.
        self.each_row(&span, page.entries, page.limit + 1, &mut |row| {
            let entry = row.node.map(|node| self.entry(node).map(Box::new)).transpose()?;
            let (name, ino) = (Name::from_row(row.name)?, Ino(row.ino));
            Ok(filling.push(Item { name, ino, kind: row.kind, entry }))
        })?;
        Ok(filling.done())
    }

    /// Returns a page of a subtree.
    ///
    /// # Errors
    /// As `FileSystem::walk`.
    pub fn walk(&self, dir: &At, page: &WalkPage) -> Read<R, Walk> {
        check_limit(page.limit)?;
        let Some(dir) = self.directory_to_read(dir)? else {
            return Ok(Walk { items: Vec::new(), more: false });
        };
        let key = dir.key();
        let (mut at, mut after) = (key, "");
        if let Some(path) = &page.after {
            if *path == dir || !path.is_within(&dir) {
                return Err(Error::invalid("a walk continues after a path below its directory").into());
            }
            (at, after) = path.key().rsplit_once('/').unwrap_or_default();
        }
        let mut filling = Filling::new(page.limit);
        let mut add = |row: PageRow| {
            let entry = row.node.map(|node| self.entry(node).map(Box::new)).transpose()?;
            let path = TreePath::from_row(&row.dir, &row.name);
            Ok(filling.push(WalkItem { path, ino: Ino(row.ino), kind: row.kind, entry }))
        };
        let mut left = page.limit + 1;
        let left_out = self.left_out(&dir);
        // One range for the directory and one or more for the entries below it, without what is excluded.
        let region = Region { dir: key.to_owned(), without: left_out.clone(), ..Region::default() };
        for (from, to) in region.ranges() {
            // The range was finished by an earlier page.
            if to.as_str() <= at {
                continue;
            }
            let (from, after) = if from.as_str() <= at { (at, after) } else { (from.as_str(), "") };
            let to = if from == key { None } else { Some(to.as_str()) };
            left = self.each_row(
                &NameRange { from, after, to, left_out: &left_out },
                page.entries,
                left,
                &mut add,
            )?;
        }
        Ok(filling.done())
    }

    /// Returns the keys of the paths that are excluded below a directory.
    fn left_out(&self, dir: &TreePath) -> BTreeSet<String> {
        self.reach.within.exclusions_below(dir).map(|path| path.key().to_owned()).collect()
    }

    /// Passes at most `limit` names of a range to `each` until it returns false. Returns how many it would
    /// still take.
    fn each_row(
        &self,
        span: &NameRange<'_>,
        nodes: bool,
        limit: usize,
        each: &mut EachRow<'_, R::Error>,
    ) -> Read<R, usize> {
        if limit == 0 {
            return Ok(0);
        }
        if let Some(seq) = self.as_of {
            return self.each_row_at(span, seq, limit, &mut |row| {
                let node = row.node.filter(|_| nodes);
                each(PageRow { node, ..row })
            });
        }
        let (mut left, mut wants) = (limit, true);
        // Excluded names are read and dropped, and must not use up the limit.
        let most = limit + span.left_out.len();
        let (mut from, mut after) = (span.from.to_owned(), span.after.to_owned());
        loop {
            let range = NameRange { from: &from, after: &after, to: span.to, left_out: span.left_out };
            // Where the next statement begins, if gates hide so much that one does not fill the page.
            let (mut next, mut read) = (None, 0);
            self.rows.page_now(&range, nodes, (self.time, most), &mut |row| {
                read += 1;
                match self.passing(&row)? {
                    // Past everything that is hidden, without reading it. A list ends with its directory.
                    Passing::HiddenTo(place) => {
                        next = Some(place).filter(|(dir, _)| span.to.is_some() || dir == span.from);
                        read = most;
                        return Ok(false);
                    }
                    Passing::Hidden => {
                        next = Some((row.dir.to_string(), row.name));
                        return Ok(true);
                    }
                    Passing::Shown if self.is_ungated() => {}
                    Passing::Shown => next = Some((row.dir.to_string(), row.name.clone())),
                }
                if span.has(&row) {
                    left -= 1;
                    wants = each(row)?;
                }
                Ok(wants && left > 0)
            })?;
            match next.filter(|_| wants && left > 0 && read >= most) {
                Some(last) => (from, after) = last,
                None => break,
            }
        }
        Ok(if wants { left } else { 0 })
    }

    /// Reads a range of the past: live names that are old enough, and the names at each fork, merged in
    /// order. Expiry as of then is known only from the node, so names are examined one by one.
    fn each_row_at(
        &self,
        span: &NameRange<'_>,
        seq: u64,
        limit: usize,
        each: &mut EachRow<'_, R::Error>,
    ) -> Read<R, usize> {
        let (mut from, mut after) = (span.from.to_owned(), span.after.to_owned());
        let mut left = limit;
        while left > 0 {
            // Gates may hide most names.
            let step = if self.is_ungated() { left.min(PAST_STEP) } else { PAST_STEP };
            let range = NameRange { from: &from, after: &after, ..*span };
            let PastPage { rows: found, complete } = self.rows.page_at(&range, seq, step)?;
            let mut skipped = None;
            for row in found {
                let behind = |(dir, name): &(String, String)| (&*row.dir, &row.name) > (dir.as_str(), name);
                if left == 0 || complete.as_ref().is_some_and(behind) {
                    break;
                }
                if let Some(hidden) = self.hidden_entry(&row)? {
                    // Past everything in the hidden entry, without reading it.
                    skipped = span.to.and_then(|_| hidden.end_in(&row.dir));
                    if skipped.is_some() {
                        break;
                    }
                    continue;
                }
                if !span.has(&row) {
                    continue;
                }
                let node = self.rows.version(row.ino, seq)?.filter(|node| !node.expired(self.time));
                if node.is_some() {
                    left -= 1;
                    if !each(PageRow { node, ..row })? {
                        return Ok(0);
                    }
                }
            }
            match skipped.map(|end| (end, String::new())).or(complete) {
                Some(last) => (from, after) = last,
                None => break,
            }
        }
        Ok(left)
    }

    /// Fails for nodes without content, with their path.
    ///
    /// # Errors
    /// `IsADirectory`; `NotPermitted` for other kinds; `Gone` for a file without a name whose content was
    /// removed.
    pub fn check_file(&self, node: &NodeRow, at: &At) -> Read<R, ()> {
        let has_content =
            check_kind(node.kind).map_err(R::Error::from).and_then(|()| self.check_unnamed(node));
        has_content.map_err(|error| self.about(error, node, at))
    }

    /// Adds the path of `at` to an error; for an inode, the first name of the node. If none is found the
    /// error stays without a path: it matters more than a failure to look the path up.
    pub fn about(&self, error: R::Error, node: &NodeRow, at: &At) -> R::Error {
        let error = error.into_error();
        let path = match self.path_at(at) {
            Ok(Some(path)) => Some(path),
            _ => self.first_name(node).unwrap_or_default(),
        };
        match path {
            Some(path) => error.about(&path).into(),
            None => error.into(),
        }
    }

    /// Returns the entry of the file at an address.
    pub(crate) fn file(&self, at: &At) -> Read<R, Entry> {
        if let (At::Path(path), None) = (at, self.as_of)
            && let Some(entry) = self.entry_now(path)?
            && entry.kind == Kind::File
        {
            return Ok(entry);
        }
        let node = self.at(at)?;
        self.check_file(&node, at)?;
        self.entry(node)
    }

    /// Reads bytes of a file that was found at an address.
    pub(crate) fn content(&self, file: &Entry, at: &At, range: ByteRange) -> Read<R, Bytes> {
        self.read(file.ino.0, file.size, range).map_err(|error| match self.row(file.ino.0) {
            Ok(Some(node)) => self.about(error, &node, at),
            _ => error,
        })
    }

    /// Reads files and bytes of them, as many as one answer has room for. An item that fails has its error in
    /// the answer; a failure of the database fails the call.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn fetch_many(&self, items: &[(At, ByteRange)]) -> Read<R, Fetched> {
        let (mut answers, mut room) = (Vec::new(), MAX_READ as u64);
        for (at, range) in items {
            let file = match own(self.file(at))? {
                Ok(file) => file,
                Err(error) => {
                    answers.push(Err(error));
                    continue;
                }
            };
            let length = range.length.min(file.size.saturating_sub(range.offset));
            // `content` fails for a range that no answer has room for.
            let size = if length > MAX_READ as u64 { 0 } else { length + file.attributes.bytes() as u64 };
            // The first item is returned whatever its size, so that the caller makes progress.
            if size > room && !answers.is_empty() {
                break;
            }
            room = room.saturating_sub(size);
            answers.push(own(self.content(&file, at, *range))?.map(|bytes| (file, bytes)));
        }
        Ok(Fetched::new(Seq(self.head()?), answers))
    }

    /// Reads bytes of a file of this size.
    ///
    /// # Errors
    /// `TooLarge` for more than `MAX_READ` bytes; `Gone` for content that is no longer stored; `Corrupt` for
    /// damaged content; errors of the database.
    pub fn read(&self, ino: u64, size: u64, range: ByteRange) -> Read<R, Bytes> {
        self.check_content(ino)?;
        match self.bytes_to_read(size, range)? {
            Some((from, to)) => self.rows.content(ino, self.as_of, from, to),
            None => Ok(Bytes::new()),
        }
    }

    /// Returns the bytes of a range that a file of this size has, and charges the budget for them; `None` if
    /// it has none.
    pub(crate) fn bytes_to_read(&self, size: u64, range: ByteRange) -> Read<R, Option<(u64, u64)>> {
        let end = range.offset.saturating_add(range.length).min(size);
        if range.offset >= end {
            return Ok(None);
        }
        if end - range.offset > MAX_READ as u64 {
            let message =
                format!("more than {MAX_READ} bytes at once; read a range, or open the file and stream it");
            return Err(Error::new(ErrorKind::TooLarge, message).into());
        }
        // Charged before the read: copying content takes time without steps of SQLite.
        self.rows.spend(end - range.offset)?;
        Ok(Some((range.offset, end)))
    }

    /// Reads a file and bytes of it at any address, in any state.
    ///
    /// # Errors
    /// As `FileSystem::fetch`.
    pub fn fetch_at(&self, at: &At, range: ByteRange) -> Read<R, (Entry, Bytes)> {
        let node = self.at(at)?;
        self.check_file(&node, at)?;
        let bytes = self.read(node.ino, node.size, range).map_err(|error| self.about(error, &node, at))?;
        Ok((self.entry(node)?, bytes))
    }
}

/// Separates the error of one item from a failure of the database and from a budget that is used up.
pub(crate) fn own<T, E: ReadError>(answer: Result<T, E>) -> Result<Result<T>, E> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(error) => error.of_item().map(Err),
    }
}

pub(crate) fn entry_of(node: NodeRow, attributes: Attributes) -> Entry {
    let version = |seq| VersionId { seq: Seq(seq), ino: Ino(node.ino) };
    Entry {
        ino: Ino(node.ino),
        kind: node.kind,
        mode: node.mode,
        uid: node.uid,
        gid: node.gid,
        rdev: node.rdev,
        nlink: node.nlink,
        size: node.size,
        atime: Timestamp(node.atime),
        mtime: Timestamp(node.mtime),
        ctime: Timestamp(node.ctime),
        birthtime: Timestamp(node.birthtime),
        target: node.target,
        attributes,
        expires_at: node.expires_at.map(Timestamp),
        version: version(node.seq),
        etag: version(node.content_seq),
    }
}

/// Fails for kinds without content.
///
/// # Errors
/// `IsADirectory`; `NotPermitted` for other kinds.
pub fn check_kind(kind: Kind) -> Result<()> {
    match kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(Error::new(ErrorKind::IsADirectory, "is a directory")),
        _ => Err(Error::new(ErrorKind::NotPermitted, "has no content: not a regular file")),
    }
}

/// Checks the limit of a page.
///
/// # Errors
/// `InvalidArgument` for a limit outside 1 to `MAX_PAGE`.
pub fn check_limit(limit: usize) -> Result<()> {
    if (1..=MAX_PAGE).contains(&limit) {
        return Ok(());
    }
    Err(Error::invalid(format!("the limit of a page is 1 to {MAX_PAGE}")))
}

/// Names read at a time from each fork of a listing of the past.
const PAST_STEP: usize = 128;
/// Names of a node read at a time.
const NAMES_STEP: usize = 1024;
