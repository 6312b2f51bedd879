//! Extents that content operations end and add, and bytes that they store.

use super::*;
use crate::model::{Body, MAX_FILE, SetAttrs, Special, StagedBody};
use crate::text::passage::Edit;

fn file(content: &str) -> Store {
    tree([Op::write(at("/f"), content.to_owned())])
}

#[test]
fn new_file_adds_name_node_extent_and_chunk() {
    let mut store = Store::new();
    let Applied { delta, commit } = store.run([Op::write(at("/f"), "hello")]);
    let node = store.node_of("/f");
    assert_eq!(store.renamed(), (vec![], vec!["/f".to_owned()]));
    assert_eq!(extents(&delta, node.ino), (vec![], vec![(0, 5, 1, 0)]));
    assert_eq!(delta.nodes.keys().copied().collect::<Vec<_>>(), [Ino::ROOT.0, node.ino]);
    assert_eq!((node.kind, node.mode, node.nlink, node.size), (Kind::File, 0o644, 1, 5));
    assert_eq!((node.seq, node.content_seq, node.mtime, node.birthtime), (1, 1, 10, 10));
    assert_eq!(logged(&delta), [(ChangeKind::Created, Some("/f".to_owned()))]);
    assert!(commit.outcomes[0].created && commit.outcomes[0].changed);
    let root = store.node_of("/");
    assert_eq!((root.mtime, root.nlink, root.content_seq), (10, 2, 1), "its directory got a name");
}

#[test]
fn overwrite_ends_all_extents_and_keeps_node() {
    let mut store = file("hello");
    store.run([Op::append(at("/f"), " world")]);
    let Applied { delta, commit } = store.run([Op::write(at("/f"), "new")]);
    assert_eq!(extents(&delta, 2), (vec![(0, 5), (5, 6)], vec![(0, 3, 3, 0)]));
    assert!(delta.names.is_empty() && !delta.nodes.contains_key(&Ino::ROOT.0), "its name stays");
    assert_eq!(logged(&delta), [(ChangeKind::Modified, None)]);
    assert!(!commit.outcomes[0].created);
    assert_eq!(store.content("/f"), b"new");
}

#[test]
fn append_adds_its_bytes_and_ends_no_extent() {
    let mut store = file("hello");
    let Applied { delta, .. } = store.run([Op::append(at("/f"), " world")]);
    assert_eq!(extents(&delta, 2), (vec![], vec![(5, 6, 2, 0)]));
    assert_eq!(delta.chunks.len(), 1);
    assert_eq!(store.content("/f"), b"hello world");

    let Applied { delta, commit } = store.run([Op::append(at("/f"), "")]);
    assert!(delta.nodes.is_empty() && delta.log.is_empty(), "nothing to add");
    assert!(!commit.outcomes[0].changed);
    assert_eq!(commit.outcomes[0].version.seq, Seq(2));
}

/// Returns an operation whose size depends on a number.
type Operation = fn(u64) -> Op;

#[test]
fn batch_reads_each_extent_once() {
    let f = || at("/f");
    let ops: [(&str, Operation); 6] = [
        ("write", |_| Op::write(at("/f"), "y")),
        ("patch", |count| Op::patch(at("/f"), 0, vec![b'y'; 2 * count as usize])),
        ("truncate", |_| Op::truncate(at("/f"), 1)),
        ("punch", |_| Op::punch(at("/f"), 0, u64::MAX)),
        ("copy", |_| Op::copy(at("/f"), at("/g")).replace()),
        ("copy range", |_| Op::copy_range(at("/f"), 0, u64::MAX, at("/g"), 0)),
    ];
    let stores = [20, 40].map(|count| {
        let mut store = tree([Op::write(f(), ""), Op::write(at("/g"), "")]);
        store.run((0..count).map(|byte| Op::patch(f(), 2 * byte, "x")));
        (count, store)
    });
    for (what, op) in ops {
        let [one, twice] = [&stores[0], &stores[1]].map(|(count, store)| {
            // Copies are of the one extent that is left.
            let repeated = (0..*count).map(|_| op(*count));
            store.work(&Batch::new([Op::write(f(), "y")].into_iter().chain(repeated)))
        });
        // Linear, and not in the number of extents for each operation.
        assert!(twice < 2 * one + one / 10, "{what}: {one}, of twice as many {twice}");
    }
}

