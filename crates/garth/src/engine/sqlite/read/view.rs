//! Reads of the tree, now or after a past commit, inside one read transaction.

use bytes::Bytes;
use rusqlite::{Connection, Row, params};

use crate::engine::planner::{NameRow, NodeRow};
use crate::engine::sqlite::reach::Reach;
use crate::engine::sqlite::read::content::Packs;
use crate::engine::sqlite::read::rows::{self, MAX, Span};
use crate::engine::sqlite::schema::SUBJECT;
use crate::engine::sqlite::schema::columns::{KindColumn, node_columns, node_row};
use crate::engine::sqlite::write::open_nodes::OpenNodes;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{
    At, Attributes, ByteRange, Entry, Fetched, Ino, Item, Kind, Listing, MAX_PAGE, MAX_READ, Page, Seq,
    Timestamp, VersionId, Walk, WalkItem, WalkPage,
};
use crate::path::{Name, TreePath};
use crate::sqlite::{DbError, DbResult, all, one};

/// A view of the tree at one moment.
pub(crate) struct ReadView<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) packs: &'a Packs,
    pub(crate) open: &'a OpenNodes,
    /// What of the tree it reaches.
    pub(crate) reach: &'a Reach,
    /// The commit after which to look; `None` for now.
    pub(crate) as_of: Option<u64>,
    /// The time by which entries expire.
    pub(crate) time: i64,
}

