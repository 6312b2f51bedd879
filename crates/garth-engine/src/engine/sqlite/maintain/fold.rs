//! Removes what no readable state shows: rows that ended at or before the oldest readable commit, nodes that
//! had lost their last name by then, and the commits before it.
//!
//! A pass removes what ended up to one commit, `till`, in phases ([`Phase`]) of short steps. A step writes
//! its place in the transaction that does its work, so a pass that is interrupted goes on with the next
//! collection. A step works only while the pass is in its phase, so several collections may be at one pass.
//!
//! States before `till` may be half removed meanwhile. New readers of them have been refused since the oldest
//! commit was announced. A pass begins after the grace period, when earlier readers have leases, and goes up
//! to the first state that one of them reads.
//!
//! The state at `till` itself stays whole. Of each node its newest version until then stays, so no row is
//! rewritten. Why: `docs/decisions/folding-by-log-and-forks.md`.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::engine::relational::fold_pass::{self, PastState};
use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::maintain::holds;
use crate::engine::sqlite::maintain::step::{Times, Turn};
use crate::engine::sqlite::tables::extents::{self, Removable};
use crate::engine::sqlite::tables::fold::{self, Pass, Phase};
use crate::engine::sqlite::tables::folded_authors::Spans;
use crate::engine::sqlite::tables::past_names::EndedName;
use crate::engine::sqlite::tables::{
    MAX, chunk_refs, commit_log, content_gone, dir_times, head, leases, nodes, past_names, replaced,
};
use crate::error::Result;
use crate::fs::store::Collected;
use crate::sqlite::DbResult;

/// Rows removed of one node before the turn is looked at.
const PIECE: usize = 256;
/// Keys read at a time. Small in tests, so that they cross the border of a piece.
const KEYS: usize = if cfg!(test) { 3 } else { 4096 };
/// Most commits read at a time to find nodes, and most pieces of their changes.
const COMMITS: usize = if cfg!(test) { 3 } else { 256 };
/// Inodes searched at a time for nodes with versions of before the log.
const INODES: u64 = if cfg!(test) { 3 } else { 4096 };

/// Rows of the past that were removed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemovedPast {
    /// Versions of nodes.
    pub(crate) versions: u64,
    /// Length of extents.
    pub(crate) bytes: u64,
}

impl RemovedPast {
    /// Removes extents of a node.
    pub(super) fn remove_extents(
        &mut self,
        conn: &Connection,
        ino: u64,
        removable: &[Removable],
    ) -> DbResult<()> {
        for Removable { key, chunk, len } in removable {
            extents::remove(conn, ino, *key)?;
            chunk_refs::change(conn, *chunk, -1)?;
            self.bytes += len;
        }
        Ok(())
    }

    pub(super) fn count_in(self, collected: &mut Collected) {
        collected.ended_versions += self.versions;
        collected.ended_bytes += self.bytes;
    }
}

impl SqliteFs {
    /// Removes the past before the oldest readable commit, once readers that may be left have had their grace
    /// period.
    pub(super) fn fold(&self, times: Times, collected: &mut Collected) -> Result<()> {
        while let Some(mut pass) = self.begin_pass(times)? {
            while pass.phase != Phase::Log {
                // Another collection, perhaps of another process, has gone on with the pass.
                let Some(next) = self.fold_phase(pass, collected)? else { return Ok(()) };
                pass = next;
            }
            let Some(commits) = self.fold_log(pass)? else { return Ok(()) };
            collected.folded += commits;
        }
        Ok(())
    }

    /// Completes a phase. Returns the pass in the next one; `None` if the pass is no longer in the phase.
    fn fold_phase(&self, pass: Pass, collected: &mut Collected) -> Result<Option<Pass>> {
        match pass.phase {
            Phase::Waiting | Phase::Candidates => self.fold_candidates(pass),
            Phase::Names => {
                let (begin, find) = (EndedName::before(pass.at), past_names::ended_until);
                if !self.fold_keys(pass, "fold-names", (begin, find), |it| it.fork, past_names::remove)? {
                    return Ok(None);
                }
                self.go_on(pass, pass.begin(Phase::Times, 0))
            }
            Phase::Times => {
                let remove = |conn: &Connection, key: &(u64, u64)| dir_times::remove_ended(conn, *key);
                // No node has inode 0.
                let (begin, find) = ((pass.at, 0), dir_times::ended_until);
                if !self.fold_keys(pass, "fold-times", (begin, find), |it| it.0, remove)? {
                    return Ok(None);
                }
                self.go_on(pass, pass.begin(Phase::Nodes, 0))
            }
            Phase::Nodes | Phase::Log => self.fold_nodes(pass, collected),
        }
    }

