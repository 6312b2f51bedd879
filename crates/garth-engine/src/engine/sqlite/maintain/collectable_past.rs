//! Report of what a garbage collection would remove of the past and of old content. It walks over all nodes
//! in pieces, each in a transaction of its own, as `usage` does: memory does not grow with the account.

use std::collections::BTreeSet;

use crate::engine::relational::collectable_past::NodePast;
use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::maintain::content_age::{Search, would_mark};
use crate::engine::sqlite::maintain::holds;
use crate::engine::sqlite::maintain::step::Times;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{content_gone, extents, nodes};
use crate::env::Env;
use crate::error::Result;
use crate::fs::store::Collectable;
use crate::sqlite::DbResult;

/// Nodes of a piece. Few in tests, so that they cross the border of a piece.
const NODES: usize = if cfg!(test) { 3 } else { 256 };

/// A collection to come.
struct Collection<'a> {
    env: &'a Env,
    /// First commit whose state it leaves readable.
    oldest: u64,
    /// Search for old content, if any goes.
    search: Option<&'a Search>,
    /// States that open views of the past show.
    read: BTreeSet<u64>,
}

impl SqliteFs {
    /// Adds the versions and the content that a collection would remove, with its first readable commit
    /// `report.oldest`.
    pub(super) fn count_past(&self, times: Times, report: &mut Collectable) -> Result<()> {
        let (env, oldest) = (self.inner.runtime.env(), report.oldest);
        let search = self.content_search(times.now, oldest)?;
        let has_marks = self.with_view(|view| Ok(content_gone::first_mark(view.conn)?.is_some()))?;
        if oldest == 0 && search.is_none() && !has_marks {
            return Ok(());
        }
        let mut after = 0;
        loop {
            let (counted, last) = self.whole().with_view(|view| {
                let read = holds::all_read(view.conn, &self.inner.pasts, times.now)?;
                let collection = Collection { env, oldest, search: search.as_ref(), read };
                let (inos, mut counted) = (nodes::inos_after(view.conn, after, NODES)?, *report);
                for ino in &inos {
                    count_node(view, &collection, *ino, &mut counted)?;
                }
                Ok((counted, inos.last().copied()))
            })?;
            *report = counted;
            let Some(last) = last else { return Ok(()) };
            after = last;
        }
    }
}

/// Counts what goes of a node. The view reaches the whole account.
fn count_node(
    view: &ReadView<'_>,
    collection: &Collection<'_>,
    ino: u64,
    report: &mut Collectable,
) -> DbResult<()> {
    let (conn, Collection { env, oldest, search, read }) = (view.conn, collection);
    let found = match search {
        Some(search) => would_mark(view, search, read, ino, env)?,
        None => Vec::new(),
    };
    report.contents += found.len() as u64;
    let mut spans = content_gone::all_of(conn, ino)?;
    spans.extend(found);
    let past = NodePast::new(spans, nodes::last_unlink(conn, ino)?, *oldest);
    extents::each_span(conn, ino, past.has_no_name(), &mut |since, till, len| {
        past.count_extent((since, till, len), report);
    })?;
    let (last, stays) = past.counted_versions();
    report.ended_versions += nodes::count_until(conn, ino, last)?.saturating_sub(stays);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::executor::block_on;

    use super::*;
    use crate::engine::sqlite::maintain::sample_account::{GRACE, SampleAccount, at, keeping_content};
    use crate::fs::AccountStore as _;
    use crate::fs::store::Collected;
    use crate::model::{Op, SetAttrs};
    use crate::rule::retention::Retention;

    /// Returns an account with 20 commits, one a second: to `/f`, to `/off/a` and `/off/b`, whose old content
    /// is not kept, to attributes and directories. Commit 5 removes `/off/b`, commit 15 `/d`.
    fn account(commits: Option<u64>) -> SampleAccount {
        let account = SampleAccount::new();
        for n in 1..=20 {
            let mut ops = vec![
                Op::write(at("/f"), "f".repeat(n)),
                Op::write(at("/off/a"), "a".repeat(n)).with_parents(),
                Op::append(at("/log"), "line\n"),
                Op::set_attrs(at("/log"), SetAttrs::new().tags([format!("{n}")])),
            ];
            if n < 5 {
                ops.push(Op::write(at("/off/b"), "b".repeat(n)));
            } else if n == 5 {
                ops.push(Op::remove(at("/off/b")));
            }
            if n < 15 {
                ops.push(Op::write(at(&format!("/d/{n}/e")), "e").with_parents());
            } else if n == 15 {
                ops.push(Op::remove_tree(at("/d")));
            }
            account.clock.advance(Duration::from_secs(1));
            account.commit(ops);
        }
        account.retain(Retention { commits, ..keeping_content(&[("/off/**", 0)]) });
        account
    }

    fn would(report: &Collectable) -> [u64; 5] {
        let Collectable { folded, ended_versions, ended_bytes, contents, content_bytes, .. } = *report;
        [folded, ended_versions, ended_bytes, contents, content_bytes]
    }

    fn did(report: &Collected) -> [u64; 5] {
        let Collected { folded, ended_versions, ended_bytes, contents, content_bytes, .. } = *report;
        [folded, ended_versions, ended_bytes, contents, content_bytes]
    }

    #[test]
    fn dry_run_counts_what_collections_then_remove() {
        for commits in [None, Some(20), Some(17), Some(12), Some(3), Some(0)] {
            let account = account(commits);
            let before = would(&account.fs.collectable(GRACE).unwrap());
            let mut removed = [0; 5];
            // Runs mark content, remove it and the past, then nodes that nobody has open.
            for _ in 0..5 {
                let collected = did(&account.collect_and_wait());
                removed.iter_mut().zip(collected).for_each(|(sum, more)| *sum += more);
            }
            assert_eq!(before, removed, "{commits:?} are kept");
            assert_eq!(would(&account.fs.collectable(GRACE).unwrap()), [0; 5]);
            assert!(before[3] > 0 && before[4] > 0, "{before:?}");
        }
    }

    #[test]
    fn dry_run_counts_marked_content_until_it_is_removed() {
        let account = account(Some(12));
        let [folded, versions, bytes, contents, content_bytes] =
            would(&account.fs.collectable(GRACE).unwrap());
        assert_eq!(account.collect().contents, contents);
        let after = would(&account.fs.collectable(GRACE).unwrap());
        assert_eq!(after, [folded, versions, bytes, 0, content_bytes]);
    }

    #[test]
    fn dry_run_counts_content_of_several_searches_once() {
        let account = account(None);
        let before = would(&account.fs.collectable(GRACE).unwrap());
        let mut set = block_on(account.fs.retention()).unwrap().set;
        set.content.extend(keeping_content(&[("/other", 60)]).content);
        account.retain(set);
        account.clock.advance(Duration::from_secs(2 * 60));
        assert_eq!(would(&account.fs.collectable(GRACE).unwrap()), before);
        assert_eq!(account.collect().contents, before[3]);
    }
}
