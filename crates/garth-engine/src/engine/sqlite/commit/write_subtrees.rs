//! Writes the changes of whole subtrees, range by range and a bounded number of rows at a time, so that
//! memory does not grow with the names in them.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::engine::planner::{ChangedNodes, Delta, HeadRow, NameRow, Region, node_write};
use crate::engine::sqlite::projections::{self, has_keys};
use crate::engine::sqlite::tables::names_of_node::{self, CommitSpan};
use crate::engine::sqlite::tables::{expiry, live_names, nodes, past_names, replaced};
use crate::model::{Kind, Within};
use crate::rule::Registry;
use crate::sqlite::DbResult;
use crate::text::Edit;

/// Names read at a time. Small in tests, so that they cross the border of a piece.
const PIECE: usize = if cfg!(test) { 3 } else { 1000 };

/// Callback for each file that has lost its last name.
pub(crate) type OnFileEnded<'a> = dyn FnMut(u64, Edit) -> DbResult<()> + 'a;

/// Writes the ranges of a delta. Its single rows are written afterwards.
pub(crate) fn write(
    conn: &Connection,
    delta: &Delta,
    head: &HeadRow,
    (registry, changed): (&Registry, &mut ChangedNodes),
    ended: &mut OnFileEnded<'_>,
) -> DbResult<()> {
    // While all names are still where they were: a node looks its other names up to count the lost ones.
    for region in delta.subtrees.lost() {
        each_piece(conn, region, &mut |names| lose(conn, delta, region, head, &names, ended))?;
    }
    live_names::make_arriving(conn)?;
    for region in delta.subtrees.left() {
        each_piece(conn, &region, &mut |names| {
            leave(conn, delta, head.seq, (registry, &mut *changed), names)
        })?;
    }
    live_names::settle_arriving(conn, head.seq)
}

type Names = Vec<(String, String, NameRow)>;

fn each_piece(
    conn: &Connection,
    region: &Region,
    write: &mut dyn FnMut(Names) -> DbResult<()>,
) -> DbResult<()> {
    for (from, to) in region.ranges() {
        let mut after = (from, String::new());
        loop {
            let names = live_names::after(conn, (&after.0, &after.1), &to, PIECE)?;
            let last = names.len() < PIECE;
            if let Some((dir, name, _)) = names.last() {
                after = (dir.clone(), name.clone());
            }
            write(names)?;
            if last {
                break;
            }
        }
    }
    Ok(())
}

/// Takes names from their nodes, except from nodes that the batch changed in other ways: their rows have the
/// new counts.
fn lose(
    conn: &Connection,
    delta: &Delta,
    region: &Region,
    head: &HeadRow,
    names: &[(String, String, NameRow)],
    ended: &mut OnFileEnded<'_>,
) -> DbResult<()> {
    let lost = names.iter().filter(|(dir, name, _)| region.contains(dir, name));
    let lost: BTreeSet<u64> = lost.map(|(_, _, row)| row.ino).collect();
    for ino in lost.into_iter().filter(|ino| !delta.nodes.contains_key(ino)) {
        let Some(before) = nodes::newest(conn, ino)? else { continue };
        let mut node = before.row.clone();
        if node.seq == head.seq {
            // Another name of the node was in an earlier piece, which has counted all of its losses.
            continue;
        }
        if node.kind == Kind::Directory || node.nlink == 1 {
            node.lose_names(1, (head.seq, head.time));
        } else {
            // It may keep names elsewhere. Its losses are counted for each operation that removed some, in
            // their order.
            let names =
                names_of_node::in_span(conn, ino, CommitSpan::NOW, &Within::everything(), usize::MAX)?;
            for names in delta.subtrees.losses(&names, 0) {
                node.lose_names(names, (head.seq, head.time));
            }
        }
        nodes::put(conn, &node, &node_write(Some(&before), &node))?;
        // The log has the subtree, not the nodes in it.
        replaced::put(conn, head.seq, ino)?;
        if node.nlink == 0 {
            if node.expires_at.is_some() {
                expiry::remove(conn, ino)?;
            }
            if has_keys(&node) {
                projections::forget(conn, ino)?;
            }
            if node.kind == Kind::File {
                ended(ino, Edit::replace(node.size, node.size))?;
            }
        }
    }
    Ok(())
}

