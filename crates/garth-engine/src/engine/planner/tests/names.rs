//! Names that operations end and give, and the effect on their nodes.

use super::*;
use crate::model::MAX_LINKS;

fn paths<const N: usize>(paths: [&str; N]) -> Vec<String> {
    paths.map(str::to_owned).to_vec()
}

/// Creates `/d/a`, `/d/sub/b` and an empty `/e`.
fn nested() -> Store {
    tree([
        Op::write(at("/d/a"), "a").with_parents(),
        Op::write(at("/d/sub/b"), "b").with_parents(),
        Op::mkdir(at("/e")),
    ])
}

#[test]
fn creates_missing_parents_and_counts_their_links() {
    let mut store = Store::new();
    store.run([Op::write(at("/a/b/f"), "x").with_parents()]);
    assert_eq!(store.renamed().1, paths(["/a", "/a/b", "/a/b/f"]));
    assert_eq!(["/", "/a", "/a/b"].map(|path| store.node_of(path).nlink), [3, 3, 2]);
}

#[test]
fn directory_rename_changes_names_and_no_nodes_below() {
    let mut store = nested();
    let moved = store.node_of("/d").ino;
    let Applied { delta, .. } = store.run([Op::rename(at("/d"), at("/e/new"))]);
    assert_eq!(store.renamed().0, paths(["/d", "/d/a", "/d/sub", "/d/sub/b"]));
    assert_eq!(store.renamed().1, paths(["/e/new", "/e/new/a", "/e/new/sub", "/e/new/sub/b"]));
    let mut changed = [Ino::ROOT.0, moved, store.node_of("/e").ino];
    changed.sort_unstable();
    assert_eq!(delta.nodes.keys().copied().collect::<Vec<_>>(), changed, "itself and the two directories");
    assert!(delta.extents.is_empty() && delta.chunks.is_empty());
    assert_eq!(logged(&delta), [(ChangeKind::Renamed { from: at("/d") }, Some("/e/new".to_owned()))]);
    assert_eq!(["/", "/e", "/e/new"].map(|path| store.node_of(path).nlink), [3, 3, 3]);
    assert_eq!(store.content("/e/new/sub/b"), b"b");
}

#[test]
fn change_of_times_alone_adds_no_row() {
    let mut store = nested();
    let ino = store.node_of("/d").ino;
    let mut write = |op| store.run([op]).delta.writes[&ino];
    let ended = |since, till, time| Some(EndedTimes { since, till, time });
    // The last row of `/d` is of the second commit, which created `sub`. Commit `n` has the time `10 n`.
    assert_eq!(write(Op::write(at("/d/x"), "x")), NodeWrite::Times { ended: ended(2, 4, 20) });
    assert_eq!(write(Op::write(at("/d/y"), "y")), NodeWrite::Times { ended: ended(4, 5, 40) });
    let row = |ended, drops_times| NodeWrite::Row { ended, drops_times, replaced: true };
    let mut set = |mode| write(Op::set_attrs(at("/d"), SetAttrs::new().mode(mode)));
    assert_eq!(set(0o700), row(ended(5, 6, 50), true), "the times get a row");
    assert_eq!(set(0o711), row(None, false), "both versions have a row");
    assert_eq!(write(Op::write(at("/d/z"), "z")), NodeWrite::Times { ended: ended(7, 8, 50) });
}

#[test]
fn loss_of_the_last_name_is_recorded() {
    let mut store = Store::new();
    let row = |replaced| NodeWrite::Row { ended: None, drops_times: false, replaced };
    let writes = store.run([Op::write(at("/f"), "f")]).delta.writes;
    let (root, ino) = (Ino::ROOT.0, store.node_of("/f").ino);
    assert_eq!((writes[&root], writes[&ino]), (NodeWrite::Times { ended: None }, row(false)));
    let mut write = |op| store.run([op]).delta.writes[&ino];
    assert_eq!(write(Op::link(at("/f"), at("/g"))), row(false));
    assert_eq!(write(Op::remove(at("/f"))), row(false));
    assert_eq!(write(Op::remove(at("/g"))), row(true));
}

