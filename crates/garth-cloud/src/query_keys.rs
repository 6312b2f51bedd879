//! `find`: reads keys in their order, and returns the nodes in reach that have them. Its answers, with their
//! order, limits and errors, are those of the SQLite engine.
//!
//! Mostly one round trip suffices: keys are read with their nodes and names, and the page is filled from
//! these. Otherwise the page is filled again, in a transaction that reads further keys of the same state.

mod gate_files;
mod keys;
mod page;
mod statements;

use garth_engine::engine::planner::Region;
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::model::find::FindPlace;
use garth_engine::model::{FindAnswer, FindCursor, FindQuery, Ino, Within};
use garth_engine::rule::Registry;
use garth_engine::{Error, ErrorKind, Result, TreePath};

use crate::client::Connection;
use keys::{Key, Span};
use page::Page;
use statements::{FileRange, Snapshot};

/// Keys that one call examines, after the first [`FEW`].
const LOOKED_AT: usize = 10_000;
/// Keys that are read at a time, and limit on the nodes of a subtree whose keys are looked up node by node
/// instead of by a longer scan.
const FEW: usize = 1000;
/// Files requested by name, in each of which a key is looked up.
const FILES: usize = 64;

/// Part of an account that a handle finds keys in.
#[derive(Clone, Copy, Debug)]
pub struct FindScope<'a> {
    /// Number of the account.
    pub account: i64,
    /// Reach of the handle.
    pub reach: &'a Reach,
    /// Registry with the projections.
    pub registry: &'a Registry,
    /// True for a state of the past, which has no keys.
    pub is_past: bool,
}

/// Returns the nodes with keys in a range.
///
/// # Errors
/// `InvalidArgument` for a limit outside its range, or the cursor of another filesystem; `Unsupported` for a
/// state of the past, or a projection that is not registered; `WouldBlock` while the keys of the account are
/// derived ([`make_ready`](crate::indexing::make_ready)); errors of the database.
pub async fn find(conn: &Connection, scope: FindScope<'_>, query: &FindQuery) -> Result<FindAnswer> {
    query.check()?;
    if scope.is_past {
        return Err(Error::new(ErrorKind::Unsupported, "past keys are not stored"));
    }
    let within = match query.within.is_empty() {
        true => scope.reach.within.clone(),
        false => Within::new(query.within.iter().cloned()).intersect(&scope.reach.within),
    };
    scope.registry.check(query.projection)?;
    let at = query.after.as_ref().map(FindCursor::place).transpose()?.flatten().cloned();
    let find = Find { conn, scope, query, within, at };
    // Gates are judged by files, which are known only once names are.
    if scope.reach.gates.is_empty()
        && let Some(answer) = find.in_one_trip().await?
    {
        return Ok(answer);
    }
    let mut snapshot = find.snapshot();
    let answer = find.in_steps(&mut snapshot).await;
    let ended = snapshot.end().await;
    answer.and_then(|answer| ended.map(|()| answer))
}

/// Query in progress.
struct Find<'a> {
    conn: &'a Connection,
    scope: FindScope<'a>,
    query: &'a FindQuery,
    /// The requested subtrees, as far as they are in reach.
    within: Within,
    /// Place after which to continue.
    at: Option<FindPlace>,
}