    /// Returns the pass to go on with; `None` if nothing is to be removed yet.
    fn begin_pass(&self, times: Times) -> Result<Option<Pass>> {
        // On a reader first: mostly there is none, and the writer is not needed.
        let is_left = self.with_view(|view| {
            let head = head::get(view.conn)?;
            Ok(head.oldest > head.folded || fold::get(view.conn)?.is_some())
        })?;
        if !is_left {
            return Ok(None);
        }
        let fs = self.whole();
        self.step(move |conn, _| {
            let times = times.at(fs.inner.runtime.env().now());
            begin(conn, holds::all_read(conn, &fs.inner.pasts, times.now)?.first().copied(), times)
        })
    }

    /// Runs a step of a pass, which passes a failpoint at its end. Returns `None` if the pass is no longer in
    /// this phase.
    fn pass_step<T: Send + 'static>(
        &self,
        pass: Pass,
        failpoint: &'static str,
        work: impl FnOnce(&Connection, &mut Turn) -> DbResult<T> + Send + 'static,
    ) -> Result<Option<T>> {
        let runtime = self.inner.runtime.clone();
        self.step(move |conn, turn| {
            if !fold::is_at(conn, pass)? {
                return Ok(None);
            }
            let value = work(conn, turn)?;
            runtime.failpoints().pass(failpoint)?;
            Ok(Some(value))
        })
    }

    /// Moves a pass to another place. Returns `None` if it is no longer in the phase of the first one.
    fn go_on(&self, from: Pass, to: Pass) -> Result<Option<Pass>> {
        self.step(move |conn, _| {
            if !fold::is_at(conn, from)? {
                return Ok(None);
            }
            fold::put(conn, to)?;
            Ok(Some(to))
        })
    }

    /// Finds the nodes that may have ended versions.
    fn fold_candidates(&self, mut pass: Pass) -> Result<Option<Pass>> {
        loop {
            let (found, next) = self.with_view(|view| candidates(view.conn, pass.till, pass.at))?;
            let mut found = Vec::from_iter(found);
            while !found.is_empty() {
                let left = self.pass_step(pass, "fold-candidates", move |conn, turn| {
                    while let Some(ino) = found.pop() {
                        fold::add_node(conn, ino)?;
                        if turn.is_over() {
                            break;
                        }
                    }
                    Ok(found)
                })?;
                let Some(left) = left else { return Ok(None) };
                found = left;
            }
            let Some(next) = next else { break };
            let Some(moved) = self.go_on(pass, Pass { at: next, ..pass })? else { return Ok(None) };
            pass = moved;
        }
        let take = move |conn: &Connection, turn: &mut Turn| take_replaced(conn, pass.till, turn);
        loop {
            match self.pass_step(pass, "fold-candidates", take)? {
                None => return Ok(None),
                Some(true) => {}
                Some(false) => return self.go_on(pass, pass.begin(Phase::Names, 0)),
            }
        }
    }

    /// Removes the rows that `find` returns after the key `after`, in order of their forks. They are found on
    /// readers: a fork may also have any number of rows that stay, which each page goes on after. Returns
    /// false if the pass is no longer in this phase.
    fn fold_keys<K: Clone + Send + 'static>(
        &self,
        mut pass: Pass,
        failpoint: &'static str,
        (mut after, find): (K, impl Fn(&Connection, u64, &K, usize) -> DbResult<Vec<K>>),
        fork_of: impl Fn(&K) -> u64,
        remove: impl Fn(&Connection, &K) -> DbResult<()> + Copy + Send + 'static,
    ) -> Result<bool> {
        loop {
            let mut keys = self.with_view(|view| find(view.conn, pass.till, &after, KEYS))?;
            let is_last = keys.len() < KEYS;
            if let Some(last) = keys.last() {
                after = last.clone();
                pass.at = fork_of(last);
            }
            loop {
                let left = self.pass_step(pass, failpoint, move |conn, turn| {
                    while let Some(key) = keys.pop() {
                        remove(conn, &key)?;
                        if turn.is_over() {
                            break;
                        }
                    }
                    if keys.is_empty() {
                        fold::put(conn, pass)?;
                    }
                    Ok(keys)
                })?;
                let Some(left) = left else { return Ok(false) };
                keys = left;
                if keys.is_empty() {
                    break;
                }
            }
            if is_last {
                return Ok(true);
            }
        }
    }

    fn fold_nodes(&self, pass: Pass, collected: &mut Collected) -> Result<Option<Pass>> {
        loop {
            let now = self.inner.runtime.env().now().0;
            let remove =
                move |conn: &Connection, turn: &mut Turn| remove_versions(conn, pass.till, now, turn);
            let Some((removed, more)) = self.pass_step(pass, "fold-nodes", remove)? else { return Ok(None) };
            removed.count_in(collected);
            if !more {
                break;
            }
        }
        // The row of the commit that the last pass ended with is still in the log.
        let folded = self.with_view(|view| Ok(head::get(view.conn)?.folded))?;
        self.go_on(pass, pass.begin(Phase::Log, folded.saturating_sub(1)))
    }

    /// Removes the commits from the log and ends the pass. Returns their number; `None` if the pass is no
    /// longer in this phase.
    fn fold_log(&self, pass: Pass) -> Result<Option<u64>> {
        loop {
            match self.pass_step(pass, "fold-log", remove_commits)? {
                None => return Ok(None),
                Some(true) => {}
                Some(false) => break,
            }
        }
        self.pass_step(pass, "fold-end", move |conn, _| {
            let before = head::get(conn)?.folded;
            head::set_folded(conn, pass.till)?;
            fold::end(conn)?;
            Ok(pass.till.saturating_sub(before))
        })
    }
}

