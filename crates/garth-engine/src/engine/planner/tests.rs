//! The planner over rows kept in maps: what each operation changes, row by row, and what it refuses. The
//! contract suite shows the same from outside, where a row too many is not seen.

mod content;
mod copy;
mod names;
mod order;
mod rounds;
mod store;

use self::store::{Applied, Store};
use super::*;
use crate::model::{SetAttrs, Within};
use crate::path::TreePath;

/// A path of the tree.
fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

/// A tree in which these operations were committed, each on its own.
fn tree(ops: impl IntoIterator<Item = Op>) -> Store {
    let mut store = Store::new();
    for op in ops {
        store.run([op]);
    }
    store
}

/// Attributes that let an entry expire at `time`. Commit `n` of a [`Store`] has the time `10 n`.
fn expires(time: i64) -> SetAttrs {
    SetAttrs::new().expires_at(Timestamp(time))
}

/// Extents that a batch ended (offset and length) and added (offset, length, chunk, skip).
type Extents = (Vec<(u64, u64)>, Vec<(u64, u64, u64, u64)>);

fn extents(delta: &Delta, ino: u64) -> Extents {
    let Some(change) = delta.extents.get(&ino) else { return Extents::default() };
    let closed = change.closed.values().map(|row| (row.off, row.len));
    let added = change.added.values().map(|row| (row.off, row.len, row.chunk, row.skip));
    (closed.collect(), added.collect())
}

/// Kinds of the changes that the log keeps, with their paths.
fn logged(delta: &Delta) -> Vec<(ChangeKind, Option<String>)> {
    let path = |change: &LogChange| change.path.as_ref().map(|path| path.as_str().to_owned());
    delta.log.iter().map(|change| (change.kind.clone(), path(change))).collect()
}
