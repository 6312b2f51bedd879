//! Prefetch for databases that are a round trip away: names the rows that a batch will need. It asks for
//! everything that the addresses of the batch lead to, level by level, for all operations at once. A local
//! database pays nothing for it.
//!
//! Prefetching changes nothing: an unneeded row costs only that row, and a row that is not prefetched is
//! missed later and costs a round. Rows are examined as the database has them, without the changes of the
//! batch.
//!
//! A level is everything that can be asked for without the answer to another query. Names are stored by the
//! path of their directory, so a path is one level, however deep it is. The next level depends on the inode:
//! node, attributes, extents. Those lead to chunks, and to the names of expired nodes. Each function here
//! therefore first asks for all rows that it can name, and then reads. A read fails if its row has not been
//! fetched; the next round continues from there.
//!
//! An operation that misses a row ends there. Rows that it reads one by one, such as the names of a copy,
//! have to be prefetched together, or each takes a round and the batch fails after
//! [`MAX_ROUNDS`](super::MAX_ROUNDS).
//!
//! A key equals that of the operation, or covers more (see [`RowStore`](super::RowStore)). Limits are
//! constants that both use.

use super::content::{chunks, sum_of};
use super::derived_rows::{keys_of_removed_text, keys_of_text};
use super::rows::{NameRow, NodeRow, RowKey, Rows};
use super::state::Planner;
use super::subtrees::{Region, key_of};
use crate::error::Result;
use crate::model::{
    At, Batch, Body, Ino, Kind, MAX_COPIED_NAMES, MAX_HASHED, Op, Precondition, Remove, RenameMode, Seq,
    SetAttrs, Within,
};
use crate::path::TreePath;

/// Number of entries that usually tell whether a directory is empty. One would do, but it may have expired.
pub(super) const FIRST_ENTRIES: usize = 64;

/// Number of names that tell whether a copy of a directory is within its limit, unless some have expired.
pub(super) const FIRST_NAMES: usize = MAX_COPIED_NAMES + 1;

/// Rows that an operation needs of the node at an address, in addition to the row of the node.
#[derive(Clone, Copy, Default)]
struct Need {
    attributes: bool,
    /// Extents of a file that overlap this range.
    content: Option<(u64, u64)>,
    /// Bytes of a file, to hash them.
    hash: bool,
    /// A name that the batch reaches.
    name: bool,
    /// All names in places with rules: its content or attributes change, which rules judge by path.
    rules: bool,
    /// Rows of the content of a directory.
    below: Below,
    /// Keys that are derived from its attributes.
    keys: bool,
    text: Text,
}

/// Change of the text of a file, from which keys and passages are derived.
#[derive(Clone, Copy, Default, PartialEq)]
enum Text {
    #[default]
    Nothing,
    Appended,
    Edited,
    Removed,
}

/// Rows that an operation needs of a directory's content.
#[derive(Clone, Copy, Default, PartialEq)]
enum Below {
    #[default]
    Nothing,
    /// First entries: it has to be empty.
    Entries,
    /// All names: they are copied.
    Names,
    /// Expired nodes: they end as expired, and not as removed.
    Expired,
    /// Longest path: it must not become too long.
    Longest,
    /// All names below a path at which nothing exists: there are none. Each name of a copy asks for the row
    /// that it replaces; this range answers for all of them.
    Free,
}

/// Range of all extents, for a file whose size is not known yet.
const ALL: Option<(u64, u64)> = Some((0, u64::MAX));

impl Need {
    fn content(offset: u64, length: u64) -> Self {
        Self { content: Some((offset, offset.saturating_add(length))), ..Self::default() }
    }

    fn written(self) -> Self {
        Self { rules: true, ..self }
    }

    fn edited(self, text: Text) -> Self {
        Self { text, ..self.written() }
    }

    fn below(below: Below) -> Self {
        Self { below, ..Self::default() }
    }

    fn attributes(attrs: &SetAttrs) -> Self {
        let changed = *attrs != SetAttrs::default();
        Self { attributes: changed, keys: changed, ..Self::default() }
    }

    fn condition(that: &Precondition) -> Self {
        match that {
            Precondition::Sha256(_) => Self { content: ALL, hash: true, ..Self::default() },
            Precondition::Not(that) => Self::condition(that),
            _ => Self::default(),
        }
    }