/// Returns the pass to go on with, if `read`, the first state that somebody still reads, and the grace period
/// allow that.
fn begin(conn: &Connection, read: Option<u64>, times: Times) -> DbResult<Option<Pass>> {
    let head = head::get(conn)?;
    let state = PastState {
        oldest: head.oldest,
        oldest_since: head::oldest_since(conn)?,
        folded: head.folded,
        pass: fold::get(conn)?,
        // Merging finds the files that were written by the log.
        limit: head::merged(conn)?,
        read,
    };
    let mut next = state.next_pass(times.now, times.removed_before);
    if head.folded < head::queued(conn)? {
        // Before the queue of replaced nodes, the search is by inode.
        next = next.by_inode();
    }
    if let Some(pass) = next.write {
        fold::put(conn, pass)?;
    }
    Ok(next.go_on)
}

/// Returns nodes that may have ended versions, and the place to continue from; `None` if these are the last.
fn candidates(conn: &Connection, till: u64, at: u64) -> DbResult<(BTreeSet<u64>, Option<u64>)> {
    let head = head::get(conn)?;
    if head.folded < head::queued(conn)? {
        let Some(first) = nodes::next_ino(conn, at)? else { return Ok((BTreeSet::new(), None)) };
        let last = first.saturating_add(INODES).min(MAX);
        return Ok((BTreeSet::from_iter(nodes::with_past(conn, first - 1, last)?), Some(last)));
    }
    let last = commit_log::last_of_next(conn, at, COMMITS)?.map(|last| last.min(till));
    let Some(last) = last.filter(|last| *last > at) else { return Ok((BTreeSet::new(), None)) };
    Ok((changed_nodes(conn, at, last)?, Some(last)))
}

/// Returns the nodes of which the commits after `after` up to `last` ended a version, as far as the log names
/// them.
pub(super) fn changed_nodes(conn: &Connection, after: u64, last: u64) -> DbResult<BTreeSet<u64>> {
    let changes = commit_log::changes_between(conn, after, last)?;
    Ok(fold_pass::changed_nodes(changes.iter().map(String::as_str)))
}