#[test]
fn patch_splits_the_extents_it_overlaps() {
    let mut store = file("0123456789");
    let Applied { delta, .. } = store.run([Op::patch(at("/f"), 3, "xy")]);
    assert_eq!(extents(&delta, 2), (vec![(0, 10)], vec![(0, 3, 1, 0), (3, 2, 2, 0), (5, 5, 1, 5)]));
    assert_eq!(store.content("/f"), b"012xy56789");

    // Now within three extents: cut at both ends, and the one between is covered.
    let Applied { delta, .. } = store.run([Op::patch(at("/f"), 2, "ABCD")]);
    let ends = vec![(0, 3), (3, 2), (5, 5)];
    assert_eq!(extents(&delta, 2), (ends, vec![(0, 2, 1, 0), (2, 4, 3, 0), (6, 4, 1, 6)]));
    assert_eq!(store.content("/f"), b"01ABCD6789");
}

#[test]
fn patch_past_the_end_leaves_a_hole() {
    let mut store = file("ab");
    let Applied { delta, .. } = store.run([Op::patch(at("/f"), 5, "cd")]);
    assert_eq!(extents(&delta, 2), (vec![], vec![(5, 2, 2, 0)]));
    assert_eq!(store.content("/f"), b"ab\0\0\0cd");

    let Applied { delta, commit } = store.run([Op::patch(at("/f"), 50, "")]);
    assert!(delta.nodes.is_empty() && !commit.outcomes[0].changed, "an empty patch does not extend");
}

#[test]
fn truncate_cuts_extents_and_extending_adds_none() {
    let mut store = file("0123456789");
    let Applied { delta, .. } = store.run([Op::truncate(at("/f"), 4)]);
    assert_eq!(extents(&delta, 2), (vec![(0, 10)], vec![(0, 4, 1, 0)]));
    assert!(delta.chunks.is_empty());

    let Applied { delta, .. } = store.run([Op::truncate(at("/f"), 6)]);
    assert!(delta.extents.is_empty() && delta.chunks.is_empty());
    assert_eq!(store.content("/f"), b"0123\0\0", "what was cut off does not come back");
}

#[test]
fn punch_ends_extents_within_its_range() {
    let mut store = file("0123456789");
    let Applied { delta, .. } = store.run([Op::punch(at("/f"), 3, 4)]);
    assert_eq!(extents(&delta, 2), (vec![(0, 10)], vec![(0, 3, 1, 0), (7, 3, 1, 7)]));
    assert_eq!((delta.chunks.len(), delta.index[&2]), (0, Edit::write(3, 4, 10)));
    assert_eq!(store.content("/f"), b"012\0\0\0\x00789");

    let Applied { delta, .. } = store.run([Op::punch(at("/f"), 8, u64::MAX)]);
    assert_eq!(extents(&delta, 2), (vec![(7, 3)], vec![(7, 1, 1, 7)]));
    assert_eq!(
        (store.node_of("/f").size, delta.index[&2]),
        (10, Edit::write(8, 2, 10)),
        "clipped at the end"
    );

    for nothing in [Op::punch(at("/f"), 3, 4), Op::punch(at("/f"), 0, 0), Op::punch(at("/f"), 10, 5)] {
        let Applied { delta, commit } = store.run([nothing]);
        assert!(delta.nodes.is_empty() && delta.log.is_empty() && !commit.outcomes[0].changed);
    }
}