#[test]
fn exchange_swaps_two_names_and_their_subtrees() {
    let mut store = nested();
    store.run([Op::write(at("/f"), "f")]);
    let [dir, file] = ["/d", "/f"].map(|path| store.node_of(path).ino);
    let Applied { delta, .. } = store.run([Op::exchange(at("/d"), at("/f"))]);
    assert_eq!(["/f", "/d"].map(|path| store.node_of(path).ino), [dir, file]);
    assert_eq!(store.renamed().0, paths(["/d", "/f", "/d/a", "/d/sub", "/d/sub/b"]));
    assert_eq!(store.renamed().1, paths(["/d", "/f", "/f/a", "/f/sub", "/f/sub/b"]));
    assert_eq!(store.node_of("/").nlink, 4);
    assert_eq!([dir, file].map(|ino| delta.nodes[&ino].nlink), [3, 1]);
}

#[test]
fn rename_replaces_valid_targets_and_rejects_others() {
    let mut store = nested();
    store.run([Op::write(at("/f"), "f")]);
    let refusals = [
        (Op::rename(at("/"), at("/x")), ErrorKind::Busy),
        (Op::rename(at("/f"), at("/")), ErrorKind::Busy),
        (Op::rename(at("/no"), at("/x")), ErrorKind::NotFound),
        (Op::rename(at("/d"), at("/d/sub/x")), ErrorKind::InvalidArgument),
        (Op::rename(at("/d/a"), at("/d")), ErrorKind::NotEmpty),
        (Op::exchange(at("/d/a"), at("/d")), ErrorKind::InvalidArgument),
        (Op::rename(at("/f"), at("/no/x")), ErrorKind::NotFound),
        (Op::rename(at("/f"), at("/d/a")).no_replace(), ErrorKind::AlreadyExists),
        (Op::exchange(at("/f"), at("/x")), ErrorKind::NotFound),
        (Op::rename(at("/d"), at("/f")), ErrorKind::NotADirectory),
        (Op::rename(at("/f"), at("/e")), ErrorKind::IsADirectory),
        (Op::rename(at("/e"), at("/d")), ErrorKind::NotEmpty),
        (Op::rename(Ino(2), at("/x")), ErrorKind::InvalidArgument),
    ];
    for (op, kind) in refusals {
        assert_eq!(store.refusal([op.clone()]).kind(), kind, "{op:?}");
    }
    let replaced = store.node_of("/d/a").ino;
    let Applied { delta, .. } = store.run([Op::rename(at("/f"), at("/d/a"))]);
    assert_eq!(delta.nodes[&replaced].nlink, 0);
    let kinds: Vec<ChangeKind> = delta.log.iter().map(|change| change.kind.clone()).collect();
    assert_eq!(kinds, [ChangeKind::Removed, ChangeKind::Renamed { from: at("/f") }]);
}

#[test]
fn name_moved_back_within_batch_is_unchanged() {
    let mut store = nested();
    store.run([Op::rename(at("/d"), at("/x")), Op::rename(at("/x"), at("/d"))]);
    assert_eq!(store.renamed(), (vec![], vec![]));
}

#[test]
fn temporary_nodes_leave_no_rows() {
    let mut store = nested();
    let Applied { delta, .. } = store.run([
        Op::write(at("/tmp/f"), "x").with_parents().with_attrs(expires(1000).tags(["t"])),
        Op::remove_tree(at("/tmp")),
    ]);
    assert_eq!(store.renamed(), (vec![], vec![]));
    assert_eq!(delta.nodes.keys().copied().collect::<Vec<_>>(), [Ino::ROOT.0]);
    assert!(delta.attributes.is_empty() && delta.extents.is_empty() && delta.chunks.is_empty());
    assert!(delta.expiry.is_empty() && delta.index.is_empty());
}

#[test]
fn remove_tree_ends_names_and_unlinked_nodes() {
    let mut store = nested();
    store.run([Op::link(at("/d/a"), at("/kept"))]);
    let [kept, lost] = ["/d/a", "/d/sub/b"].map(|path| store.node_of(path));
    let Applied { delta, .. } = store.run([Op::remove_tree(at("/d"))]);
    assert_eq!(store.renamed(), (paths(["/d", "/d/a", "/d/sub", "/d/sub/b"]), vec![]));
    assert_eq!(logged(&delta), [(ChangeKind::Removed, Some("/d".to_owned()))]);
    let after = store.node(kept.ino).unwrap().unwrap();
    assert_eq!((after.nlink, after.ctime), (1, 50), "it has a name outside, and changed");
    let after = store.node(lost.ino).unwrap().unwrap();
    assert_eq!((after.nlink, after.ctime), (0, lost.ctime), "it ends as it was");
    assert_eq!(store.node_of("/").nlink, 3);
}