/// Adds the nodes that the log does not name. Returns true if there are more.
fn take_replaced(conn: &Connection, till: u64, turn: &mut Turn) -> DbResult<bool> {
    loop {
        let found = replaced::between(conn, (0, 0), till, PIECE)?;
        let Some(last) = found.last() else { return Ok(false) };
        for (_, ino) in &found {
            fold::add_node(conn, *ino)?;
        }
        replaced::remove_until(conn, *last)?;
        if turn.is_over() {
            return Ok(true);
        }
    }
}

/// Removes the ended versions of the nodes that were found, and marks the nodes that no readable state shows.
/// Returns what it removed, and true if there are more.
fn remove_versions(conn: &Connection, till: u64, now: i64, turn: &mut Turn) -> DbResult<(RemovedPast, bool)> {
    let mut removed = RemovedPast::default();
    while let Some(ino) = fold::next_node(conn)? {
        if nodes::links_at(conn, ino, till)? == Some(0) {
            // No readable state shows it. A later run removes all of it, once nobody has it open: handles see
            // the version that had a name. Marked now, so that the next run need not be one that only marks.
            leases::put_marked(conn, ino, now)?;
        } else {
            while remove_ended(conn, ino, till, &mut removed)? {
                if turn.is_over() {
                    return Ok((removed, true));
                }
            }
        }
        fold::remove_node(conn, ino)?;
        if turn.is_over() {
            return Ok((removed, true));
        }
    }
    Ok((removed, false))
}

/// Removes some of the extents, versions and attributes of a node that ended at or before commit `till`, and
/// counts them. Returns true if there may be more.
pub(super) fn remove_ended(
    conn: &Connection,
    ino: u64,
    till: u64,
    removed: &mut RemovedPast,
) -> DbResult<bool> {
    let ended = extents::ended_until(conn, ino, till, PIECE)?;
    if !ended.is_empty() {
        removed.remove_extents(conn, ino, &ended)?;
        return Ok(true);
    }
    let versions = nodes::fold_before(conn, ino, till, PIECE)?;
    removed.versions += versions as u64;
    // Attributes last: a version must not refer to some that are removed.
    if versions > 0 || nodes::fold_attributes(conn, ino, till, PIECE)? > 0 {
        return Ok(true);
    }
    content_gone::remove_until(conn, ino, till)?;
    Ok(false)
}

