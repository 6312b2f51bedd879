//! Rows that were fetched, as reads ask for them.
//!
//! A row that was not fetched is noted, and answered as if it did not exist, so that one run of a read notes
//! as many as possible. The run is dropped, and the read runs again once they were fetched.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use garth_engine::engine::planner::{ExtentRow, HeadRow, Key, NameRow, NodeRow};
use garth_engine::engine::relational::gate_judgements::Judgements;
use garth_engine::engine::relational::reads::tree_rows::{
    CommitSpan, EachName, EachRow, LoggedCommit, MAX, NameRange, NameSpan, PageRow, PastPage, TreeRows,
};
use garth_engine::model::{
    Attributes, Author, CommitInfo, Gate, Kind, Owner, Seq, SessionOf, Snapshot, Timestamp, Within,
};
use garth_engine::path::TreePath;
use garth_engine::rule::Registry;
use garth_engine::{Error, Result};

use super::content::EXTENTS;
use super::fetched::{FetchedRows, PageName, SPANS};
use super::log::{self, session_key};
use super::names::{self, page_range, places};
use crate::values::columns::attributes;

/// Factor by which more rows are fetched when a read needs more.
const GROWTH: usize = 16;

/// Passes rows of a node that are fetched in growing numbers to `each`, until it returns false. `fetched`
/// returns at most the first rows of a number, or notes them.
fn each_of<T>(
    step: usize,
    known: impl Fn(usize) -> Option<Arc<Vec<T>>>,
    fetched: impl Fn(usize) -> Option<Arc<Vec<T>>>,
    mut each: impl FnMut(&T) -> Result<bool>,
) -> Result<()> {
    let mut limit = step;
    while let Some(next) = limit.checked_mul(GROWTH).filter(|next| known(*next).is_some()) {
        limit = next;
    }
    let Some(rows) = fetched(limit) else { return Ok(()) };
    for row in rows.iter() {
        if !each(row)? {
            return Ok(());
        }
    }
    // There may be more of them than were asked for.
    if rows.len() >= limit {
        fetched(limit.saturating_mul(GROWTH));
    }
    Ok(())
}

fn page_row(row: &PageName, last: &mut Rc<str>) -> PageRow {
    // The names of a directory come together, and share its key.
    if **last != *row.dir {
        *last = row.dir.as_str().into();
    }
    PageRow {
        dir: Rc::clone(last),
        name: row.name.clone(),
        ino: row.ino,
        kind: row.kind,
        node: row.node.clone(),
    }
}

impl TreeRows for &FetchedRows {
    type Error = Error;

    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn judgements(&self) -> &Judgements {
        &self.judgements
    }

    fn misses(&self) -> usize {
        self.misses.get()
    }

    fn head(&self) -> Result<HeadRow> {
        // Until it was fetched, all commits exist and are readable.
        let unknown = HeadRow { seq: MAX, ..HeadRow::default() };
        Ok(self.head_row()?.map_or(unknown, |head| head.row))
    }

    fn name(&self, dir: &str, name: &str, seq: u64) -> Result<Option<NameRow>> {
        // No name of the database has a NUL.
        if dir.contains('\0') || name.contains('\0') {
            return Ok(None);
        }
        Ok(self.get(&self.names.at, (dir.to_owned(), name.to_owned(), seq.min(MAX))).flatten())
    }

    fn version(&self, ino: u64, seq: u64) -> Result<Option<NodeRow>> {
        let (ino, seq) = (ino.min(MAX), seq.min(MAX));
        if let Some(row) = self.nodes.versions.known(ino, seq) {
            return Ok(row);
        }
        self.get(&self.nodes.versions.single, (ino, seq));
        Ok(None)
    }

    fn version_before(&self, ino: u64, before: u64) -> Result<Option<NodeRow>> {
        let (ino, seq) = (ino.min(MAX), before.saturating_sub(1).min(MAX - 1));
        if let Some(row) = self.nodes.versions.known(ino, seq) {
            return Ok(row);
        }
        self.get(&self.nodes.versions.runs, (ino, seq));
        Ok(None)
    }

