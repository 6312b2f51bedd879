//! Batches: atomic, ordered, numbered, guarded by preconditions.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use garth_engine::ErrorKind::{Conflict, IdempotencyMismatch, InvalidArgument, NotFound, TooLarge};
use garth_engine::model::{
    At, Author, Batch, CommitId, Durability, Ino, MAX_ETAGS, MAX_HASHED, MAX_LABEL, MAX_OPS, Op, Outcome,
    Precondition, Remove, SetAttrs, Timestamp, VersionId,
};
use sha2::{Digest, Sha256};

use super::retries::record;
use super::suite::checks;
use crate::subject::{START, Subject};
use crate::tools::*;

checks! {
    batch_is_one_ordered_commit [links]
    failing_last_operation_undoes_the_batch [atomic links snapshots]
    outcome_reports_size_after_operation
    commit_reports_its_durability
    unchanged_node_returns_current_version [links]
    sequence_numbers_are_dense
    commit_times_increase_despite_clock
    version_precondition_admits_one_writer
    etag_changes_only_with_content [log links]
    judges_absent_and_sha256_on_current_state [nodes]
    judges_exists_etags_and_negations [nodes]
    preconditions_have_limits
    checks_see_state_between_operations
    batch_is_judged_in_documented_order [log]
    commit_stores_author_and_message [history]
    batch_size_is_limited
    paths_of_new_names_are_limited
    concurrent_appends_lose_no_line
    concurrent_version_writers_have_one_winner
    acknowledged_commits_survive_reopening [links snapshots history]
}

fn check(path: &str, that: Precondition) -> Op {
    Op::check(at(path), that)
}

fn if_so(path: &str, that: Precondition, op: Op) -> Batch {
    Batch { preconditions: vec![(at(path), that)], ..Batch::new([op]) }
}

async fn batch_is_one_ordered_commit(subject: &Subject) {
    let fs = &*subject.fs;
    let ops =
        [mkdir("/d"), write("/d/f", "one"), append("/d/f", " two"), rename("/d", "/e"), link("/e/f", "/g")];
    let commit = fs.commit(Batch::new(ops)).await.unwrap();
    let version = |n| VersionId { seq: subject.seq(1), ino: subject.ino(n) };
    let expected = [
        Outcome::created(version(2), 0),
        Outcome::created(version(3), 3),
        Outcome::changed(version(3), 7),
        Outcome::changed(version(2), 0),
        Outcome::changed(version(3), 7),
    ];
    // Without a log, versions need not count commits, so only the effects are compared.
    let did = |told: &[Outcome]| told.iter().map(|it| (it.created, it.changed, it.size)).collect::<Vec<_>>();
    assert_eq!((commit.seq, did(&commit.outcomes), commit.replayed), (subject.seq(1), did(&expected), false));
    if can(fs).log {
        assert_eq!(commit.outcomes, expected);
    }
    assert_eq!(text(fs, "/g").await, "one two");
    let (entry, head) = (stat(fs, "/g").await, fs.head().await.unwrap());
    assert_eq!((entry.version, entry.mtime), (commit.version(4), commit.time));
    assert!(!can(fs).log || entry.ctime == commit.time);
    assert_eq!((head.seq, head.time), (commit.seq, commit.time));
}