impl ReadView<'_> {
    pub(crate) fn seq(&self) -> u64 {
        self.as_of.unwrap_or(MAX)
    }

    fn name(&self, dir: &str, name: &str) -> DbResult<Option<NameRow>> {
        match self.as_of {
            None => rows::name(self.conn, dir, name),
            Some(seq) => rows::name_at(self.conn, dir, name, seq),
        }
    }

    /// A node's row, whether it has a name or not.
    pub(crate) fn row(&self, ino: u64) -> DbResult<Option<NodeRow>> {
        rows::node(self.conn, ino.min(MAX), self.seq())
    }

    /// The node at a path, if any. Not told why there is none: that takes more reads (see [`Self::find`]).
    fn lookup(&self, path: &TreePath) -> DbResult<Option<NodeRow>> {
        let node = match (path.key().rsplit_once('/'), self.as_of) {
            (None, _) => self.row(Ino::ROOT.0)?,
            (Some((dir, name)), None) => rows::node_by_name(self.conn, dir, name)?,
            (Some((dir, name)), Some(seq)) => match rows::name_at(self.conn, dir, name, seq)? {
                Some(name) => self.row(name.ino)?,
                None => None,
            },
        };
        Ok(node.filter(|node| !node.expired(self.time)))
    }

    /// The node at a path; `NotDirectory` instead of `NotFound` if a file is in the way.
    pub(crate) fn find(&self, path: &TreePath) -> DbResult<NodeRow> {
        if let Some(node) = self.lookup(path)? {
            return Ok(node);
        }
        // what lies above the subtree that is in reach is no reason
        let reached = |above: &TreePath| self.reach.within.contains(above);
        for above in path.ancestors().skip(1).filter(reached) {
            let Some((dir, name)) = above.key().rsplit_once('/') else { continue };
            match self.name(dir, name)? {
                None => break,
                Some(row) if row.kind == Kind::Directory => {}
                Some(_) if self.lookup(&above)?.is_some() => {
                    return Err(Error::not_a_directory(&above).into());
                }
                Some(_) => break,
            }
        }
        Err(Error::not_found(path).into())
    }

    /// The path that an address names, which is in reach; `None` for a node.
    pub(crate) fn path_at(&self, at: &At) -> DbResult<Option<TreePath>> {
        match at {
            At::Path(path) if self.reach.within.contains(path) => Ok(Some(path.clone())),
            At::Path(path) => Err(Error::not_found(path).into()),
            At::Node(_) => Ok(None),
            At::Child(dir, name) => {
                let node = self.row(dir.0)?.filter(|node| node.nlink > 0).ok_or_else(Error::no_node)?;
                let path = self.names(&node)?.into_iter().next().ok_or_else(Error::no_node)?;
                if node.kind != Kind::Directory {
                    return Err(Error::not_a_directory(&path).into());
                }
                Ok(Some(path.join(name)?))
            }
        }
    }

    /// The node at an address. By number, also one without a name that this instance holds open.
    pub(crate) fn at(&self, at: &At) -> DbResult<NodeRow> {
        match (at, self.path_at(at)?) {
            (At::Node(ino), _) => {
                let node = self.row(ino.0)?.ok_or_else(Error::no_node)?;
                let named = !node.expired(self.time) && self.is_named(&node)?;
                let held = self.as_of.is_none() && self.reach.holds(ino.0, self.open);
                if named || held { Ok(self.as_held(node)) } else { Err(Error::no_node().into()) }
            }
            (_, Some(path)) => self.find(&path),
            (_, None) => Err(Error::no_node().into()),
        }
    }

    /// A node as an open handle sees it: an expired one has no name, whether its removal is recorded or not.
    pub(crate) fn as_held(&self, node: NodeRow) -> NodeRow {
        if node.expired(self.time) { NodeRow { nlink: 0, ..node } } else { node }
    }

    /// When this view is: the span of a name that is there.
    fn span(&self) -> Span {
        self.as_of.map_or(Span::NOW, Span::at)
    }

    /// Whether a node has a name in reach, expired or not.
    fn is_named(&self, node: &NodeRow) -> DbResult<bool> {
        let within = &self.reach.within;
        if node.nlink == 0 || within.is_everything() {
            return Ok(node.nlink > 0);
        }
        Ok(!rows::names_of(self.conn, node.ino, self.span(), within, 1)?.is_empty())
    }

    /// Paths of a node that are in reach, in byte order.
    pub(crate) fn names(&self, node: &NodeRow) -> DbResult<Vec<TreePath>> {
        let within = &self.reach.within;
        if node.ino == Ino::ROOT.0 {
            return Ok(Vec::from_iter(within.is_everything().then(TreePath::root)));
        }
        if node.expired(self.time) {
            return Ok(Vec::new());
        }
        let keys = rows::names_of(self.conn, node.ino, self.span(), within, usize::MAX)?;
        let mut paths: Vec<TreePath> =
            keys.into_iter().map(|(dir, name)| TreePath::from_row(&dir, &name)).collect();
        paths.sort_unstable();
        Ok(paths)
    }

    /// A node's attributes.
    pub(crate) fn attributes(&self, node: &NodeRow) -> DbResult<Attributes> {
        match node.attrs_seq {
            0 => Ok(Attributes::default()),
            seq => rows::attributes(self.conn, node.ino, seq),
        }
    }

    /// A node as `stat` shows it.
    pub(crate) fn entry(&self, mut node: NodeRow) -> DbResult<Entry> {
        let attributes = self.attributes(&node)?;
        if node.nlink == 0
            && let Some(before) = rows::node(self.conn, node.ino, node.seq.saturating_sub(1))?
        {
            // written without a name: its version is that of the last change, not of the removal
            node.seq = node.last_change(&before);
        }
        Ok(entry_of(node, attributes))
    }

    /// The entry at a path now, in one statement: the fast path of `stat`. `None` also for the root and for
    /// what is out of reach, which the caller looks up in the usual way.
    pub(crate) fn entry_now(&self, path: &TreePath) -> DbResult<Option<Entry>> {
        let reached = self.reach.within.contains(path);
        let Some((dir, name)) = path.key().rsplit_once('/').filter(|_| reached) else { return Ok(None) };
        let found = rows::entry_by_name(self.conn, dir, name)?;
        let found = found.filter(|(node, _)| !node.expired(self.time));
        Ok(found.map(|(node, attributes)| entry_of(node, attributes)))
    }

    /// The path of the directory at an address; `None` for one that was removed while it is held open.
    fn directory(&self, at: &At) -> DbResult<Option<TreePath>> {
        let node = self.at(at)?;
        let path = match self.path_at(at)? {
            Some(path) => Some(path),
            None => self.names(&node)?.into_iter().next(),
        };
        match (node.kind, path) {
            (Kind::Directory, path) => Ok(path),
            (_, Some(path)) => Err(Error::not_a_directory(&path).into()),
            (_, None) => Err(Error::new(ErrorKind::NotADirectory, "not a directory").into()),
        }
    }

    pub(crate) fn list(&self, dir: &At, page: &Page) -> DbResult<Listing> {
        let limit = check_limit(page.limit)?;
        let Some(dir) = self.directory(dir)? else { return Ok(Listing { items: Vec::new(), more: false }) };
        let after = page.after.as_ref().map_or("", Name::as_str);
        let rows = self.rows(dir.key(), dir.key(), after, page.entries, limit)?;
        let items = rows.into_iter().map(|row| {
            let entry = row.node.map(|node| self.entry(node).map(Box::new)).transpose()?;
            Ok(Item { name: Name::parse(&row.name)?, ino: Ino(row.ino), kind: row.kind, entry })
        });
        let mut items = items.collect::<DbResult<Vec<_>>>()?;
        let more = items.len() > page.limit;
        items.truncate(page.limit);
        Ok(Listing { items, more })
    }

    pub(crate) fn walk(&self, dir: &At, page: &WalkPage) -> DbResult<Walk> {
        let limit = check_limit(page.limit)?;
        let Some(dir) = self.directory(dir)? else { return Ok(Walk { items: Vec::new(), more: false }) };
        let key = dir.key();
        let (from, to) = rows::below(key);
        let (mut at, mut after) = (key.to_owned(), String::new());
        if let Some(path) = &page.after {
            if *path == dir || !path.is_within(&dir) {
                return Err(Error::invalid("a walk goes on behind a path below its directory").into());
            }
            if let Some((above, name)) = path.key().rsplit_once('/') {
                (at, after) = (above.to_owned(), name.to_owned());
            }
        }
        let mut rows = Vec::new();
        if at == key {
            rows = self.rows(key, key, &after, page.entries, limit)?;
            (at, after) = (from, String::new());
        }
        if rows.len() < limit {
            rows.extend(self.rows(&at, &to, &after, page.entries, limit - rows.len())?);
        }
        let items = rows.into_iter().map(|row| {
            let entry = row.node.map(|node| self.entry(node).map(Box::new)).transpose()?;
            let path = TreePath::from_row(&row.dir, &row.name);
            Ok(WalkItem { path, ino: Ino(row.ino), kind: row.kind, entry })
        });
        let mut items = items.collect::<DbResult<Vec<_>>>()?;
        let more = items.len() > page.limit;
        items.truncate(page.limit);
        Ok(Walk { items, more })
    }

    /// Names after `(from, after)` in the directories from `from` up to `to`; in `from` alone if both are
    /// equal.
    fn rows(&self, from: &str, to: &str, after: &str, nodes: bool, limit: usize) -> DbResult<Vec<ListRow>> {
        let one_dir = from == to;
        if let Some(seq) = self.as_of {
            return self.rows_at((from, to, after), seq, limit);
        }
        let read = |row: &Row<'_>| list_row(row, nodes);
        let sql = match (one_dir, nodes) {
            (true, false) => LIST_NAMES,
            (true, true) => LIST_NODES,
            (false, false) => WALK_NAMES,
            (false, true) => WALK_NODES,
        };
        if one_dir {
            all(self.conn, sql, params![from, after, self.time, limit], read)
        } else {
            all(self.conn, sql, params![from, after, self.time, limit, to], read)
        }
    }

    /// The same in the past. Expiry of that time is known only from the node, so names are filtered one by
    /// one.
    fn rows_at(
        &self,
        (from, to, after): (&str, &str, &str),
        seq: u64,
        limit: usize,
    ) -> DbResult<Vec<ListRow>> {
        let one_dir = from == to;
        let mut statement = self.conn.prepare_cached(if one_dir { LIST_AS_OF } else { WALK_AS_OF })?;
        let mut rows = match one_dir {
            true => statement.query(params![from, after, seq])?,
            false => statement.query(params![from, after, seq, to])?,
        };
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            let row = list_row(row, false)?;
            let node = rows::node(self.conn, row.ino, seq)?;
            if node.as_ref().is_some_and(|node| !node.expired(self.time)) {
                found.push(ListRow { node, ..row });
            }
        }
        Ok(found)
    }

    /// Refuses nodes without content, naming their path.
    pub(crate) fn check_file(&self, node: &NodeRow, at: &At) -> DbResult<()> {
        check_kind(node.kind).map_err(|error| self.about(error.into(), node, at))
    }

    /// The same error with the path of `at`; for a node, the first of its names. If none can be found the
    /// error stays without: it matters more than a failure to name the path.
    pub(crate) fn about(&self, error: DbError, node: &NodeRow, at: &At) -> DbError {
        let error = error.describe(&SUBJECT);
        let path = match self.path_at(at) {
            Ok(Some(path)) => Some(path),
            _ => self.names(node).unwrap_or_default().into_iter().next(),
        };
        match path {
            Some(path) => error.about(&path).into(),
            None => error.into(),
        }
    }

    /// The entry of the file at an address.
    pub(crate) fn file(&self, at: &At) -> DbResult<Entry> {
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

    /// Bytes of a file that was found at an address.
    pub(crate) fn content(&self, file: &Entry, at: &At, range: ByteRange) -> DbResult<Bytes> {
        self.read(file.ino.0, file.size, range).map_err(|error| match self.row(file.ino.0) {
            Ok(Some(node)) => self.about(error, &node, at),
            _ => error,
        })
    }

    /// Files and bytes of them, as many as one answer has room for. What is wrong with an item is its answer;
    /// a failure of the database is that of all.
    pub(crate) fn fetch_many(&self, items: &[(At, ByteRange)]) -> DbResult<Fetched> {
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
            // what no answer has room for is told so by `content`
            let size = if length > MAX_READ as u64 { 0 } else { length + file.attributes.bytes() as u64 };
            if size > room && !answers.is_empty() {
                break;
            }
            room = room.saturating_sub(size);
            answers.push(own(self.content(&file, at, *range))?.map(|bytes| (file, bytes)));
        }
        Ok(Fetched::new(Seq(self.head()?), answers))
    }

    /// Bytes of a file of this size.
    pub(crate) fn read(&self, ino: u64, size: u64, range: ByteRange) -> DbResult<Bytes> {
        let end = range.offset.saturating_add(range.length).min(size);
        if range.offset >= end {
            return Ok(Bytes::new());
        }
        if end - range.offset > MAX_READ as u64 {
            let message =
                format!("more than {MAX_READ} bytes at once; read a range, or open the file and stream it");
            return Err(Error::new(ErrorKind::TooLarge, message).into());
        }
        self.packs.content(self.conn, ino, self.as_of, range.offset, end)
    }
}