/// Ends names where they are and writes them at their new places. A name whose new place is still occupied by
/// one that has not left waits in a temporary table.
fn leave(
    conn: &Connection,
    delta: &Delta,
    seq: u64,
    (registry, changed): (&Registry, &mut ChangedNodes),
    names: Names,
) -> DbResult<()> {
    let mut mover = live_names::Mover::new(conn)?;
    let mut now: (String, Option<String>, bool) = (String::new(), None, false);
    for (dir, name, row) in names {
        // The names of a piece are in order of directories: the new place is looked up once for each.
        if now.0 != dir {
            let to = delta.subtrees.now(&dir);
            let waits = to.as_ref().is_some_and(|to| delta.subtrees.has_moved_away(to));
            now = (dir.clone(), to, waits);
        }
        past_names::end(conn, (&dir, &name), &row, seq)?;
        // A place that the batch also wrote by name is left to the delta, which comes later and wins.
        let kept = now.1.as_ref().filter(|to| !delta.names.contains_key(&((*to).clone(), name.clone())));
        changed.moved(registry, &row, &name, &dir, kept.map(String::as_str));
        match (kept, now.2) {
            (Some(to), false) => mover.rename(&dir, &name, to, seq)?,
            (Some(to), true) => mover.wait(&dir, &name, to, &row)?,
            (None, _) => mover.remove(&dir, &name)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use crate::engine::sqlite::SqliteFs;
    use crate::env::Env;
    use crate::fs::{FileSystem, FileSystemExt};
    use crate::model::{Batch, Op, SearchQuery, SetAttrs};
    use crate::path::TreePath;

    fn at(path: &str) -> TreePath {
        TreePath::parse(path).unwrap()
    }

    /// Pieces have three names here, so that nodes lose theirs in several.
    #[test]
    fn removing_a_subtree_in_pieces_is_atomic() {
        let folder = tempfile::tempdir().unwrap();
        let env = Env::system();
        let fs = SqliteFs::open(folder.path(), env.clone(), crate::rule::sample::registry()).unwrap();
        let expires = SetAttrs::new().expires_at(env.now().plus_seconds(1000));
        let mut ops = vec![
            Op::write(at("/d/0"), "found kept").with_parents(),
            Op::write(at("/d/1"), "found lost").with_attrs(expires),
            Op::link(at("/d/0"), at("/kept")),
        ];
        ops.extend(
            (2..20).map(|number| Op::link(at(&format!("/d/{}", number % 2)), at(&format!("/d/{number}")))),
        );
        ops.extend((0..20).map(|number| Op::write(at(&format!("/d/e/{number}")), "found").with_parents()));
        block_on(fs.commit(Batch::new(ops))).unwrap();
        let [kept, lost] = ["/d/0", "/d/1"].map(|path| block_on(fs.stat(&at(path).into())).unwrap());
        assert_eq!([kept.nlink, lost.nlink], [11, 10]);
        // Held open, so that its last state can be compared after its names are removed.
        let held = block_on(fs.open(&at("/d/1").into())).unwrap();
        let moved = block_on(fs.commit(Op::rename(at("/d"), at("/moved")).into())).unwrap();
        let removed = block_on(fs.commit(Op::remove_tree(at("/moved")).into())).unwrap();
        let after = block_on(fs.stat(&at("/kept").into())).unwrap();
        assert_eq!((after.nlink, after.version.seq, after.ctime), (1, removed.seq, removed.time));
        let after = block_on(held.stat()).unwrap();
        assert_eq!(
            (after.nlink, after.version, after.ctime),
            (0, lost.version, lost.ctime),
            "it ends as it was"
        );
        let hits = block_on(fs.search(&SearchQuery::new("found"))).unwrap().hits;
        assert_eq!(hits.iter().map(|hit| hit.path.as_str()).collect::<Vec<_>>(), ["/kept"]);
        let then = block_on(fs.as_of(&moved.seq.into())).unwrap();
        assert_eq!(block_on(then.read_to_string("/moved/e/19")).unwrap(), "found");
        assert_eq!(fs.check().unwrap().findings, []);
        fs.collect(std::time::Duration::ZERO).unwrap();
        assert_eq!(fs.check().unwrap().findings, []);
    }
}
