//! Sets the retention of an account, for operators. `gc` removes the past.

use crate::engine::relational::open_pasts::OpenPasts;
use crate::engine::relational::retention::{self as shared, Past};
use crate::engine::sqlite::commit::stored;
use crate::engine::sqlite::control;
use crate::engine::sqlite::maintain::holds;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{commit_log, head, retention};
use crate::fs::store::RetentionState;
use crate::model::Timestamp;
use crate::path::TreePath;
use crate::rule::Registry;
use crate::rule::retention::Retention;
use crate::sqlite::DbResult;

/// Sets the retention. `gc` then searches the log again for old content of the ages that end more than
/// before. Fails with `Conflict` unless the retention is still the `expected` one. `view` is one of the write
/// transaction.
pub(crate) fn set(
    view: &ReadView<'_>,
    registry: &Registry,
    expected: Option<&Retention>,
    to: &Retention,
) -> DbResult<()> {
    let conn = view.conn;
    let kind_of = |path: &TreePath| -> DbResult<_> { Ok(view.lookup(path)?.map(|node| node.kind)) };
    for age in shared::check_change(&retention::get(conn)?, expected, to, kind_of)? {
        retention::search_again(conn, age)?;
    }
    retention::put(conn, to)?;
    control::changed(conn, registry)
}