#[test]
fn remove_rejects_unexpected_kinds() {
    let store = nested();
    let refusals = [
        (Op::remove(at("/")), ErrorKind::Busy),
        (Op::remove_tree(at("/")), ErrorKind::Busy),
        (Op::remove_file(at("/e")), ErrorKind::IsADirectory),
        (Op::remove_dir(at("/d/a")), ErrorKind::NotADirectory),
        (Op::remove_dir(at("/d")), ErrorKind::NotEmpty),
        (Op::remove(at("/d")), ErrorKind::NotEmpty),
        (Op::remove(at("/no")), ErrorKind::NotFound),
        (Op::remove(at("/d/a/x")), ErrorKind::NotADirectory),
    ];
    for (op, kind) in refusals {
        assert_eq!(store.refusal([op.clone()]).kind(), kind, "{op:?}");
    }
    let mut store = store;
    let Applied { delta, commit } = store.run([Op::remove(at("/no")).if_exists()]);
    assert!(delta.nodes.is_empty() && delta.log.is_empty() && !commit.outcomes[0].changed);
}

#[test]
fn emptiness_check_includes_changes_of_the_batch() {
    let mut store = nested();
    let filled = [Op::write(at("/e/x"), "x"), Op::remove_dir(at("/e"))];
    assert_eq!(store.refusal(filled).kind(), ErrorKind::NotEmpty);
    let emptied = [Op::remove(at("/d/sub/b")), Op::remove_dir(at("/d/sub"))];
    store.run(emptied);
    assert_eq!(store.renamed().0, paths(["/d/sub", "/d/sub/b"]));
}

#[test]
fn removing_the_last_hard_link_ends_the_node() {
    let mut store = tree([Op::write(at("/f"), "f"), Op::link(at("/f"), at("/g"))]);
    let node = store.node_of("/f");
    assert_eq!((node.ino, node.nlink, node.ctime, node.mtime), (store.node_of("/g").ino, 2, 20, 10));

    let Applied { delta, .. } = store.run([Op::remove(at("/f"))]);
    let left = &delta.nodes[&node.ino];
    assert_eq!((left.nlink, left.ctime), (1, 30));
    assert!(delta.index.is_empty(), "search still finds it");

    let Applied { delta, .. } = store.run([Op::remove(at("/g"))]);
    let last = &delta.nodes[&node.ino];
    assert_eq!((last.nlink, last.ctime), (0, 30), "to lose the last name is no change of the node");
    assert!(
        delta.index.contains_key(&node.ino) && delta.extents.is_empty(),
        "its content stays for the past"
    );
    assert_eq!(store.refusal([Op::link(Ino(node.ino), at("/h"))]).kind(), ErrorKind::NotFound);
}

#[test]
fn link_rejects_directories_existing_names_and_excess_links() {
    let mut store = nested();
    assert_eq!(store.refusal([Op::link(at("/d"), at("/x"))]).kind(), ErrorKind::NotPermitted);
    assert_eq!(store.refusal([Op::link(at("/d/a"), at("/e"))]).kind(), ErrorKind::AlreadyExists);
    let ino = store.node_of("/d/a").ino;
    store.node_mut(ino).nlink = MAX_LINKS;
    assert_eq!(store.refusal([Op::link(at("/d/a"), at("/x"))]).kind(), ErrorKind::TooManyLinks);
}

#[test]
fn rename_onto_same_node_does_nothing() {
    let mut store = tree([Op::write(at("/f"), "f"), Op::link(at("/f"), at("/g"))]);
    let Applied { delta, commit } = store.run([Op::rename(at("/f"), at("/g"))]);
    assert!(delta.names.is_empty() && delta.log.is_empty() && !commit.outcomes[0].changed);
}