async fn unchanged_node_returns_current_version(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/f", "x"), link("/f", "/g"), write("/other", "y")]).await;
    let onto_itself = Op::copy(at("/f"), at("/f")).replace();
    let version = stat(fs, "/f").await.version;
    for op in [
        append("/f", ""),
        patch("/f", 7, ""),
        onto_itself,
        rename("/f", "/f"),
        rename("/f", "/g"),
        check("/f", Precondition::Version(version)),
    ] {
        let what = format!("{op:?}");
        let (commit, outcome) = apply(fs, op).await;
        assert_eq!(outcome, Outcome::unchanged(version, 1), "{what}");
        assert_eq!((commit.version(0), stat(fs, "/f").await.version), (version, version), "{what}");
        if can(fs).history {
            let file = fs.open_version(commit.version(0)).await.unwrap();
            assert_eq!(file.read_at(0, 9).await.unwrap(), "x", "{what}");
        }
    }
    let (directory, root) = (stat(fs, "/d").await.version, stat(fs, "/").await.version);
    assert_eq!(apply(fs, mkdir_all("/d")).await.1, Outcome::unchanged(directory, 0));
    assert_eq!(apply(fs, mkdir_all("/")).await.1, Outcome::unchanged(root, 0));
    let batch = Batch::new([append("/f", ""), append("/f", "z"), append("/f", ""), mkdir_all("/d")]);
    let commit = fs.commit(batch).await.unwrap();
    let now = match can(fs).log {
        true => VersionId { seq: commit.seq, ino: version.ino },
        false => stat(fs, "/f").await.version,
    };
    let expected = [
        Outcome::unchanged(version, 1),
        Outcome::changed(now, 2),
        Outcome::unchanged(now, 2),
        Outcome::unchanged(directory, 0),
    ];
    assert_eq!(commit.outcomes, expected, "each as its operation left the node");
}

async fn outcome_reports_size_after_operation(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "12345"), mkdir("/d")]).await;
    let dressed = SetAttrs::new().mode(0o600);
    let batch = Batch::new([
        append("/f", "678"),
        patch("/f", 10, "x"),
        truncate("/f", 4),
        set("/f", dressed),
        copy("/f", "/g"),
        rename("/f", "/h"),
        symlink("/l", "target"),
        check("/d", Precondition::Version(stat(fs, "/d").await.version)),
        remove("/h", Remove::File),
        Op::remove(at("/no")).if_exists(),
        write("/d/new", ""),
    ]);
    let sizes =
        fs.commit(batch).await.unwrap().outcomes.iter().map(|outcome| outcome.size).collect::<Vec<_>>();
    assert_eq!(sizes, [8, 11, 4, 4, 4, 4, 6, 0, 4, 0, 0]);
}

async fn commit_reports_its_durability(subject: &Subject) {
    let fs = &*subject.fs;
    let visible = fs.commit(Batch::new([write("/f", "x")]).visible()).await.unwrap();
    assert!(!visible.durable, "nothing has made it durable yet");
    if can(fs).log {
        let keyed = || Batch::new([write("/f", "y")]).idempotency(record("k", 1, 1000));
        // The first commit of the record need not be durable.
        assert!(!fs.commit(keyed().visible()).await.unwrap().durable);
        let again = fs.commit(keyed()).await.unwrap();
        assert_eq!((again.replayed, again.durable), (true, can(fs).durable), "asked for as durable now");
    }
    assert_eq!(fs.commit(Batch::new([write("/f", "z")])).await.unwrap().durable, can(fs).durable);
}

async fn failing_last_operation_undoes_the_batch(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "x"), write("/g", "y"), link("/g", "/h")]).await;
    let mut before = Vec::new();
    for path in ["/", "/d", "/d/f", "/g"] {
        before.push(stat(fs, path).await);
    }
    let ops = [
        write("/d/f", "changed"),
        append("/g", "changed"),
        mkdir_all("/new/deep"),
        remove("/h", Remove::File),
        rename("/d", "/e"),
        copy("/e", "/e2"),
        Op::snapshot("lost"),
        remove("/no", Remove::Any),
    ];
    let batch = Batch { id: Some(CommitId(9)), idempotency: Some(record("k", 1, 1000)), ..Batch::new(ops) };
    batch_refused(fs, batch.clone(), NotFound, Some("/no")).await;
    let mut after = Vec::new();
    for path in ["/", "/d", "/d/f", "/g"] {
        after.push(stat(fs, path).await);
    }
    assert_eq!(after, before);
    assert_eq!(paths_below(fs, "/").await, ["/d", "/g", "/h", "/d/f"]);
    assert_eq!((text(fs, "/d/f").await.as_str(), text(fs, "/g").await.as_str()), ("x", "y"));
    // The same batch without the failing operation, under the same id and key.
    let ok = Batch { ops: batch.ops[..7].to_vec(), ..batch };
    let commit = fs.commit(ok).await.unwrap();
    assert_eq!(
        (commit.seq, commit.replayed),
        (subject.seq(5), false),
        "id and key of the failed batch were not kept"
    );
    assert_eq!(commit.outcomes[2].ino, subject.ino(6), "nor were its inode numbers");
}

