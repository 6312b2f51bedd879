//! Copies: rows that share stored bytes.

use super::*;

#[test]
fn copy_shares_chunks_and_stores_none() {
    let mut store = tree([
        Op::write(at("/f"), "0123456789").with_attrs(SetAttrs::new().mode(0o600).tags(["t"])),
        Op::patch(at("/f"), 3, "xy"),
    ]);
    let Applied { delta, commit } = store.run([Op::copy(at("/f"), at("/g"))]);
    let (source, copy) = (store.node_of("/f"), store.node_of("/g"));
    assert!(delta.chunks.is_empty() && !delta.nodes.contains_key(&source.ino));
    assert_eq!(extents(&delta, copy.ino).1, [(0, 3, 1, 0), (3, 2, 2, 0), (5, 5, 1, 5)]);
    assert!(
        delta.references().into_iter().eq([(1, 2), (2, 1)]),
        "two pieces of the first chunk, one of the second"
    );
    assert_eq!((copy.mode, copy.size, copy.mtime, copy.birthtime), (0o600, 10, source.mtime, 30));
    assert_eq!(delta.attributes[&copy.ino].tags, ["t"]);
    assert!(commit.outcomes[0].created && commit.outcomes[0].version.ino.0 == copy.ino);
}

#[test]
fn copy_preserves_hard_links() {
    let mut store = tree([
        Op::write(at("/d/a"), "x").with_parents(),
        Op::link(at("/d/a"), at("/d/b")),
        Op::link(at("/d/a"), at("/outside")),
    ]);
    let Applied { delta, .. } = store.run([Op::copy_tree(at("/d"), at("/e"))]);
    let copy = store.node_of("/e/a");
    assert_eq!((store.node_of("/e/b").ino, copy.nlink), (copy.ino, 2), "not three: one lies outside");
    assert_ne!(copy.ino, store.node_of("/d/a").ino);
    assert_eq!(store.node_of("/d/a").nlink, 3);
    assert_eq!(logged(&delta), [(ChangeKind::Created, Some("/e".to_owned()))], "one change, of its top");
    assert_eq!(store.node_of("/e").mtime, store.node_of("/d").mtime, "not of its filling");
}

#[test]
fn copy_onto_file_replaces_content_and_keeps_node() {
    let mut store = tree([Op::write(at("/f"), "source"), Op::write(at("/g"), "old")]);
    assert_eq!(store.refusal([Op::copy(at("/f"), at("/g"))]).kind(), ErrorKind::AlreadyExists);
    let ino = store.node_of("/g").ino;
    let Applied { delta, .. } = store.run([Op::copy(at("/f"), at("/g")).replace()]);
    assert_eq!(extents(&delta, ino), (vec![(0, 3)], vec![(0, 6, 1, 0)]));
    assert!(delta.names.is_empty());
    assert_eq!(logged(&delta), [(ChangeKind::Modified, None)]);

    let Applied { delta, commit } = store.run([Op::copy(at("/g"), at("/g")).replace()]);
    assert!(delta.nodes.is_empty() && !commit.outcomes[0].changed, "onto itself nothing happens");
}

#[test]
fn copy_of_the_past_restores_content_and_names() {
    let mut store = tree([
        Op::write(at("/d/f"), "0123456789").with_parents(),
        Op::truncate(at("/d/f"), 2),
        Op::rename(at("/d/f"), at("/d/g")),
        Op::remove_tree(at("/d")),
    ]);
    store.run([Op::copy_tree(at("/d"), at("/first")).as_of(Seq(1))]);
    assert_eq!(store.content("/first/f"), b"0123456789");
    store.run([Op::copy(at("/d/g"), at("/third")).as_of(Seq(3))]);
    assert_eq!(store.content("/third"), b"01");
    let refusals = [
        (Op::copy(at("/d/f"), at("/x")).as_of(Seq(3)), ErrorKind::NotFound),
        (Op::copy(at("/d/g/x"), at("/x")).as_of(Seq(3)), ErrorKind::NotADirectory),
        (Op::copy(at("/d/g"), at("/x")).as_of(Seq(99)), ErrorKind::NotFound),
        (Op::copy(at("/d"), at("/x")).as_of(Seq(3)), ErrorKind::IsADirectory),
    ];
    for (op, kind) in refusals {
        assert_eq!(store.refusal([op.clone()]).kind(), kind, "{op:?}");
    }
}

#[test]
fn copy_rejects_invalid_sources_and_targets() {
    let store = tree([Op::write(at("/d/f"), "x").with_parents()]);
    let refusals = [
        (Op::copy(at("/d"), at("/x")), ErrorKind::IsADirectory),
        (Op::copy_tree(at("/d"), at("/d/x")), ErrorKind::InvalidArgument),
        (Op::copy_tree(at("/"), at("/x")), ErrorKind::InvalidArgument),
        (Op::copy_tree(at("/d"), at("/d")), ErrorKind::AlreadyExists),
        (Op::copy(at("/no"), at("/x")), ErrorKind::NotFound),
        (Op::copy(at("/d/f"), at("/no/x")), ErrorKind::NotFound),
        (Op::copy(at("/d/f"), Ino(2)), ErrorKind::InvalidArgument),
    ];
    for (op, kind) in refusals {
        assert_eq!(store.refusal([op.clone()]).kind(), kind, "{op:?}");
    }
}

#[test]
fn copy_drops_an_expiry_in_the_past() {
    let mut store = tree([Op::write(at("/f"), "x").with_attrs(expires(35))]);
    store.run([Op::copy(at("/f"), at("/soon"))]);
    assert_eq!(store.node_of("/soon").expires_at, Some(35));
    store.run([Op::mkdir(at("/d"))]);
    assert_eq!(store.refusal([Op::copy(at("/f"), at("/late"))]).kind(), ErrorKind::NotFound);
    store.run([Op::copy(at("/f"), at("/late")).as_of(Seq(1))]);
    assert_eq!(store.node_of("/late").expires_at, None);
}

#[test]
fn expired_names_do_not_count_in_a_copy() {
    let names = crate::model::MAX_COPIED_NAMES;
    let mut store = tree([
        Op::write(at("/d/kept"), "x").with_parents(),
        Op::write(at("/d/late"), "x").with_attrs(expires(35)),
    ]);
    let [kept, late] = ["/d/kept", "/d/late"].map(|path| store.node_of(path).ino);
    // More names than are listed at first, of which some have expired by then.
    store.name_often(late, "/d", 0..9);
    store.name_often(kept, "/d", 10..names + 8);
    let copied = |op: Op| match plan(&store, store.head, Timestamp(40), &Batch::new([op])) {
        Ok(Planned::Apply { delta, .. }) => Ok(delta.names.len()),
        Ok(Planned::Replay(_)) => panic!("it was not committed before"),
        Err(error) => Err(error),
    };
    let copy = || Op::copy_tree(at("/d"), at("/e"));
    assert_eq!(copied(copy()).unwrap(), names + 10, "those that expired end");
    let error = copied(copy().as_of(Seq(2))).unwrap_err();
    assert_eq!(
        (error.kind(), error.path().unwrap().as_str()),
        (ErrorKind::TooLarge, "/e"),
        "then they had not"
    );
    assert!(error.message().contains("100000 names"), "{error}");
}