    fn next_version(&self, node: &NodeRow) -> Result<Option<u64>> {
        match self.nodes.versions.next(node.ino, node.seq, MAX) {
            Some(next) => Ok(next),
            None => Ok(self.get(&self.nodes.next, (node.ino, node.seq)).flatten()),
        }
    }

    fn last_unlink(&self, ino: u64) -> Result<Option<u64>> {
        Ok(self.get(&self.nodes.last_unlink, ino).flatten())
    }

    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes> {
        match self.get(&self.nodes.attributes, (ino, seq)) {
            Some(json) => attributes(seq, json.as_deref()),
            None => Ok(Attributes::default()),
        }
    }

    fn each_name(
        &self,
        ino: u64,
        span: CommitSpan,
        within: &Within,
        each: &mut EachName<'_, Error>,
    ) -> Result<()> {
        let ino = ino.min(MAX);
        let (of, places) = (&self.names.of, places(within));
        let key = |limit: usize| (ino, span.to, places.clone(), Key::default(), limit);
        let past = |limit: usize| (ino, span, limit);
        if span.from < MAX {
            // All at once, although the live names may be enough.
            self.names.past_of.want(past(names::STEP));
        }
        let is_in = |(dir, name): &Key| within.contains(&TreePath::from_row(dir, name));
        let (mut live, mut wants) = (0, true);
        each_of(
            names::STEP,
            |limit| of.known(&key(limit)),
            |limit| self.get(of, key(limit)),
            |name| {
                // The places also hold the names of excluded entries.
                if is_in(name) {
                    live += 1;
                    wants = each(name.clone(), MAX)?;
                }
                Ok(wants)
            },
        )?;
        if !wants || span.from >= MAX {
            return Ok(());
        }
        // The link count of a directory counts its subdirectories. It has one name itself.
        let links = self.version(ino, span.to)?.map_or(0, |node| match node.kind {
            Kind::Directory => node.nlink.min(1),
            _ => node.nlink,
        });
        let mut left = links.saturating_sub(live);
        if left == 0 {
            return Ok(());
        }
        each_of(
            names::STEP,
            |limit| self.names.past_of.known(&past(limit)),
            |limit| self.get(&self.names.past_of, past(limit)),
            |(name, _, till)| {
                // Only names that outlive the span count: the link count is that of its end.
                left -= u64::from(*till > span.to);
                let goes_on = !is_in(name) || each(name.clone(), till.saturating_sub(1))?;
                Ok(goes_on && left > 0)
            },
        )
    }

    fn names_after(&self, ino: u64, within: &Within, after: (&str, &str), limit: usize) -> Result<Vec<Key>> {
        let after = (after.0.to_owned(), after.1.to_owned());
        // Names of excluded entries are read and dropped, and must not use up the limit.
        let most = limit.saturating_add(within.exclusions().len());
        let names = self.get(&self.names.of, (ino.min(MAX), MAX, places(within), after, most));
        let is_in = |(dir, name): &&Key| within.contains(&TreePath::from_row(dir, name));
        Ok(names.iter().flat_map(|names| names.iter()).filter(is_in).take(limit).cloned().collect())
    }

    fn page_now(
        &self,
        range: &NameRange<'_>,
        nodes: bool,
        (_, most): (i64, usize),
        each: &mut EachRow<'_, Error>,
    ) -> Result<()> {
        // What has expired is judged by the time of the snapshot, which is known only with its rows.
        let key = page_range(range);
        let page = self.names.part_of_page(&key, nodes, most).or_else(|| {
            let limit = self.names.page_limit(&key, nodes, most);
            Some((self.get(&self.names.now, (key, nodes, limit))?, 0))
        });
        let Some((page, first)) = page else { return Ok(()) };
        let mut dir = Rc::from(range.from);
        for row in page.iter().skip(first).take(most) {
            if !each(page_row(row, &mut dir))? {
                break;
            }
        }
        Ok(())
    }