/// Sets an item's own error apart from a failure of the database.
fn own<T>(answer: DbResult<T>) -> DbResult<Result<T>> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(DbError::Other(error)) => Ok(Err(error)),
        Err(error) => Err(error),
    }
}

fn entry_of(node: NodeRow, attributes: Attributes) -> Entry {
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

/// Refuses kinds that have no content.
pub(crate) fn check_kind(kind: Kind) -> Result<()> {
    match kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(Error::new(ErrorKind::IsADirectory, "is a directory")),
        _ => Err(Error::new(ErrorKind::NotPermitted, "has no content: it is no regular file")),
    }
}

/// Checks the limit of a page; returns one more, to learn whether there is a next page.
pub(crate) fn check_limit(limit: usize) -> DbResult<usize> {
    if (1..=MAX_PAGE).contains(&limit) {
        return Ok(limit + 1);
    }
    Err(Error::invalid(format!("the limit of a page is 1 to {MAX_PAGE}")).into())
}

struct ListRow {
    dir: String,
    name: String,
    ino: u64,
    kind: Kind,
    node: Option<NodeRow>,
}

fn list_row(row: &Row<'_>, node: bool) -> rusqlite::Result<ListRow> {
    Ok(ListRow {
        dir: row.get(0)?,
        name: row.get(1)?,
        ino: row.get(2)?,
        kind: row.get::<_, KindColumn>(3)?.0,
        node: node.then(|| node_row(row, 4)).transpose()?,
    })
}