async fn sequence_numbers_are_dense(subject: &Subject) {
    let fs = &*subject.fs;
    for number in 1..=20 {
        let _ = fs.commit(Batch::new([remove("/no", Remove::Any)])).await.unwrap_err();
        let batch = if number % 3 == 0 { Batch::default() } else { Batch::new([append("/f", "x")]) };
        let seq = subject.seq(number);
        assert_eq!(fs.commit(batch).await.unwrap().seq, seq, "an empty batch takes one too");
        assert_eq!(fs.head().await.unwrap().seq, seq);
    }
}

async fn commit_times_increase_despite_clock(subject: &Subject) {
    let fs = &*subject.fs;
    let first = apply(fs, write("/a", "")).await.0.time;
    assert_eq!(first, START);
    assert_eq!(apply(fs, write("/b", "")).await.0.time, Timestamp(START.0 + 1));
    // The clock goes back, for example after a correction by NTP.
    subject.clock.set(Timestamp(START.0 - 1_000_000_000));
    let (commit, _) = apply(fs, write("/c", "")).await;
    assert_eq!(commit.time, Timestamp(START.0 + 2));
    assert_eq!(stat(fs, "/c").await.mtime, commit.time);
    subject.clock.set(START.plus_seconds(1));
    assert_eq!(apply(fs, write("/d", "")).await.0.time, START.plus_seconds(1));
}

async fn version_precondition_admits_one_writer(subject: &Subject) {
    let fs = &*subject.fs;
    let first = put(fs, "/f", "one").await;
    fs.commit(if_so("/f", Precondition::Version(first), write("/f", "two"))).await.unwrap();
    batch_refused(fs, if_so("/f", Precondition::Version(first), write("/f", "lost")), Conflict, Some("/f"))
        .await;
    batch_refused(fs, if_so("/f", Precondition::Etag(first), write("/f", "lost")), Conflict, Some("/f"))
        .await;
    assert_eq!(text(fs, "/f").await, "two");
}

async fn etag_changes_only_with_content(subject: &Subject) {
    let fs = &*subject.fs;
    let etag = put(fs, "/f", "one").await;
    given(fs, [set("/f", Default::default()), link("/f", "/g"), rename("/f", "/h")]).await;
    fs.commit(if_so("/g", Precondition::Etag(etag), Op::check(at("/h"), Precondition::Etag(etag))))
        .await
        .unwrap();
    batch_refused(fs, if_so("/g", Precondition::Version(etag), mkdir("/d")), Conflict, Some("/g")).await;
}

async fn judges_absent_and_sha256_on_current_state(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "x"), mkdir("/d"), symlink("/l", "/f")]).await;
    let hash = |text: &str| Precondition::Sha256(Sha256::digest(text).into());
    for path in ["/no", "/no/no", "/f/x", "/l/x"] {
        let (commit, outcome) = apply(fs, check(path, Precondition::Absent)).await;
        assert_eq!(outcome, Outcome::unchanged(VersionId { seq: commit.seq, ino: Ino::NONE }, 0));
        for that in [hash(""), Precondition::Version(VersionId { seq: subject.seq(1), ino: subject.ino(2) })]
        {
            refused(fs, check(path, that), Conflict, path).await;
        }
    }
    for path in ["/", "/f", "/d", "/l"] {
        refused(fs, check(path, Precondition::Absent), Conflict, path).await;
    }
    let ino = stat(fs, "/f").await.ino;
    let outcome = apply(fs, check("/f", hash("x"))).await.1;
    assert_eq!((outcome.ino, outcome.created), (ino, false));
    refused(fs, check("/f", hash("y")), Conflict, "/f").await;
    refused(fs, check("/d", hash("")), Conflict, "/d").await;
    refused(fs, check("/l", hash("/f")), Conflict, "/l").await;
    // An inode that was never used is absent, too.
    let gone = Op::check(At::Node(subject.ino(1000)), Precondition::Absent);
    apply(fs, gone).await;
    // Several chunks, a patch within one of them and a hole at the end.
    given(fs, [write("/big", vec![7; 300_000]), patch("/big", 150_000, "abc"), truncate("/big", 400_000)])
        .await;
    let mut big = vec![7; 300_000];
    big[150_000..150_003].copy_from_slice(b"abc");
    big.resize(400_000, 0);
    apply(fs, check("/big", Precondition::Sha256(Sha256::digest(&big).into()))).await;
}