#[test]
fn copy_range_shares_chunks_and_keeps_holes() {
    let mut store = file("01234");
    store.run([Op::patch(at("/f"), 8, "89"), Op::write(at("/g"), "abcdefghij")]);
    let Applied { delta, commit } = store.run([Op::copy_range(at("/f"), 3, 6, at("/g"), 1)]);
    let g = store.node_of("/g").ino;
    assert_eq!(
        extents(&delta, g),
        (vec![(0, 10)], vec![(0, 1, 3, 0), (1, 2, 1, 3), (6, 1, 2, 0), (7, 3, 3, 7)])
    );
    assert_eq!((delta.chunks.len(), delta.index[&g]), (0, Edit::write(1, 6, 10)));
    assert_eq!((delta.nodes.len(), commit.outcomes[0].size), (1, 10), "the source stays as it is");
    assert_eq!(store.content("/g"), b"a34\0\0\x008hij");

    let Applied { commit, .. } = store.run([Op::copy_range(at("/g"), 8, 100, at("/g"), 20)]);
    assert_eq!(commit.outcomes[0].size, 22, "clipped at the end of the source");
    let expected = [&b"a34\0\0\x008hij"[..], &[0; 10], b"ij"].concat();
    assert_eq!(store.content("/g"), expected);
}

#[test]
fn later_operations_replace_earlier_writes() {
    let mut store = Store::new();
    let Applied { delta, .. } = store.run([
        Op::write(at("/f"), "first"),
        Op::append(at("/f"), " second"),
        Op::patch(at("/f"), 0, "F"),
        Op::truncate(at("/f"), 8),
        Op::write(at("/g"), "covered"),
        Op::write(at("/g"), "kept"),
    ]);
    assert_eq!(store.content("/f"), b"First se");
    assert_eq!(store.content("/g"), b"kept");
    assert!(!delta.chunks.values().any(|chunk| &chunk.data[..] == b"covered"), "bytes nobody can read");
    assert!(delta.extents.values().all(|change| change.closed.is_empty()), "no row of before has ended");
}

#[test]
fn content_operations_reject_invalid_targets_and_sizes() {
    let store = tree([Op::write(at("/f"), "x"), Op::mkdir(at("/d")), Op::mknod(at("/p"), Special::Fifo)]);
    let refusals = [
        (Op::write(at("/f"), "y").create_new(), ErrorKind::AlreadyExists),
        (Op::write(at("/g"), "y").must_exist(), ErrorKind::NotFound),
        (Op::write(at("/d"), "y"), ErrorKind::IsADirectory),
        (Op::write(at("/p"), "y"), ErrorKind::NotPermitted),
        (Op::write(at("/f/x"), "y"), ErrorKind::NotADirectory),
        (Op::write(at("/f/x"), "y").with_parents(), ErrorKind::NotADirectory),
        (Op::write(at("/no/x"), "y"), ErrorKind::NotFound),
        (Op::write(Ino(99), "y"), ErrorKind::NotFound),
        (Op::append(at("/d"), "y"), ErrorKind::IsADirectory),
        (Op::patch(at("/g"), 0, "y"), ErrorKind::NotFound),
        (Op::patch(at("/f"), MAX_FILE, "y"), ErrorKind::TooLarge),
        (Op::punch(at("/d"), 0, 1), ErrorKind::IsADirectory),
        (Op::copy_range(at("/p"), 0, 1, at("/no"), 0), ErrorKind::NotPermitted),
        (Op::copy_range(at("/f"), 0, 1, at("/no"), 0), ErrorKind::NotFound),
        (Op::copy_range(at("/f"), 0, 1, at("/f"), 0), ErrorKind::InvalidArgument),
        (Op::copy_range(at("/f"), 0, 1, at("/f"), MAX_FILE), ErrorKind::TooLarge),
        (Op::patch(at("/f"), u64::MAX, "y"), ErrorKind::TooLarge),
        (Op::truncate(at("/g"), 0), ErrorKind::NotFound),
        (Op::truncate(at("/f"), MAX_FILE + 1), ErrorKind::TooLarge),
    ];
    for (op, kind) in refusals {
        assert_eq!(store.refusal([op.clone()]).kind(), kind, "{op:?}");
    }
}