    /// Returns the rows that an operation needs of each of its addresses. The source of a copy from the past
    /// is left to [`Planner::walk_past`].
    fn of(op: &Op) -> Vec<(&At, Self)> {
        match op {
            Op::Write { at, attrs, .. } => {
                vec![(at, Self { content: ALL, ..Self::attributes(attrs) }.edited(Text::Edited))]
            }
            // An append ends no extent.
            Op::Append { at, .. } => vec![(at, Self::default().edited(Text::Appended))],
            // A new node has no attributes to merge with, and one that exists is left as it is.
            Op::Symlink { at, .. } | Op::Mkdir { at, .. } | Op::Mknod { at, .. } => {
                vec![(at, Self::default())]
            }
            Op::Patch { at, offset, body } => {
                vec![(at, Self::content(*offset, body.size()).edited(Text::Edited))]
            }
            Op::Punch { at, offset, length } => {
                vec![(at, Self::content(*offset, *length).edited(Text::Edited))]
            }
            Op::Truncate { at, size } => {
                vec![(at, Self::content(*size, u64::MAX).edited(Text::Edited))]
            }
            Op::CopyRange { from, from_offset, length, to, to_offset } => vec![
                (from, Self::content(*from_offset, *length)),
                (to, Self::content(*to_offset, *length).edited(Text::Edited)),
            ],
            Op::Link { from, to, .. } => {
                vec![(from, Self { name: true, ..Self::default() }), (to, Self::default())]
            }
            Op::Remove { at, what, .. } => {
                let below = if *what == Remove::Tree { Below::Expired } else { Below::Entries };
                vec![(at, Self { text: Text::Removed, ..Self::below(below) })]
            }
            Op::Rename { from, to, mode, .. } => {
                // Paths below it can only become too long where its own becomes longer. Addresses by child
                // are not compared: their paths are not known here, and the length is missed later.
                let longer = |one: &At, other: &At| match (one, other) {
                    (At::Path(one), At::Path(other)) if one.key().len() > other.key().len() => Below::Longest,
                    _ => Below::Nothing,
                };
                let there = match mode {
                    RenameMode::Exchange => longer(from, to),
                    RenameMode::Replace | RenameMode::NoReplace => Below::Entries,
                };
                vec![(from, Self::below(longer(to, from))), (to, Self::below(there))]
            }
            Op::Copy { from, as_of, to, recursive, replace, .. } => {
                let below = if *recursive { Below::Names } else { Below::Nothing };
                let source = Self { attributes: true, content: ALL, below, ..Self::default() };
                let content = if *replace { ALL } else { None };
                let below = if *recursive { Below::Free } else { Below::Nothing };
                let target = Self { attributes: *replace, content, below, ..Self::default() };
                match as_of {
                    None => vec![(from, source), (to, target)],
                    Some(_) => vec![(to, target)],
                }
            }
            Op::SetAttrs { at, attrs } => vec![(at, Self::attributes(attrs).written())],
            Op::Check { at, that } => vec![(at, Self::condition(that))],
            Op::Snapshot { .. } | Op::DropSnapshot { .. } | Op::Misused { .. } => Vec::new(),
        }
    }
}