async fn judges_exists_etags_and_negations(subject: &Subject) {
    let fs = &*subject.fs;
    let first = put(fs, "/f", "one").await;
    let second = put(fs, "/f", "two").await;
    given(fs, [mkdir("/d"), set("/f", SetAttrs::new().mode(0o600))]).await;
    // An etag of the same commit, but of another node.
    let other = VersionId { ino: stat(fs, "/d").await.ino, ..second };
    let list = |etags: &[VersionId]| Precondition::EtagIn(etags.to_vec());
    let hash = |text: &str| Precondition::Sha256(Sha256::digest(text).into());
    // Results for `/f`, for the directory, and for a missing path.
    for (that, holds) in [
        (Precondition::Exists, [true, true, false]),
        (Precondition::Etag(second), [true, false, false]),
        (list(&[first, second]), [true, false, false]),
        (list(&[first, other]), [false, false, false]),
        (list(&[]), [false, false, false]),
        (hash("two"), [true, false, false]),
        (Precondition::Absent, [false, false, true]),
    ] {
        for (path, holds) in ["/f", "/d", "/no"].into_iter().zip(holds) {
            // A condition and its negation never hold together.
            let (right, wrong) = if holds {
                (that.clone(), that.clone().negated())
            } else {
                (that.clone().negated(), that.clone())
            };
            apply(fs, check(path, right.clone())).await;
            fs.commit(if_so(path, right, append("/log", "x"))).await.unwrap();
            refused(fs, check(path, wrong.clone()), Conflict, path).await;
            batch_refused(fs, if_so(path, wrong, append("/log", "y")), Conflict, Some(path)).await;
        }
    }
    assert_eq!(text(fs, "/log").await, "x".repeat(21));
    let by_number = Op::check(At::Node(first.ino), Precondition::Absent);
    refused(fs, by_number, Conflict, "/f").await;
}

async fn preconditions_have_limits(subject: &Subject) {
    let fs = &*subject.fs;
    let version = put(fs, "/f", "x").await;
    given(fs, [write("/large", ""), truncate("/large", MAX_HASHED), write("/larger", "")]).await;
    given(fs, [truncate("/larger", MAX_HASHED + 1), mkdir("/d")]).await;
    let etags = |count| Precondition::EtagIn(vec![version; count]);
    apply(fs, check("/f", etags(MAX_ETAGS))).await;
    refused_outright(fs, check("/f", etags(MAX_ETAGS + 1)), TooLarge).await;
    refused_outright(fs, check("/f", etags(MAX_ETAGS + 1).negated()), TooLarge).await;
    // A condition is negated at most once, so that its size stays bounded.
    refused_outright(fs, check("/f", Precondition::Exists.negated().negated()), InvalidArgument).await;
    let twice = if_so("/f", Precondition::Exists.negated().negated(), write("/f", "y"));
    batch_refused(fs, twice, InvalidArgument, None).await;
    let many =
        Batch { preconditions: vec![(at("/f"), Precondition::Exists); MAX_OPS + 1], ..Batch::default() };
    batch_refused(fs, many, TooLarge, None).await;
    let hash = || Precondition::Sha256([0; 32]);
    refused(fs, check("/large", hash()), Conflict, "/large").await;
    refused(fs, check("/larger", hash()), TooLarge, "/larger").await;
    batch_refused(fs, if_so("/larger", hash().negated(), write("/f", "y")), TooLarge, Some("/larger")).await;
    refused(fs, check("/d", hash()), Conflict, "/d").await;
    // The limit covers all hashes of a batch together.
    let both = Batch::new([check("/large", hash().negated()), check("/f", hash().negated())]);
    batch_refused(fs, both, TooLarge, Some("/f")).await;
    assert_eq!(text(fs, "/f").await, "x");
}