    fn page_at(&self, range: &NameRange<'_>, seq: u64, _limit: usize) -> Result<PastPage> {
        let Some(page) = self.get(&self.names.past, (page_range(range), seq)) else {
            return Ok(PastPage::default());
        };
        let mut dir = Rc::from(range.from);
        let rows: Vec<PageRow> = page.iter().map(|row| page_row(row, &mut dir)).collect();
        let last = rows.last().filter(|_| rows.len() >= names::STEP);
        let complete = last.map(|row| (row.dir.to_string(), row.name.clone()));
        Ok(PastPage { rows, complete })
    }

    fn was_used(&self, (dir, name): (&str, &str), oldest: u64, seq: u64) -> Result<bool> {
        let key = (dir.to_owned(), name.to_owned(), oldest, seq);
        // Until it is known, the versions of the path are fetched as well.
        Ok(self.get(&self.spans.used, key).unwrap_or(true))
    }

    fn ended_before(&self, dir: &str, name: &str, till: u64) -> Result<Option<NameSpan>> {
        // Spans before one that was fetched may have been fetched with it.
        if let Some(spans) = self.spans.ended_with(dir, name, till) {
            return Ok(spans);
        }
        let spans = self.get(&self.spans.ended, (dir.to_owned(), name.to_owned(), till.min(MAX)));
        Ok(spans.and_then(|spans| spans.last_key_value().map(|(_, span)| *span)))
    }

    fn came_later(&self, (dir, name): (&str, &str), seq: u64, until: u64) -> Result<Vec<u64>> {
        // Nothing comes after the newest state.
        if seq >= until {
            return Ok(Vec::new());
        }
        let inos = self.get(&self.spans.came_later, (dir.to_owned(), name.to_owned(), seq, until));
        Ok(inos.map_or_else(Vec::new, |inos| inos.to_vec()))
    }

    fn last_end(&self, ino: u64, seq: u64) -> Result<Option<u64>> {
        Ok(self.get(&self.spans.last_end, (ino, seq.min(MAX))).flatten())
    }

    fn last_end_of(
        &self,
        ino: u64,
        seq: u64,
        counts: &dyn Fn(&str, &str, u64) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let (ends, key) = (&self.spans.ends, |limit: usize| (ino, seq.min(MAX), limit));
        let mut found = None;
        each_of(
            SPANS,
            |limit| ends.known(&key(limit)),
            |limit| self.get(ends, key(limit)),
            |(dir, name, till)| {
                found = counts(dir, name, *till)?.then_some(*till);
                Ok(found.is_none())
            },
        )?;
        Ok(found)
    }

    fn is_content_gone(&self, ino: u64, seq: u64, opened: i64) -> Result<bool> {
        let marked = self.get(&self.contents.gone, (ino.min(MAX), seq.min(MAX))).flatten();
        Ok(marked.is_some_and(|marked| opened >= marked))
    }

    fn content(&self, ino: u64, as_of: Option<u64>, from: u64, to: u64) -> Result<Bytes> {
        if from >= to {
            return Ok(Bytes::new());
        }
        let key = (ino, as_of.unwrap_or(MAX), from, to);
        self.get(&self.contents.parts, key).unwrap_or_else(|| Ok(Bytes::new()))
    }

    fn each_extent_now(
        &self,
        ino: u64,
        (from, to): (u64, u64),
        take: &mut dyn FnMut(ExtentRow) -> bool,
    ) -> Result<()> {
        let mut at = from;
        while at < to
            && let Some(extents) = self.get(&self.contents.extents_now, (ino, at, to))
        {
            for extent in extents.iter() {
                if !take(*extent) {
                    return Ok(());
                }
            }
            match extents.last().filter(|_| extents.len() >= EXTENTS) {
                Some(last) => at = last.end(),
                None => break,
            }
        }
        Ok(())
    }

    fn extents_now(&self, ino: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        let mut extents = Vec::new();
        self.each_extent_now(ino, (from, to), &mut |extent| {
            extents.push(extent);
            true
        })?;
        Ok(extents)
    }