impl<'a> Find<'a> {
    fn snapshot(&self) -> Snapshot<'a> {
        Snapshot::new(self.conn, self.scope.account, self.scope.registry.version())
    }

    fn page(&self) -> Page<'_> {
        let of_content = self.scope.registry.projection(self.query.projection);
        Page::new(&self.within, of_content, self.query, self.at.clone())
    }

    fn is_by_line(&self) -> bool {
        let projection = self.scope.registry.projection(self.query.projection);
        projection.is_some_and(|one| one.is_by_line())
    }

    /// Returns the answer if it takes few keys, none of a node with many names.
    async fn in_one_trip(&self) -> Result<Option<FindAnswer>> {
        let mut snapshot = self.snapshot();
        if let Some(files) = self.files() {
            if let Some(keys) = snapshot.keys_of_files(self.query, &files, true).await? {
                return Ok(self.page().of_few(keys, LOOKED_AT));
            }
            snapshot = self.snapshot();
        }
        // Where everything is in reach, the page is mostly full after as many keys, the one after it, and the
        // one that is read again.
        let most = match self.within.is_everything() {
            true => self.query.limit.saturating_add(2).min(FEW),
            false => FEW,
        };
        let mut page = self.page();
        let span = page.span(self.is_by_line());
        let keys = snapshot.keys(self.query, &span, most, true).await?;
        let is_last = keys.len() < most;
        if keys.iter().any(Key::has_more_names) {
            return Ok(None);
        }
        let is_full = !page.give_all(keys);
        Ok((is_full || is_last).then(|| page.done(is_full)))
    }

    /// Returns the answer from as many statements as it takes, all on one state.
    async fn in_steps(&self, snapshot: &mut Snapshot<'a>) -> Result<FindAnswer> {
        let mut page = self.page();
        if let Some(files) = self.files()
            && let Some(keys) = snapshot.keys_of_files(self.query, &files, false).await?
        {
            let keys = page.behind(keys);
            let has_room = keys.len() < LOOKED_AT;
            let is_full = !self.give_all(snapshot, &mut page, keys).await?;
            return Ok(page.done(is_full || !has_room));
        }
        // Most queries end here: the page is full, or there are no further keys.
        let (is_full, is_last) = self.scan(snapshot, &mut page).await?;
        if is_full || is_last || page.room() == 0 {
            return Ok(page.done(is_full || !is_last));
        }
        // Many nodes have such keys, and perhaps few of them are in the requested subtrees.
        if let Some(keys) = self.of_small_subtree(snapshot, &page).await? {
            let is_full = !self.give_all(snapshot, &mut page, keys).await?;
            return Ok(page.done(is_full));
        }
        for _ in 0..LOOKED_AT / FEW {
            let (is_full, is_last) = self.scan(snapshot, &mut page).await?;
            if is_full || is_last {
                return Ok(page.done(is_full));
            }
        }
        Ok(page.done(true))
    }

    /// Examines the next keys. Returns true if the page is full before the last one, and true if there are no
    /// further keys.
    async fn scan(&self, snapshot: &mut Snapshot<'a>, page: &mut Page<'_>) -> Result<(bool, bool)> {
        let span: Span = page.span(self.is_by_line());
        let keys = snapshot.keys(self.query, &span, FEW, false).await?;
        let is_last = keys.len() < FEW;
        Ok((!self.give_all(snapshot, page, keys).await?, is_last))
    }

    /// Adds the paths of these keys to the page. Returns false if it is full before the last one.
    async fn give_all(
        &self,
        snapshot: &mut Snapshot<'a>,
        page: &mut Page<'_>,
        mut keys: Vec<Key>,
    ) -> Result<bool> {
        for key in keys.iter_mut().filter(|key| key.has_more_names()) {
            let after = page.after(key);
            let limit = self.query.limit;
            let names = snapshot.names_after(key.ino(), &after, &self.within, limit).await?;
            key.set_names(names);
        }
        let gates = &self.scope.reach.gates;
        if !gates.is_empty() {
            let paths = keys.iter().flat_map(|key| page.paths(key)).collect();
            page.hide(gate_files::hidden(snapshot, gates, self.scope.registry, paths).await?);
        }
        Ok(page.give_all(keys))
    }

    /// Returns the files that a query asks for by name, if it asks for one key in a few files; `None` for any
    /// other query. The cost then does not depend on the other files that have the key.
    fn files(&self) -> Option<FileRange> {
        let (key, tops) = (self.query.one_key()?, self.within.tops());
        let of_content = self.scope.registry.projection(self.query.projection).is_some();
        if tops.len() > FILES || !of_content {
            return None;
        }
        let split = |top: &TreePath| {
            let (dir, name) = top.key().rsplit_once('/')?;
            Some((dir.to_owned(), name.to_owned()))
        };
        let names = tops.iter().map(split).collect::<Option<Vec<_>>>()?;
        let (ino, line) = self.at.as_ref().map_or((0, 0), |at| (at.ino, at.line));
        // `limit` rows, the last returned one again, and one that shows whether more follow.
        let most = self.query.limit.saturating_add(2).min(LOOKED_AT);
        Some(FileRange { key: key.to_owned(), names, ino, line, most, all: LOOKED_AT })
    }

    /// Returns the keys of the nodes in the requested subtrees, after the last returned one; `None` if there
    /// may be many nodes or keys.
    async fn of_small_subtree(
        &self,
        snapshot: &mut Snapshot<'a>,
        page: &Page<'_>,
    ) -> Result<Option<Vec<Key>>> {
        if self.within.is_everything() || self.is_by_line() {
            return Ok(None);
        }
        let (mut names, mut ranges) = (Vec::new(), Vec::new());
        for top in self.within.tops() {
            if let Some((dir, name)) = top.key().rsplit_once('/') {
                names.push((dir.to_owned(), name.to_owned()));
            }
            let without = self.within.exclusions_below(top).map(|path| path.key().to_owned()).collect();
            let region = Region { dir: top.key().to_owned(), without, ..Region::default() };
            ranges.extend(region.ranges());
        }
        // The bound is for all subtrees together.
        let mut inos = snapshot.nodes_within(names, ranges, FEW + 1).await?;
        if inos.len() > FEW {
            return Ok(None);
        }
        inos.extend(self.within.contains(&TreePath::root()).then_some(Ino::ROOT.0));
        inos.sort_unstable();
        inos.dedup();
        let keys = snapshot.keys_of_nodes(self.query, inos, LOOKED_AT + 1).await?;
        Ok((keys.len() <= LOOKED_AT).then(|| page.behind(keys)))
    }
}