/// The statements of [`ReadView::rows`]. `?1, ?2`: directory and name to begin after. Now: `?3` time, `?4`
/// limit, `?5` end. In the past: `?3` sequence, `?4` end.
macro_rules! list_sql {
    (names, $where:literal) => {
        concat!(
            "SELECT name.dir, name.name, name.ino, name.kind FROM name LEFT JOIN expiry ON expiry.ino = name.ino WHERE ",
            $where,
            " AND (expiry.at IS NULL OR expiry.at > ?3) ORDER BY name.dir, name.name LIMIT ?4"
        )
    };
    (nodes, $where:literal) => {
        concat!(
            "SELECT name.dir, name.name, name.ino, name.kind, ",
            node_columns!(),
            " FROM name CROSS JOIN node ON node.ino = name.ino
              AND node.seq = (SELECT max(seq) FROM node AS last WHERE last.ino = name.ino)
              WHERE ",
            $where,
            " AND (node.expires_at IS NULL OR node.expires_at > ?3) ORDER BY name.dir, name.name LIMIT ?4"
        )
    };
    (as_of, $where:literal) => {
        concat!(
            "SELECT dir, name, ino, kind FROM name WHERE since <= ?3 AND ",
            $where,
            " UNION ALL SELECT dir, name, ino, kind FROM name_past WHERE since <= ?3 AND till > ?3 AND ",
            $where,
            " ORDER BY dir, name"
        )
    };
}

const LIST_NAMES: &str = list_sql!(names, "name.dir = ?1 AND name.name > ?2");
const LIST_NODES: &str = list_sql!(nodes, "name.dir = ?1 AND name.name > ?2");
const WALK_NAMES: &str = list_sql!(names, "(name.dir, name.name) > (?1, ?2) AND name.dir < ?5");
const WALK_NODES: &str = list_sql!(nodes, "(name.dir, name.name) > (?1, ?2) AND name.dir < ?5");
const LIST_AS_OF: &str = list_sql!(as_of, "dir = ?1 AND name > ?2");
const WALK_AS_OF: &str = list_sql!(as_of, "(dir, name) > (?1, ?2) AND dir < ?4");

/// Time of commit `seq`; 0 for the empty tree.
pub(crate) fn moment(conn: &Connection, seq: u64) -> DbResult<i64> {
    match one(conn, "SELECT time FROM log WHERE seq = ?1", [seq], |row| row.get(0))? {
        Some(time) => Ok(time),
        None if seq == 0 => Ok(0),
        None => {
            Err(Error::new(ErrorKind::Corrupt, "a commit is missing in the log; run `garth fsck`").into())
        }
    }
}