/// Returns the retention, and how far the past is gone. `open` are the commits whose states views of this
/// process show.
pub(crate) fn state(view: &ReadView<'_>, open: &OpenPasts) -> DbResult<RetentionState> {
    let (conn, now) = (view.conn, Timestamp(view.time));
    let head = head::get(conn)?;
    let set = retention::get(conn)?;
    let oldest_time = match head.oldest {
        0 => 0,
        oldest => commit_log::moment(conn, oldest)?,
    };
    let until = |time| commit_log::last_until(conn, time, head.oldest, head.seq);
    let allowed = set.oldest(head.seq, now, None, until)?;
    let past = Past {
        head,
        oldest_time,
        allowed,
        kept: holds::first_kept(view)?,
        read: holds::all_read(conn, open, now)?.first().copied(),
        stored: stored::used(conn)?,
    };
    shared::state(set, past, |path| Ok(view.lookup(path)?.map(|node| node.kind)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::executor::block_on;

    use super::*;
    use crate::engine::sqlite::SqliteFs;
    use crate::env::Env;
    use crate::error::ErrorKind;
    use crate::fs::{AccountStore as _, FileSystem as _};
    use crate::model::{Op, Seq};
    use crate::rule::PathPattern;
    use crate::rule::retention::{ContentLimit, Keep};

    #[test]
    fn retention_is_stored_and_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let open = || SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let fs = open();
        let state = block_on(fs.retention()).unwrap();
        assert_eq!((state.set, state.oldest, state.oldest_time), (Retention::default(), Seq(0), None));
        let day = Duration::from_secs(86_400);
        let limit = ContentLimit { pattern: PathPattern::parse("/notes/**").unwrap(), keep: day };
        let set = Retention {
            age: Some(7 * day),
            commits: Some(1000),
            stored: Some(1 << 30),
            content: vec![limit],
        };
        assert_eq!(block_on(fs.set_retention(set.clone())).unwrap().set, set);
        let wrong = Retention { commits: Some(u64::MAX), ..set.clone() };
        assert!(block_on(fs.set_retention(wrong)).unwrap_err().is(ErrorKind::InvalidArgument));
        let in_force = |fs: &SqliteFs| {
            let control = fs.with_view(|view| {
                let version = head::get(view.conn)?.control;
                fs.inner.control.at(view.conn, version)
            });
            control.unwrap()
        };
        let note = TreePath::parse("/notes/a").unwrap();
        let control = in_force(&fs);
        assert_eq!(*control.retention, set);
        assert_eq!(control.limits.keep_of([&note]), Keep::For(day));
        drop(fs);
        let fs = open();
        assert_eq!(block_on(fs.retention()).unwrap().set, set);
        assert_eq!(*in_force(&fs).retention, set);
    }

    #[test]
    fn change_of_other_limits_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let before = block_on(fs.retention()).unwrap().set;
        let with = |commits| Retention { commits, ..before.clone() };
        let replace = |from: &Retention, to| block_on(fs.replace_retention(from.clone(), to));
        let reversed =
            Retention { content: before.content.iter().rev().cloned().collect(), ..before.clone() };
        replace(&reversed, with(Some(1))).unwrap();
        assert!(replace(&before, with(Some(2))).unwrap_err().is(ErrorKind::Conflict));
        assert_eq!(block_on(fs.retention()).unwrap().set, with(Some(1)));
        assert_eq!(replace(&with(Some(1)), with(Some(2))).unwrap().set, with(Some(2)));
    }

    #[test]
    fn class_that_became_a_directory_may_stay() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let path = TreePath::parse("/cache").unwrap();
        let limit = ContentLimit { pattern: PathPattern::parse("/cache").unwrap(), keep: Duration::ZERO };
        let set = Retention { content: vec![limit], ..Retention::default() };
        block_on(fs.set_retention(set.clone())).unwrap();
        block_on(fs.commit(Op::mkdir(&path).into())).unwrap();
        let more = Retention { commits: Some(9), ..set.clone() };
        assert_eq!(block_on(fs.replace_retention(set.clone(), more.clone())).unwrap().set, more);
        block_on(fs.set_retention(Retention::default())).unwrap();
        let again = block_on(fs.replace_retention(Retention::default(), set)).unwrap_err();
        assert!(again.is(ErrorKind::InvalidArgument), "{again}");
    }

    #[test]
    fn limit_below_the_stored_bytes_is_set_and_reported() {
        let folder = tempfile::tempdir().unwrap();
        let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
        let with = |stored| {
            let set = Retention { stored, ..Retention::default() };
            block_on(fs.set_retention(set)).unwrap()
        };
        assert_eq!(with(None).over_limit(), 0, "no limit");
        assert_eq!(with(Some(1 << 30)).over_limit(), 0);
        let stored = block_on(fs.usage(&TreePath::root())).unwrap().stored();
        let limit = stored - 1000;
        let limited = with(Some(limit));
        let stored = block_on(fs.usage(&TreePath::root())).unwrap().stored();
        assert_eq!((limited.set.stored, limited.over_limit()), (Some(limit), stored - limit));
        assert!(stored <= 300_000, "documented for an empty account: {stored}");
    }

    #[test]
    fn new_tree_begins_with_limits_of_its_registry() {
        let folder = tempfile::tempdir().unwrap();
        let limit = ContentLimit { pattern: PathPattern::parse("/off/**").unwrap(), keep: Duration::ZERO };
        let registry = Registry::empty().limiting_content(vec![limit.clone()]);
        let open = || SqliteFs::open(folder.path(), Env::system(), registry.clone()).unwrap();
        let fs = open();
        assert_eq!(block_on(fs.retention()).unwrap().set.content, [limit]);
        let limits = fs.with_view(|view| {
            let version = head::get(view.conn)?.control;
            Ok(fs.inner.control.at(view.conn, version)?.limits)
        });
        let file = TreePath::parse("/off/a").unwrap();
        assert_eq!(limits.unwrap().keep_of([&file]), Keep::For(Duration::ZERO), "in force");
        block_on(fs.set_retention(Retention::default())).unwrap();
        drop(fs);
        assert_eq!(block_on(open().retention()).unwrap().set, Retention::default(), "removed for good");
    }

    #[test]
    fn stricter_limits_search_the_log_again() {
        let folder = tempfile::tempdir().unwrap();
        let registry = crate::rule::sample::registry();
        let fs = SqliteFs::open(folder.path(), Env::system(), registry.clone()).unwrap();
        let limit = |pattern: &str, seconds| ContentLimit {
            pattern: PathPattern::parse(pattern).unwrap(),
            keep: Duration::from_secs(seconds),
        };
        let set_with = |content| {
            let (registry, to) = (registry.clone(), Retention { content, ..Retention::default() });
            let same = Arc::clone(&fs);
            fs.step(move |conn, _| set(&same.view_on(conn, None)?, &registry, None, &to)).unwrap();
        };
        let ages = [0, 60, 3600].map(Duration::from_secs);
        set_with(vec![limit("/a", 60), limit("/b", 3600)]);
        fs.step(move |conn, _| ages.iter().try_for_each(|age| retention::set_searched(conn, *age, 9)))
            .unwrap();
        set_with(vec![limit("/a", 60), limit("/b", 60)]);
        let searched = fs.with_view(|view| {
            let of = |at: usize| retention::searched(view.conn, ages[at]);
            Ok([of(0)?, of(1)?, of(2)?])
        });
        assert_eq!(searched.unwrap(), [9, 0, 9]);
    }
}