impl<R: Rows> Planner<'_, R> {
    /// Prefetches rows. With a local database, `keys` is dropped without making a key.
    pub(super) fn prefetch(&self, keys: impl IntoIterator<Item = RowKey>) {
        if R::PREFETCHES {
            self.rows.prefetch(keys.into_iter().collect());
        }
    }

    /// Prefetches the rows that a batch needs. Fails with the first error of a read, after all addresses
    /// have been looked at.
    pub(super) fn prefetch_batch(&self, batch: &Batch) -> Result<()> {
        if !R::PREFETCHES {
            return Ok(());
        }
        self.prefetch_records(batch);
        // Each address is walked, even after a miss: if a miss ended the loop, each remaining address would
        // cost another round.
        let mut read = Ok(());
        let mut hashed = 0;
        for (at, that) in batch.assumptions.iter().chain(&batch.preconditions) {
            read = read.and(self.walk(at, Need::condition(that), &mut hashed));
        }
        for op in &batch.ops {
            for (at, need) in Need::of(op) {
                read = read.and(self.walk(at, need, &mut hashed));
            }
            if let Op::Copy { from, as_of: Some(Seq(seq)), recursive, .. } = op {
                read = read.and(self.walk_past(from, *seq, *recursive));
            }
        }
        // The outcome of these operations contains the version of the root, or of the first existing top.
        if batch.ops.iter().any(|op| matches!(op, Op::Snapshot { .. } | Op::DropSnapshot { .. })) {
            match self.root {
                Some(root) => read = read.and(self.walk(root, Need::default(), &mut hashed)),
                None => {
                    for top in self.within.tops() {
                        read = read.and(self.walk_names(top).map(drop));
                    }
                }
            }
        }
        read
    }

    /// Prefetches rows of directories that the batch has moved, under the paths that the database has for
    /// them.
    pub(super) fn prefetch_moved(&self, op: &Op) -> Result<()> {
        if !R::PREFETCHES || self.delta.subtrees.is_empty() {
            return Ok(());
        }
        let (mut read, mut hashed) = (Ok(()), self.hashed);
        for (at, need) in Need::of(op) {
            // The database has a moved directory where it was before the batch, so walking the path as it is
            // given found nothing. Other addresses go by inode, which a move does not change.
            if let At::Path(path) = at
                && let Some((dir, name)) = key_of(path)
                && let Some(source) = self.delta.subtrees.source(&dir)
            {
                let source = At::Path(TreePath::from_row(&source, &name));
                read = read.and(self.walk(&source, need, &mut hashed));
            }
        }
        read
    }

    /// Prefetches rows whose keys are in the batch itself.
    fn prefetch_records(&self, batch: &Batch) {
        let owner = || self.owner.to_owned();
        // `count` always asks for them: the first run has no head row to tell that nobody has set one.
        self.prefetch([RowKey::Quotas]);
        let keeper = || batch.record_owner_key().to_owned();
        self.prefetch(
            batch.idempotency.iter().map(|record| RowKey::Idempotency(keeper(), record.key.clone())),
        );
        self.prefetch(batch.id.map(|id| RowKey::Committed(owner(), id)));
        for op in &batch.ops {
            match op {
                Op::Snapshot { name } | Op::DropSnapshot { name } => {
                    self.prefetch([RowKey::Snapshot(owner(), name.clone())]);
                }
                _ => {}
            }
            match op.body() {
                Some(Body::Staged(staged)) => self.prefetch([RowKey::Staged(staged.id)]),
                Some(Body::Bytes(bytes)) => {
                    let cuts = if let Op::Append { cuts, .. } = op { &cuts[..] } else { &[] };
                    // Only these are looked up by their hash.
                    let shared = chunks(bytes, cuts).filter(|(_, dedup)| *dedup);
                    self.prefetch(shared.map(|(data, dedup)| RowKey::Stored(sum_of(&data, dedup))));
                }
                None => {}
            }
        }
    }

    /// Prefetches the rows that an address leads to, as far as the rows on the way are known.
    fn walk(&self, at: &At, need: Need, hashed: &mut u64) -> Result<()> {
        let (ino, kind) = match at {
            At::Node(ino) => {
                // Requested only if the node has no name in reach, which is known after the node was read.
                self.prefetch([RowKey::IsOpen(ino.0)]);
                (ino.0, None)
            }
            At::Path(_) | At::Child(..) => {
                let Some(path) = self.prefetched_path(at)? else { return Ok(()) };
                let Some(row) = self.walk_names(&path)? else {
                    // Without this key, each name of a copied tree takes a round.
                    let free = need.below == Below::Free;
                    self.prefetch(free.then(|| all_below(path.key())));
                    return Ok(());
                };
                // The row of the name contains the kind, so these keys do not depend on the row of the node.
                let key = || path.key().to_owned();
                let region = || Region { dir: key(), ..Region::default() };
                self.prefetch(match (need.below, row.kind) {
                    (Below::Entries, Kind::Directory) => Some(RowKey::NamesIn(key(), FIRST_ENTRIES)),
                    (Below::Names, Kind::Directory) => Some(all_below(path.key())),
                    (Below::Expired, Kind::Directory) => Some(RowKey::ExpiredIn(region(), self.time)),
                    (Below::Longest, Kind::Directory) => Some(RowKey::LongestPath(region())),
                    _ => None,
                });
                (row.ino, Some(row.kind))
            }
        };
        // All of this is one level: it depends on the inode alone. The kind of a node that is addressed by
        // inode is not known, so extents are requested even for a directory.
        self.prefetch([RowKey::Node(ino)]);
        // `is_named` reads one, of a node that is addressed by inode or gets another name. Where everything
        // is in reach, the node itself tells whether it has names.
        let named = (need.name || kind.is_none()) && !self.within.is_everything();
        self.prefetch(named.then(|| RowKey::NamesOf(ino, self.within.clone(), 1)));
        // A file that is addressed by name usually has no other, and the planner remembers that one
        // (`addressed`).
        let judged = need.rules && kind.is_none();
        self.prefetch(judged.then(|| RowKey::NamesOf(ino, self.rules.places().clone(), usize::MAX)));
        // The newest: which commit set them is known only from the node.
        self.prefetch(need.attributes.then_some(RowKey::Attributes(ino, u64::MAX)));
        self.prefetch(need.keys.then_some(RowKey::Keys(ino)));
        if kind.is_none_or(|kind| kind == Kind::File) {
            self.prefetch(need.content.map(|(from, to)| RowKey::Extents(ino, from, to)));
            match need.text {
                Text::Nothing => {}
                Text::Appended => self.prefetch(keys_of_text(ino, false)),
                Text::Edited => self.prefetch(keys_of_text(ino, true)),
                Text::Removed => self.prefetch(keys_of_removed_text(ino)),
            }
        }
        let Some(node) = self.rows.node(ino)? else { return Ok(()) };
        // Losing the last name does not count as a change of a node: `last_change` reads the previous
        // version.
        if node.nlink == 0 {
            self.prefetch([RowKey::NodeAt(ino, node.seq.saturating_sub(1))]);
        }
        if kind.is_none()
            && node.kind == Kind::Directory
            && need.below == Below::Names
            && let Some(path) = self.prefetched_dir(ino)?
        {
            // A copy reads names by path. In the end it looks the path up for the time of the directory.
            self.prefetch([all_below(path.key())]);
            self.walk_names(&path)?;
        }
        // Conditions hash in this order, and the first that exceeds the limit refuses the batch before it
        // reads its file: from there on no content is worth fetching.
        if need.hash && node.kind == Kind::File && *hashed <= MAX_HASHED {
            *hashed = hashed.saturating_add(node.size);
            if *hashed <= MAX_HASHED {
                let extents = self.rows.extents(ino, 0, node.size)?;
                self.prefetch(extents.iter().map(|extent| RowKey::Chunk(extent.chunk)));
            }
        }
        self.prefetch_expired(&[node])
    }

    /// Returns the path of an address that is a name, if the batch reaches it.
    fn prefetched_path(&self, at: &At) -> Result<Option<TreePath>> {
        match at {
            At::Path(path) => Ok(self.within.contains(path).then(|| path.clone())),
            At::Node(_) => Ok(None),
            At::Child(dir, name) => {
                // The operation checks that it is a directory.
                self.prefetch([RowKey::Node(dir.0)]);
                Ok(self.prefetched_dir(dir.0)?.and_then(|dir| dir.join(name).ok()))
            }
        }
    }

    /// Returns the path of a directory, if the batch reaches it.
    fn prefetched_dir(&self, ino: u64) -> Result<Option<TreePath>> {
        // The root has no name.
        if ino == Ino::ROOT.0 && self.within.contains(&TreePath::root()) {
            return Ok(Some(TreePath::root()));
        }
        // All names, as `path_of` asks: they come in any order, and the first in the order of a walk counts.
        self.prefetch([RowKey::NamesOf(ino, self.within.clone(), usize::MAX)]);
        let first = self.rows.names_of(ino, self.within, usize::MAX)?.into_iter().min();
        Ok(first.map(|(dir, name)| TreePath::from_row(&dir, &name)))
    }

    /// Prefetches a name, the names on the way to it and the directories that those lead to.
    fn walk_names(&self, path: &TreePath) -> Result<Option<NameRow>> {
        // A change of names in `/` sets the times of the root, to which no name leads.
        self.prefetch([RowKey::Node(Ino::ROOT.0)]);
        let way = path.ancestors().filter_map(|above| key_of(&above));
        let keys: Vec<(String, String)> = way.chain(key_of(path)).collect();
        self.prefetch(keys.iter().cloned().map(|(dir, name)| RowKey::Name(dir, name)));
        // The directories on the way: the one that has the name gets new times, those above tell the error of
        // a lookup that fails.
        let mut last = Some(NameRow { ino: Ino::ROOT.0, since: 0, kind: Kind::Directory });
        for (dir, name) in &keys {
            last = self.rows.name(dir, name)?;
            let Some(row) = last else { break };
            self.prefetch([RowKey::Node(row.ino)]);
        }
        Ok(last)
    }

    /// Prefetches the rows that an address led to after commit `seq`, for a copy.
    fn walk_past(&self, at: &At, seq: u64, recursive: bool) -> Result<()> {
        self.prefetch([RowKey::TimeOf(seq)]);
        let named = |ino: u64| RowKey::NamesOfAt(ino, seq, self.within.clone());
        let path = match at {
            At::Path(path) => path.clone(),
            At::Node(ino) => {
                // Path and names of a directory are missed later: only its node says that it is one.
                self.prefetch((!self.within.is_everything()).then(|| named(ino.0)));
                self.prefetch(source_keys(ino.0, Some(seq)));
                return Ok(());
            }
            At::Child(dir, name) => {
                self.prefetch([RowKey::NodeAt(dir.0, seq), named(dir.0)]);
                let first = self.rows.names_of_at(dir.0, seq, self.within)?.into_iter().min();
                let above = match first {
                    Some((above, dir)) => TreePath::from_row(&above, &dir),
                    None if *dir == Ino::ROOT => TreePath::root(),
                    None => return Ok(()),
                };
                let Ok(path) = above.join(name) else { return Ok(()) };
                path
            }
        };
        let mut keys: Vec<(String, String)> =
            path.ancestors().chain([path.clone()]).filter_map(|path| key_of(&path)).collect();
        self.prefetch(keys.iter().cloned().map(|(dir, name)| RowKey::NameAt(dir, name, seq)));
        let last = keys.pop();
        for (dir, name) in &keys {
            // Only the error of the lookup asks for the directories above.
            let Some(row) = self.rows.name_at(dir, name, seq)? else { return Ok(()) };
            self.prefetch([RowKey::NodeAt(row.ino, seq)]);
        }
        let (ino, kind) = match last {
            None => (Ino::ROOT.0, Kind::Directory),
            Some((dir, name)) => match self.rows.name_at(&dir, &name, seq)? {
                Some(row) => (row.ino, row.kind),
                None => return Ok(()),
            },
        };
        self.prefetch(source_keys(ino, Some(seq)));
        let all = recursive && kind == Kind::Directory;
        self.prefetch(all.then(|| RowKey::NamesBelowAt(path.key().to_owned(), seq, FIRST_NAMES)));
        Ok(())
    }

    /// Prefetches nodes of the database, and the rows that ending the expired ones takes.
    pub(super) fn prefetch_nodes(&self, inos: impl Iterator<Item = u64> + Clone) -> Result<()> {
        if !R::PREFETCHES {
            return Ok(());
        }
        // The database has no rows of nodes that the batch created.
        let inos = inos.filter(|ino| *ino < self.first_ino);
        self.prefetch(inos.clone().map(RowKey::Node));
        let mut nodes = Vec::new();
        let mut read = Ok(());
        for ino in inos {
            read = read.and(self.rows.node(ino).map(|node| nodes.extend(node)));
        }
        read.and(self.prefetch_expired(&nodes))
    }

    /// Prefetches the names of expired nodes, which end with this commit, and the directories of those
    /// names.
    pub(super) fn prefetch_expired(&self, nodes: &[NodeRow]) -> Result<()> {
        if !R::PREFETCHES {
            return Ok(());
        }
        let due = |node: &&NodeRow| node.ino < self.first_ino && node.nlink > 0 && node.expired(self.time);
        // An expired node loses all of its names, also those out of reach of the batch.
        let everywhere = Within::everything();
        let mut read = Ok(());
        for node in nodes.iter().filter(due) {
            self.prefetch([RowKey::NamesOf(node.ino, everywhere.clone(), usize::MAX)]);
            match self.rows.names_of(node.ino, &everywhere, usize::MAX) {
                Ok(names) => {
                    // Its end changes each of these directories. Missed one by one, those of a few dozen
                    // expired nodes exceed the rounds of a batch.
                    for (dir, name) in names {
                        read = read.and(self.walk_names(&TreePath::from_row(&dir, &name)).map(drop));
                    }
                }
                Err(error) => read = read.and(Err(error)),
            }
        }
        read
    }
}

/// Returns the key of all names below a directory, as a copy asks for them.
fn all_below(dir: &str) -> RowKey {
    RowKey::NamesBelow(Region { dir: dir.to_owned(), ..Region::default() }, FIRST_NAMES)
}

/// Returns the keys of the rows that a copy needs of a node: now, or after a commit.
pub(super) fn source_keys(ino: u64, as_of: Option<u64>) -> [RowKey; 3] {
    match as_of {
        None => [RowKey::Node(ino), RowKey::Extents(ino, 0, u64::MAX), RowKey::Attributes(ino, u64::MAX)],
        Some(seq) => {
            [RowKey::NodeAt(ino, seq), RowKey::ExtentsAt(ino, seq, 0, u64::MAX), RowKey::Attributes(ino, seq)]
        }
    }
}