async fn checks_see_state_between_operations(subject: &Subject) {
    let fs = &*subject.fs;
    let first = put(fs, "/f", "one").await;
    let batch = Batch {
        preconditions: vec![(at("/f"), Precondition::Version(first)), (at("/g"), Precondition::Absent)],
        ..Batch::new([
            check("/f", Precondition::Version(first)),
            rename("/f", "/g"),
            check("/f", Precondition::Absent),
            write("/g", "two"),
            check("/g", Precondition::Version(first).negated()),
        ])
    };
    let commit = fs.commit(batch).await.unwrap();
    if can(fs).log {
        assert_eq!(commit.version(4), VersionId { seq: subject.seq(2), ino: first.ino });
    }
    // A check sees what the operations before it have done.
    let wrong = Batch::new([write("/g", "three"), check("/g", Precondition::Absent)]);
    batch_refused(fs, wrong, Conflict, Some("/g")).await;
    // Without atomic batches, operations before the failing one stay applied.
    assert_eq!(text(fs, "/g").await, if can(fs).atomic { "two" } else { "three" });
}

async fn batch_is_judged_in_documented_order(subject: &Subject) {
    let fs = &*subject.fs;
    let keyed = Batch {
        id: Some(CommitId(1)),
        idempotency: Some(record("k", 1, 1000)),
        ..Batch::new([write("/f", "x")])
    };
    fs.commit(keyed).await.unwrap();
    let wrong = Batch {
        id: Some(CommitId(1)),
        idempotency: Some(record("k", 2, 1000)),
        preconditions: vec![(at("/f"), Precondition::Absent)],
        message: "m".repeat(MAX_LABEL + 1),
        ..Batch::new([remove("/no", Remove::Any), symlink("/x", "")])
    };
    batch_refused(fs, wrong.clone(), TooLarge, None).await;
    // Each step repairs the error that is found first, so that the next one shows.
    let wrong = Batch { message: String::new(), ..wrong };
    batch_refused(fs, wrong.clone(), InvalidArgument, None).await;
    let wrong = Batch { ops: wrong.ops[..1].to_vec(), ..wrong };
    batch_refused(fs, wrong.clone(), IdempotencyMismatch, None).await;
    let retried = fs.commit(Batch { idempotency: None, ..wrong.clone() }).await.unwrap();
    assert!(retried.replayed, "its id is known, whatever it asks for");
    let wrong = Batch { id: None, idempotency: None, ..wrong };
    batch_refused(fs, wrong.clone(), Conflict, Some("/f")).await;
    let wrong = Batch { preconditions: Vec::new(), ..wrong };
    batch_refused(fs, wrong, NotFound, Some("/no")).await;
}

async fn commit_stores_author_and_message(subject: &Subject) {
    let fs = &*subject.fs;
    let author = Author::agent("é").with_key("k").with_session("s").with_user("u").with_class("one to one");
    let batch = Batch {
        author: author.clone(),
        message: "why".to_owned(),
        id: Some(CommitId(7)),
        durability: Durability::Visible,
        ..Batch::new([write("/f", "x")])
    };
    let commit = fs.commit(batch).await.unwrap();
    let info = history(fs, "/f").await.remove(0).commit;
    assert_eq!((info.seq, info.time, info.id), (commit.seq, commit.time, Some(CommitId(7))));
    assert_eq!((info.author, info.message.as_str()), (author, "why"));
    assert_eq!(fs.sync().await.unwrap(), commit.seq);
}

