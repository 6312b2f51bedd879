//! Checks before the operations and their order, and what a commit records besides its operations.

use super::*;
use crate::model::{CommitId, Idempotency};

fn idempotent(batch: Batch, hash: u8, keep_until: i64) -> Batch {
    let keep_until = Timestamp(keep_until);
    batch.idempotency(Idempotency::new("key", [hash; 32], keep_until))
}

/// Returns the kind of the error that refuses a batch.
fn kind(store: &Store, batch: &Batch) -> Option<ErrorKind> {
    store.plan(batch).err().map(|error| error.kind())
}

fn version(seq: u64, ino: u64) -> VersionId {
    VersionId { seq: Seq(seq), ino: Ino(ino) }
}

#[test]
fn each_precondition_matches_only_its_state() {
    let store = tree([
        Op::write(at("/f"), "hello"),
        Op::set_attrs(at("/f"), SetAttrs::new().mode(0o600)),
        Op::mkdir(at("/d")),
    ]);
    let hash = |content: &str| -> [u8; 32] { Sha256::digest(content).into() };
    let cases = [
        ("/no", Precondition::Absent, true),
        ("/f/x", Precondition::Absent, true),
        ("/f", Precondition::Absent, false),
        ("/f", Precondition::Version(version(2, 2)), true),
        ("/f", Precondition::Version(version(1, 2)), false),
        ("/f", Precondition::Version(version(2, 3)), false),
        ("/no", Precondition::Version(version(2, 2)), false),
        ("/f", Precondition::Etag(version(1, 2)), true),
        ("/f", Precondition::Etag(version(2, 2)), false),
        ("/no", Precondition::Etag(version(1, 2)), false),
        ("/f", Precondition::Sha256(hash("hello")), true),
        ("/f", Precondition::Sha256(hash("other")), false),
        ("/d", Precondition::Sha256(hash("")), false),
        ("/no", Precondition::Sha256(hash("")), false),
    ];
    for (path, that, holds) in cases {
        let expected = (!holds).then_some(ErrorKind::Conflict);
        assert_eq!(
            kind(&store, &Batch::default().require(at(path), that.clone())),
            expected,
            "{path} {that:?}"
        );
        let checked = Batch::new([Op::check(at(path), that.clone())]);
        assert_eq!(kind(&store, &checked), expected, "as an operation: {path} {that:?}");
    }
}

#[test]
fn preconditions_precede_the_batch_and_checks_do_not() {
    let store = Store::new();
    let write = Op::write(at("/f"), "x");
    let before = Batch::new([write.clone()]).require(at("/f"), Precondition::Absent);
    assert_eq!(kind(&store, &before), None);
    let absent = Op::check(at("/f"), Precondition::Absent);
    assert_eq!(kind(&store, &Batch::new([absent.clone(), write.clone()])), None);
    assert_eq!(kind(&store, &Batch::new([write, absent])), Some(ErrorKind::Conflict));
}

#[test]
fn retry_by_key_replays_the_first_commit() {
    let mut store = Store::new();
    let batch = idempotent(Batch::new([Op::write(at("/f"), "x").create_new()]), 1, 1000);
    let first = store.commit(&batch).commit;
    let Ok(Planned::Replay(again)) = store.plan(&batch) else { panic!("a retry is replayed") };
    assert_eq!(again, Commit { replayed: true, ..first });
}

#[test]
fn retry_by_commit_id_replays_the_first_commit() {
    let mut store = Store::new();
    let batch = Batch::new([Op::write(at("/f"), "x").create_new()]).id(CommitId(7));
    let first = store.commit(&batch).commit;
    store.run([Op::remove(at("/f"))]);
    let Ok(Planned::Replay(again)) = store.plan(&batch) else { panic!("a retry is replayed") };
    assert_eq!(again, Commit { replayed: true, ..first });
}

#[test]
fn idempotency_record_expires() {
    let mut store = Store::new();
    let batch = idempotent(Batch::new([Op::write(at("/f"), "x")]), 1, 20);
    store.commit(&batch);
    assert!(matches!(store.plan(&batch), Ok(Planned::Apply { .. })), "it is 20 now");
}

#[test]
fn checks_run_in_the_documented_order() {
    let mut store = Store::new();
    let id = CommitId(7);
    let ops = [Op::write(at("/f"), "x").create_new()];
    store.commit(&idempotent(Batch::new(ops.clone()).id(id), 1, 1000));

    // Fails each check; one after the other is then taken away.
    let all_wrong = Batch::new(ops).id(id).require(at("/f"), Precondition::Absent);
    let reused = idempotent(all_wrong.clone(), 2, 1000);
    assert_eq!(kind(&store, &reused), Some(ErrorKind::IdempotencyMismatch));
    let retried = idempotent(all_wrong.clone(), 1, 1000);
    assert!(matches!(store.plan(&retried), Ok(Planned::Replay(_))), "whatever holds by now");
    assert!(matches!(store.plan(&all_wrong), Ok(Planned::Replay(_))), "the id is known");
    let other_id = all_wrong.id(CommitId(8));
    assert_eq!(kind(&store, &other_id), Some(ErrorKind::Conflict));
    let ops_only = Batch { preconditions: Vec::new(), ..other_id };
    assert_eq!(kind(&store, &ops_only), Some(ErrorKind::AlreadyExists));
}