    fn origin(&self, chunk: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.get(&self.contents.origins, chunk).flatten())
    }

    fn extents_at(&self, ino: u64, seq: u64, from: u64, to: u64) -> Result<Vec<ExtentRow>> {
        let extents = self.get(&self.contents.extents_at, (ino, seq, from, to));
        Ok(extents.map_or_else(Vec::new, |extents| extents.to_vec()))
    }

    fn commit(&self, seq: u64) -> Result<Option<(CommitInfo, String)>> {
        // Any commit takes the place of one that is not known yet, so that those of a page are fetched at
        // once.
        let unknown = || CommitInfo::of_folded(Seq(seq), Timestamp(0), Author::default());
        Ok(self.get(&self.log.commits, seq).unwrap_or_else(|| Some((unknown(), String::new()))))
    }

    fn commit_time(&self, seq: u64) -> Result<i64> {
        match self.commit(seq)? {
            Some((commit, _)) => Ok(commit.time.0),
            None if seq == 0 => Ok(0),
            None => Err(Error::damaged("a commit is missing from the log")),
        }
    }

    fn last_commit_until(&self, time: i64, oldest: u64, head: u64) -> Result<u64> {
        if head <= oldest {
            return Ok(head);
        }
        // Commits before the oldest readable one may be in the log as well.
        let last = self.get(&self.log.last_until, time).flatten();
        Ok(last.unwrap_or_default().max(oldest))
    }

    fn each_commit(
        &self,
        (since, head): (u64, u64),
        session: Option<&SessionOf>,
        take: &mut dyn FnMut(LoggedCommit<'_>) -> Result<bool>,
    ) -> Result<()> {
        let (mut since, session) = (since, session.map(session_key));
        while since < head
            && let Some(page) = self.get(&self.log.pages, (since, session.clone()))
        {
            for row in page.iter() {
                let (info, changes, owner) = (row.info.clone(), row.changes.as_str(), row.owner.as_str());
                if row.info.seq.0 > head || !take(LoggedCommit { info, changes, owner })? {
                    return Ok(());
                }
            }
            // A run that lacks rows may go further than the page.
            match page.last().filter(|_| page.len() >= log::STEP && self.is_complete()) {
                Some(last) => since = last.info.seq.0,
                None => break,
            }
        }
        Ok(())
    }

    fn changes_before(&self, seq: u64, change: u64) -> Result<Option<(u64, String)>> {
        Ok(self.get(&self.log.pieces, (seq, change.min(MAX), true)).flatten())
    }

    fn changes_at(&self, seq: u64, change: u64) -> Result<Option<String>> {
        let piece = self.get(&self.log.pieces, (seq, change.min(MAX), false)).flatten();
        Ok(piece.map(|(_, changes)| changes))
    }

    fn folded_author(&self, seq: u64) -> Result<Author> {
        self.get(&self.log.folded_authors, seq).unwrap_or_else(|| Ok(Author::default()))
    }

    fn snapshot(&self, owner: &str, name: &str, head: u64) -> Result<Option<u64>> {
        let seq = self.get(&self.log.snapshot, (owner.to_owned(), name.to_owned())).flatten();
        Ok(seq.filter(|seq| *seq <= head))
    }

    fn each_snapshot(
        &self,
        own: Option<&Owner>,
        (owner, name): (&str, &str),
        _head: u64,
        take: &mut dyn FnMut(Snapshot) -> bool,
    ) -> Result<()> {
        let own = own.map(|own| own.key().to_owned());
        let mut after = (owner.to_owned(), name.to_owned());
        while let Some(page) = self.get(&self.log.snapshots, (own.clone(), after.0.clone(), after.1.clone()))
        {
            if !page.iter().all(|snapshot| take(snapshot.clone())) {
                break;
            }
            match page.last().filter(|_| page.len() >= log::STEP) {
                Some(last) => after = log::behind(last),
                None => break,
            }
        }
        Ok(())
    }

    fn entries_with(&self, gate: &Gate, key: &str, limit: usize) -> Result<Option<Vec<String>>> {
        let (dir, file) = (gate.dir.key().to_owned(), gate.file.as_str().to_owned());
        let entries = self.get(&self.names.open, (gate.projection, key.to_owned(), dir, file, limit));
        Ok(entries.flatten().map(|entries| entries.to_vec()))
    }
}