/// Removes commits from the log, and keeps who made them. Returns true if there are more.
fn remove_commits(conn: &Connection, turn: &mut Turn) -> DbResult<bool> {
    let Some(mut pass) = fold::get(conn)? else { return Ok(false) };
    let mut spans = Spans::begin(conn)?;
    loop {
        let removed = commit_log::remove_before(conn, pass.at, pass.till, PIECE, &mut |seq, author| {
            spans.push(conn, seq, author)
        })?;
        let Some(last) = removed else { return Ok(false) };
        pass.at = last;
        fold::put(conn, pass)?;
        if turn.is_over() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::executor::block_on;

    use super::*;
    use crate::engine::sqlite::maintain::sample_account::{SampleAccount, at, keeping_commits};
    use crate::engine::sqlite::tables::past_leases;
    use crate::error::ErrorKind;
    use crate::fs::FileSystem as _;
    use crate::model::{ByteRange, Moment, Op, Seq};
    use crate::runtime::failpoint::Failure;

    /// Returns an account of 20 commits, one a second, which keeps the last `commits`.
    fn account(commits: u64) -> SampleAccount {
        let account = SampleAccount::new();
        for n in 0..10 {
            let write = Op::write(at(&format!("/d/{n}/f")), format!("{n}")).with_parents();
            account.clock.advance(Duration::from_secs(1));
            account.commit([write, Op::write(at("/f"), format!("{n}"))]);
            let change = if n % 3 == 0 { Op::remove_tree(at("/d")) } else { Op::append(at("/f"), "more") };
            account.clock.advance(Duration::from_secs(1));
            account.commit([change]);
        }
        account.retain(keeping_commits(commits));
        account
    }

    /// Collects twice, and returns the number of commits removed. The second run removes nodes.
    fn gc(account: &SampleAccount) -> u64 {
        let folded = account.collect_at_once().folded;
        account.collect_at_once();
        account.assert_sound();
        folded
    }

    /// Returns the number of versions that no readable state shows.
    fn left_over(account: &SampleAccount) -> u64 {
        account.count(
            "SELECT count(*) FROM node, head WHERE EXISTS (SELECT 1 FROM node AS later
                 WHERE later.ino = node.ino AND later.seq > node.seq AND later.seq <= folded)",
        )
    }

    #[test]
    fn all_ended_versions_are_found() {
        for commits in 0..20 {
            let account = account(commits);
            assert_eq!(gc(&account), 20 - commits);
            assert_eq!(left_over(&account), 0, "{commits} are kept");
        }
    }

    #[test]
    fn versions_from_before_an_upgrade_are_found() {
        for queued in [10, 20] {
            let account = account(3);
            // As the upgrade leaves it: nothing is queued of the commits before.
            account
                .fs
                .step(move |conn, _| {
                    conn.execute("UPDATE head SET queued = ?1", [queued])?;
                    Ok(conn.execute("DELETE FROM replaced WHERE seq <= ?1", [queued])?)
                })
                .unwrap();
            assert_eq!(gc(&account), 17);
            assert_eq!(left_over(&account), 0);
        }
    }

    #[test]
    fn clock_that_was_ahead_keeps_no_rows() {
        let account = account(1);
        account.fs.step(|conn, _| head::raise_oldest(conn, 19, i64::MAX / 2)).unwrap();
        assert_eq!(gc(&account), 19);
    }

    #[test]
    fn leased_state_keeps_its_rows() {
        let account = account(2);
        let until = account.now().plus_seconds(600).0;
        account.fs.step(move |conn, _| past_leases::put(conn, &[1; 16], 5, until)).unwrap();
        assert_eq!(gc(&account), 5, "up to the state that is read");
        assert_eq!(gc(&account), 0);
        account.fs.step(|conn, _| past_leases::remove(conn, &[1; 16], 5)).unwrap();
        assert_eq!(gc(&account), 13);
        assert_eq!(left_over(&account), 0);
    }

    #[test]
    fn view_without_lease_never_shows_half_a_state() {
        let account = account(2);
        let other = account.other();
        // Another process, whose lease has run out.
        let view = block_on(other.as_of(&Moment::Seq(Seq(5)))).unwrap();
        let read = || block_on(view.read(&at("/d/1/f"), ByteRange::ALL));
        assert_eq!(read().unwrap(), "1");
        account.fs.inner.runtime.failpoints().arm("fold-nodes", Failure::Io, 0);
        account.fs.collect(Duration::ZERO).unwrap_err();
        assert!(read().unwrap_err().is(ErrorKind::Gone), "some rows are removed");
        assert_eq!(gc(&account), 18);
        assert!(read().unwrap_err().is(ErrorKind::Gone));
    }

    #[test]
    fn removed_file_stays_while_it_is_open() {
        let account = account(0);
        let held = block_on(account.fs.open(&at("/f"))).unwrap();
        account.commit([Op::remove_file(at("/f"))]);
        assert_eq!(gc(&account), 21);
        assert_eq!(block_on(held.read_at(0, 100)).unwrap(), "9");
        let rows = account.count("SELECT count(*) FROM node");
        drop(held);
        gc(&account);
        assert!(account.count("SELECT count(*) FROM node") < rows);
        assert_eq!(account.count("SELECT count(*) FROM extent"), 0);
    }

    #[test]
    fn collection_leaves_a_pass_that_another_one_ended() {
        let account = account(5);
        let now = account.now();
        let times = Times::new(now, Duration::ZERO);
        account.fs.announce(now, true).unwrap();
        account.fs.step(|conn, _| head::set_merged(conn, 20)).unwrap();
        let stale = account.fs.begin_pass(times).unwrap().unwrap();
        assert_eq!((stale.till, stale.phase), (15, Phase::Candidates));
        assert_eq!(gc(&account), 15);
        for phase in [Phase::Candidates, Phase::Names, Phase::Times, Phase::Nodes] {
            let next = account.fs.fold_phase(stale.begin(phase, 0), &mut Collected::default()).unwrap();
            assert_eq!(next, None, "{phase:?}");
        }
        assert_eq!(account.fs.fold_log(stale.begin(Phase::Log, 0)).unwrap(), None);
        assert_eq!(account.count("SELECT count(*) FROM fold"), 0);
        account.assert_sound();
    }
}