#[test]
fn failed_batch_consumes_no_numbers() {
    let mut store = tree([Op::write(at("/f"), "x")]);
    let error = store.refusal([
        Op::write(at("/g"), vec![7; DEDUP_FROM]),
        Op::remove(at("/f")),
        Op::write(at("/no/x"), "y"),
    ]);
    assert_eq!(error.path(), Some(&at("/no/x")));
    let Applied { delta, commit } = store.run([Op::write(at("/g"), vec![7; DEDUP_FROM])]);
    assert_eq!((commit.seq, store.node_of("/g").ino), (Seq(2), 3));
    assert_eq!(delta.chunks.keys().copied().collect::<Vec<_>>(), [2]);
    assert_eq!(store.content("/f"), b"x");
}

#[test]
fn commit_time_advances_when_the_clock_does_not() {
    let mut store = tree([Op::mkdir(at("/d"))]);
    store.head.time = 5000;
    assert_eq!(store.run([Op::mkdir(at("/e"))]).commit.time, Timestamp(5001));
}

#[test]
fn expired_entry_ends_under_all_its_names() {
    let mut store = tree([Op::write(at("/f"), "old").with_attrs(expires(30)), Op::link(at("/f"), at("/g"))]);
    let expired = store.node_of("/f").ino;
    let Applied { delta, commit } = store.run([Op::write(at("/f"), "new").create_new()]);
    let log = logged(&delta);
    assert_eq!(log[0], (ChangeKind::Expired, Some("/f".to_owned())));
    assert_eq!(log[1], (ChangeKind::Expired, Some("/g".to_owned())));
    assert_eq!(log[2], (ChangeKind::Created, Some("/f".to_owned())));
    assert_eq!(store.renamed(), (vec!["/f".to_owned(), "/g".to_owned()], vec!["/f".to_owned()]));
    assert_eq!((delta.nodes[&expired].nlink, delta.expiry[&expired]), (0, None));
    assert!(delta.index.contains_key(&expired));
    assert!(commit.outcomes[0].created && store.node_of("/f").ino != expired);
}

#[test]
fn operations_do_not_find_expired_entries() {
    let mut store = tree([Op::mkdir(at("/d")), Op::write(at("/d/f"), "x").with_attrs(expires(30))]);
    for op in [
        Op::append(at("/d/f"), "y").must_exist(),
        Op::remove(at("/d/f")),
        Op::rename(at("/d/f"), at("/x")),
        Op::link(at("/d/f"), at("/x")),
        Op::set_attrs(at("/d/f"), SetAttrs::new().mode(0o600)),
        Op::patch(Ino(3), 0, "y"),
    ] {
        assert_eq!(store.refusal([op.clone()]).kind(), ErrorKind::NotFound, "{op:?}");
    }
    let Applied { delta, .. } = store.run([Op::remove_dir(at("/d"))]);
    let kinds: Vec<ChangeKind> = delta.log.iter().map(|change| change.kind.clone()).collect();
    assert_eq!(kinds, [ChangeKind::Expired, ChangeKind::Removed], "its directory is empty");
}

#[test]
fn a_directory_does_not_expire() {
    let store = tree([Op::mkdir(at("/d"))]);
    let error = store.refusal([Op::set_attrs(at("/d"), expires(100))]);
    assert_eq!((error.kind(), error.path()), (ErrorKind::NotPermitted, Some(&at("/d"))));
}

#[test]
fn failed_path_lookup_replaces_the_error() {
    let mut store = tree([Op::mkdir(at("/d"))]);
    let dir = store.node_of("/d").ino;
    let write = Op::append(Ino(dir), "x");
    assert_eq!(store.refusal([write.clone()]).kind(), ErrorKind::IsADirectory);
    store.unnamed = Some(ErrorKind::Unavailable);
    assert_eq!(store.refusal([write]).kind(), ErrorKind::Unavailable);
}

#[test]
fn default_attributes_have_no_row() {
    let mut store = tree([Op::write(at("/f"), "x")]);
    let Applied { delta, .. } = store.run([Op::set_attrs(at("/f"), SetAttrs::new().tags(["t"]))]);
    assert_eq!((delta.attributes.len(), delta.nodes[&2].attrs_seq, delta.index.len()), (1, 2, 0));
    let Applied { delta, .. } = store.run([Op::append(at("/f"), "y")]);
    assert_eq!((delta.attributes.len(), delta.nodes[&2].attrs_seq), (0, 2), "content copies none");
    let none: [&str; 0] = [];
    let Applied { delta, .. } = store.run([Op::set_attrs(at("/f"), SetAttrs::new().tags(none))]);
    assert_eq!((delta.attributes.len(), delta.nodes[&2].attrs_seq), (0, 0));
}

#[test]
fn later_operations_see_snapshots_of_the_batch() {
    let mut store = tree([Op::snapshot("kept")]);
    assert_eq!(store.refusal([Op::snapshot("kept")]).kind(), ErrorKind::AlreadyExists);
    assert_eq!(store.refusal([Op::drop_snapshot("no")]).kind(), ErrorKind::NotFound);
    let twice = [Op::snapshot("new"), Op::snapshot("new")];
    assert_eq!(store.refusal(twice).kind(), ErrorKind::AlreadyExists);
    let Applied { delta, commit } = store.run([Op::drop_snapshot("kept"), Op::snapshot("kept")]);
    assert_eq!(delta.snapshots.into_iter().collect::<Vec<_>>(), [("kept".to_owned(), true)]);
    assert!(commit.outcomes.iter().all(|outcome| outcome.changed && outcome.version.seq == Seq(0)));
    assert!(delta.nodes.is_empty(), "the root has not changed");
}