#[test]
fn equal_content_is_stored_once_from_64_kib() {
    let (large, small) = (vec![7; DEDUP_FROM], vec![7; DEDUP_FROM - 1]);
    let mut store = Store::new();
    let Applied { delta, .. } = store.run([
        Op::write(at("/a"), large.clone()),
        Op::write(at("/b"), large.clone()),
        Op::write(at("/c"), small.clone()),
        Op::write(at("/d"), small.clone()),
    ]);
    assert_eq!(delta.chunks.len(), 3, "one for the two large ones of the batch, one for each small one");
    assert!(delta.shared.is_empty());
    assert_eq!(extents(&delta, store.node_of("/a").ino), extents(&delta, store.node_of("/b").ino));

    let Applied { delta, .. } = store.run([Op::write(at("/e"), large.clone()), Op::write(at("/f"), small)]);
    assert_eq!(delta.chunks.len(), 1, "the large one is stored, the small one is not looked for");
    assert_eq!(delta.shared.values().copied().collect::<Vec<_>>(), [DEDUP_FROM as u64]);
    assert_eq!(store.content("/e"), store.content("/a"));

    let Applied { delta, .. } = store.run([Op::write(at("/g"), large), Op::write(at("/g"), "short")]);
    assert!(delta.shared.is_empty(), "as chunks that the batch itself has replaced");
}

#[test]
fn splits_large_bodies_into_one_mib_extents() {
    let mut store = Store::new();
    // Not one byte repeated: equal pieces would be stored once.
    let body: Vec<u8> = (0..2 * MAX_EXTENT + 3).map(|at| (at / 1000) as u8).collect();
    let Applied { delta, .. } = store.run([Op::write(at("/f"), body.clone())]);
    let mib = MAX_EXTENT as u64;
    assert_eq!(extents(&delta, 2).1, [(0, mib, 1, 0), (mib, mib, 2, 0), (2 * mib, 3, 3, 0)]);
    assert!(store.content("/f") == body);
}

#[test]
fn stores_large_pieces_between_cuts_separately() {
    let (mib, from) = (MAX_EXTENT as u64, DEDUP_FROM as u64);
    // Lengths of the pieces, and offset and length of the extents.
    let stored = |lengths: &[u64]| {
        let mut store = file("head");
        let body: Vec<u8> =
            lengths.iter().zip(1..).flat_map(|(length, byte)| vec![byte; *length as usize]).collect();
        let ends = lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        let append = Op::append(at("/f"), body.clone()).cut_at(ends);
        Batch::new([append.clone()]).check().unwrap();
        let Applied { delta, .. } = store.run([append]);
        assert!(store.content("/f") == [b"head", &body[..]].concat());
        let (closed, added) = extents(&delta, 2);
        assert!(closed.is_empty(), "an append ends nothing");
        let sums = added.iter().map(|row| delta.chunks[&row.2].sum.len());
        added.iter().zip(sums).map(|(row, sum)| (row.0 - 4, row.1, sum == 32)).collect::<Vec<_>>()
    };
    assert_eq!(stored(&[]), []);
    assert_eq!(stored(&[3, 4]), [(0, 7, false)]);
    assert_eq!(stored(&[3, from, 4]), [(0, 3, false), (3, from, true), (3 + from, 4, false)]);
    assert_eq!(stored(&[3, from - 1, 4]), [(0, from + 6, true)], "as one append without cuts");
    assert_eq!(stored(&[from, from]), [(0, from, true), (from, from, true)]);
    // The next piece begins where the last one ends, not at the next MiB. Its end is found by its hash as
    // well.
    let expected = [
        (0, mib, true),
        (mib, 5, true),
        (mib + 5, mib, true),
        (2 * mib + 5, 7, true),
        (2 * mib + 12, 1, false),
    ];
    assert_eq!(stored(&[mib + 5, mib + 7, 1]), expected);
    assert_eq!(stored(&[from / 2; 40]), [(0, mib, true), (mib, mib / 4, true)]);
}

#[test]
fn damaged_chunk_is_not_shared() {
    let body = vec![7; DEDUP_FROM];
    let mut store = tree([Op::write(at("/a"), body.clone())]);
    // The stored chunk is damaged from here on.
    store.unreadable = Some(ErrorKind::Corrupt);
    let Applied { delta, .. } = store.run([Op::write(at("/b"), body.clone())]);
    let chunk = delta.chunks.values().next().expect("the bytes are stored again");
    assert_eq!((chunk.id, chunk.sum.len()), (2, 8), "its sum is the damaged one's");

    store.unreadable = None;
    let Applied { delta, .. } = store.run([Op::write(at("/c"), body)]);
    assert_eq!(extents(&delta, store.node_of("/c").ino).1[0].2, 1, "the one that is found by its sum");
}

