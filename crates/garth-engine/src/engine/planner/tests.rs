//! Tests of the planner on rows in maps: the rows that each operation changes, and the operations that it
//! refuses. The contract suite tests the same from outside, where an extra row goes unnoticed.

mod content;
mod copy;
mod derived;
mod group;
mod keys;
mod names;
mod order;
mod rounds;
mod row_store;
mod store;
mod totals;

use self::store::{Applied, Store};
use super::*;
use crate::model::{SetAttrs, Within};
use crate::path::TreePath;

/// Parses a path.
fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

/// Returns a store in which these operations were committed, one commit each.
fn tree(ops: impl IntoIterator<Item = Op>) -> Store {
    let mut store = Store::new();
    for op in ops {
        store.run([op]);
    }
    store
}

/// Returns attributes with an expiry at `time`. Commit `n` of a [`Store`] has the time `10 n`.
fn expires(time: i64) -> SetAttrs {
    SetAttrs::new().expires_at(Timestamp(time))
}

/// Extents that a batch ended (offset, length) and added (offset, length, chunk, skip).
type Extents = (Vec<(u64, u64)>, Vec<(u64, u64, u64, u64)>);

fn extents(delta: &Delta, ino: u64) -> Extents {
    let Some(change) = delta.extents.get(&ino) else { return Extents::default() };
    let closed = change.closed.values().map(|row| (row.off, row.len));
    let added = change.added.values().map(|row| (row.off, row.len, row.chunk, row.skip));
    (closed.collect(), added.collect())
}

/// Returns the kinds of the logged changes, with their paths.
fn logged(delta: &Delta) -> Vec<(ChangeKind, Option<String>)> {
    let path = |change: &LogChange| change.path.as_ref().map(|path| path.as_str().to_owned());
    delta.log.iter().map(|change| (change.kind.clone(), path(change))).collect()
}