async fn batch_size_is_limited(subject: &Subject) {
    let fs = &*subject.fs;
    let ops = (0..=MAX_OPS).map(|_| remove("/no", Remove::Any));
    batch_refused(fs, Batch::new(ops), TooLarge, None).await;
    let long = "k".repeat(MAX_LABEL + 1);
    batch_refused(fs, Batch { idempotency: Some(record(&long, 1, 1)), ..Batch::default() }, TooLarge, None)
        .await;
    for author in
        [Author::agent(&long), Author::default().with_user(&long), Author::default().with_class(&long)]
    {
        batch_refused(fs, Batch { author, ..Batch::default() }, TooLarge, None).await;
    }
    let many = (0..5_000).map(|number| append("/f", format!("{number}\n")));
    assert_eq!(fs.commit(Batch::new(many)).await.unwrap().outcomes.len(), 5_000);
    assert_eq!(text(fs, "/f").await.lines().count(), 5_000);
}

async fn paths_of_new_names_are_limited(subject: &Subject) {
    let fs = &*subject.fs;
    // Each creates 17 directories, whose paths have 34 KB together.
    let deep = |number: usize| mkdir_all(&format!("/{number}{}", format!("/{}", "n".repeat(249)).repeat(16)));
    let before = fs.head().await.unwrap();
    let error = fs.commit(Batch::new((0..1200).map(deep)).visible()).await.unwrap_err();
    assert!(error.is(TooLarge), "{:?}: {}", error.kind(), error.message());
    assert_eq!(fs.head().await.unwrap(), before);
    if can(fs).atomic {
        assert_eq!(paths_below(fs, "/").await, [""; 0]);
    }
    apply(fs, deep(1200)).await;
}

async fn concurrent_appends_lose_no_line(subject: &Subject) {
    let tasks = (0..16).map(|writer| {
        let fs = subject.fs.clone();
        tokio::spawn(async move {
            for line in 0..10 {
                apply(&*fs, append("/log", format!("{writer}:{line}\n"))).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let text = text(&*subject.fs, "/log").await;
    for writer in 0..16 {
        let own: Vec<&str> = text.lines().filter(|line| line.starts_with(&format!("{writer}:"))).collect();
        let expected: Vec<String> = (0..10).map(|line| format!("{writer}:{line}")).collect();
        assert_eq!(own, expected, "the lines of one writer, in its order");
    }
    assert_eq!(subject.fs.head().await.unwrap().seq, subject.seq(160));
}

async fn concurrent_version_writers_have_one_winner(subject: &Subject) {
    let mut version = put(&*subject.fs, "/f", "start").await;
    for round in 0..5 {
        let tasks: Vec<_> = (0..8)
            .map(|writer| {
                let fs = subject.fs.clone();
                let batch =
                    if_so("/f", Precondition::Version(version), write("/f", format!("{round} {writer}")));
                tokio::spawn(async move { fs.commit(batch).await })
            })
            .collect();
        let mut won = Vec::new();
        for task in tasks {
            match task.await.unwrap() {
                Ok(commit) => won.push(commit.version(0)),
                Err(error) => assert_eq!(error.kind(), Conflict),
            }
        }
        assert_eq!(won.len(), 1);
        version = won[0];
    }
}

async fn acknowledged_commits_survive_reopening(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "x"), link("/d/f", "/g"), Op::snapshot("s")]).await;
    fs.sync().await.unwrap();
    let Some(reopen) = &subject.reopen else {
        assert!(!can(fs).durable, "what is durable can be opened again");
        return;
    };
    let again = reopen().await.fs;
    assert_eq!(again.head().await.unwrap(), fs.head().await.unwrap());
    assert_eq!(paths_below(&*again, "/").await, ["/d", "/g", "/d/f"]);
    assert_eq!(stat(&*again, "/g").await, stat(fs, "/g").await);
    assert_eq!(snapshots(&*again).await.unwrap(), snapshots(fs).await.unwrap());
    assert_eq!(history(&*again, "/d/f").await, history(fs, "/d/f").await);
    // Both instances are open, and each must see the commits of the other.
    put(&*again, "/new", "seen at once").await;
    assert_eq!(text(fs, "/new").await, "seen at once");
    put(fs, "/new", "both ways").await;
    assert_eq!(text(&*again, "/new").await, "both ways");
}