#[test]
fn unreadable_stored_chunk_fails_the_batch() {
    let body = vec![7; DEDUP_FROM];
    let mut store = tree([Op::write(at("/a"), body.clone())]);
    for kind in [ErrorKind::Io, ErrorKind::Unavailable] {
        store.unreadable = Some(kind);
        assert_eq!(store.refusal([Op::write(at("/b"), body.clone())]).kind(), kind);
    }
}

#[test]
fn staged_body_is_used_once_and_completely() {
    let mut store = file("hello");
    let staged = |size| Body::Staged(StagedBody { id: 7, size });
    assert_eq!(store.refusal([Op::write(at("/g"), staged(5))]).kind(), ErrorKind::NotFound);

    store.stage(7, Staged(vec![(1, 5)]));
    assert_eq!(store.refusal([Op::write(at("/g"), staged(6))]).kind(), ErrorKind::NotFound);
    let twice = [Op::write(at("/g"), staged(5)), Op::write(at("/h"), staged(5))];
    assert_eq!(store.refusal(twice).kind(), ErrorKind::NotFound);

    let Applied { delta, .. } = store.run([Op::write(at("/g"), staged(5))]);
    assert_eq!((delta.staged.len(), delta.staged[0].0, delta.chunks.len()), (1, 7, 0));
    assert!(delta.references().is_empty(), "the reference is the file's now");
    assert_eq!(store.content("/g"), b"hello");
    assert_eq!(store.refusal([Op::write(at("/h"), staged(5))]).kind(), ErrorKind::NotFound);
}

#[test]
fn replaced_staged_body_gives_up_all_references() {
    let mut store = file("hello");
    store.stage(7, Staged(vec![(1, 5), (1, 5)]));
    let staged = Op::write(at("/g"), Body::Staged(StagedBody { id: 7, size: 10 }));
    let Applied { delta, .. } = store.run([staged, Op::write(at("/g"), "new")]);
    assert!(delta.references().into_iter().eq([(1, -2)]), "those of both pieces");
}

#[test]
fn unnamed_file_is_writable_only_through_its_handle() {
    let mut store = file("hello");
    store.run([Op::remove(at("/f"))]);
    assert_eq!(store.refusal([Op::append(Ino(2), "!")]).kind(), ErrorKind::NotFound);

    store.open.insert(2);
    let Applied { delta, .. } = store.run([Op::append(Ino(2), "!")]);
    assert!(delta.unnamed.contains(&2), "it needs a lease");
    let changed = store.run([Op::set_attrs(Ino(2), SetAttrs::new().mode(0o600))]).delta;
    assert!(changed.unnamed.contains(&2), "for a change of attributes, too");
    assert_eq!(extents(&delta, 2).1, [(5, 1, 2, 0)]);
}

#[test]
fn only_shared_or_consumed_chunks_change_reference_counts() {
    let mut store = file("hello");
    let by = |store: &mut Store, op| store.run([op]).delta.references().into_iter().collect::<Vec<_>>();
    assert_eq!(by(&mut store, Op::append(at("/f"), " you")), []);
    assert_eq!(by(&mut store, Op::patch(at("/f"), 0, "Hello")), [], "the old extent is kept for the past");
    assert_eq!(by(&mut store, Op::patch(at("/f"), 1, "E")), [(3, 2)], "two pieces beside the one that ended");
    assert_eq!(by(&mut store, Op::truncate(at("/f"), 4)), [(3, 1)], "what is left of a piece");
    let large = vec![7; 3 * DEDUP_FROM];
    assert_eq!(by(&mut store, Op::write(at("/a"), large.clone())), []);
    assert_eq!(by(&mut store, Op::write(at("/b"), large)), [(5, 1)]);
}