/// Moves, removals and writes of one batch in and around a subtree, and the state at its end.
#[test]
fn later_operations_see_earlier_subtree_changes() {
    let mut store = nested();
    store.run([Op::link(at("/d/a"), at("/kept"))]);
    let [a, b] = ["/d/a", "/d/sub/b"].map(|path| store.node_of(path).ino);
    store.run([
        // Moved twice, written to, partly removed and replaced: each step has to find what those before
        // left.
        Op::rename(at("/d"), at("/m")),
        Op::write(at("/m/new"), "new"),
        Op::remove(at("/m/a")),
        Op::rename(at("/m/sub"), at("/e/sub")),
        Op::append(Ino(b), "!"),
        Op::mkdir(at("/d")),
        Op::write(at("/d/a"), "another"),
        Op::rename(at("/m"), at("/e/sub/m")),
        Op::remove_tree(at("/e/sub/m")),
        Op::exchange(at("/d"), at("/e")),
    ]);
    assert_eq!(store.paths(), ["/d", "/e", "/kept", "/d/sub", "/d/sub/b", "/e/a"]);
    assert_eq!((store.content("/d/sub/b"), store.content("/e/a")), (b"b!".to_vec(), b"another".to_vec()));
    assert_eq!((store.node_of("/kept").ino, store.node_of("/kept").nlink), (a, 1));
    assert_eq!(["/", "/d", "/d/sub", "/e"].map(|path| store.node_of(path).nlink), [4, 3, 2, 2]);
}

#[test]
fn directory_replacing_another_shows_its_own_names() {
    let mut store = nested();
    store.run([Op::write(at("/e/a"), "old"), Op::write(at("/e/sub"), "old")]);
    store.run([Op::remove(at("/e/a")), Op::remove(at("/e/sub")), Op::rename(at("/d"), at("/e"))]);
    assert_eq!(store.paths(), ["/e", "/e/a", "/e/sub", "/e/sub/b"]);
    assert_eq!(store.content("/e/a"), b"a");
    store.run([Op::remove_tree(at("/e")), Op::write(at("/e/a/x"), "x").with_parents()]);
    assert_eq!(store.paths(), ["/e", "/e/a", "/e/a/x"]);
}

#[test]
fn delta_does_not_grow_with_subtree_size() {
    let sizes = [20, 2000].map(|names| {
        let mut store = tree([Op::mkdir(at("/e")), Op::mkdir(at("/d"))]);
        store.run((0..names).map(|number| Op::write(at(&format!("/d/{number}")), "")));
        let held = |delta: &Delta| (delta.names.len(), delta.nodes.len(), delta.index.len(), delta.log.len());
        let moved = held(&store.run([Op::rename(at("/d"), at("/e/d"))]).delta);
        let swapped = held(&store.run([Op::mkdir(at("/x")), Op::exchange(at("/e"), at("/x"))]).delta);
        let removed = held(&store.run([Op::remove_tree(at("/x"))]).delta);
        assert_eq!(store.paths(), ["/e"]);
        (moved, swapped, removed)
    });
    assert_eq!(sizes[0], sizes[1]);
}

#[test]
fn work_is_linear_in_moved_and_removed_trees() {
    let dir = |number: usize| at(&format!("/d/{number}"));
    let longer = |number: usize| at(&format!("/e/longer-{number}"));
    type Ops<'a> = &'a dyn Fn(usize) -> Vec<Op>;
    let batches: [(&str, Ops<'_>); 4] = [
        ("removed", &|many| (0..many).map(|number| Op::remove_tree(dir(number))).collect()),
        ("moved", &|many| (0..many).map(|number| Op::rename(dir(number), longer(number))).collect()),
        ("moved, then removed", &|many| {
            let ops = |number| [Op::rename(dir(number), longer(number)), Op::remove_tree(longer(number))];
            (0..many).flat_map(ops).collect()
        }),
        ("moved, then removed at once", &|many| {
            let moves = (0..many).map(|number| Op::rename(dir(number), longer(number)));
            moves.chain([Op::remove_tree(at("/e"))]).collect()
        }),
    ];
    let stores = [20, 40].map(|many| {
        let mut store = tree([Op::mkdir(at("/e"))]);
        // Each has a file with a name outside, which the batch writes to first.
        store.run((0..many).flat_map(|number| {
            let [file, kept] = [format!("/d/{number}/f"), format!("/kept-{number}")].map(|path| at(&path));
            [Op::write(file.clone(), "x").with_parents(), Op::link(file, kept)]
        }));
        (many, store)
    });
    for (what, ops) in batches {
        let [one, twice] = [&stores[0], &stores[1]].map(|(many, store)| {
            let written = (0..*many).map(|number| Op::append(at(&format!("/kept-{number}")), "y"));
            store.work(&Batch::new(written.chain(ops(*many))))
        });
        // Linear, with a margin for what does not depend on the number of trees.
        assert!(twice < 2 * one + one / 10, "{what}: {one}, of twice as many {twice}");
    }
}
