//! Retries: a batch that is committed again, by its id or its idempotency key, has the first result.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::time::Duration;

use futures::FutureExt;
use garth_engine::ErrorKind::{IdempotencyMismatch, NotFound, TooLarge};
use garth_engine::model::{Batch, CommitId, Idempotency, MAX_NOTE, Moment, Remove, Seq};

use super::suite::checks;
use crate::subject::{START, Subject};
use crate::tools::*;

checks! {
    retry_returns_the_first_commit [log]
    retry_with_same_id_commits_once [log]
    committed_returns_a_lost_result [log]
    abandoned_batch_can_be_queried [log]
    idempotency_record_serves_id_and_key [log]
    retry_returns_the_first_note [log]
    key_record_is_found_until_expiry [log]
}

pub(super) fn record(key: &str, hash: u8, seconds: i64) -> Idempotency {
    Idempotency::new(key, [hash; 32], START.plus_seconds(seconds))
}

async fn retry_returns_the_first_commit(subject: &Subject) {
    let fs = &*subject.fs;
    let batch = |hash| Batch {
        idempotency: Some(record("k", hash, 10)),
        ..Batch::new([append("/f", "x"), mkdir_all("/d")])
    };
    let first = fs.commit(batch(1)).await.unwrap();
    put(fs, "/g", "").await;
    let again = fs.commit(batch(1)).await.unwrap();
    assert!(!first.replayed && again.replayed);
    assert_eq!((again.seq, again.time, &again.outcomes), (first.seq, first.time, &first.outcomes));
    assert_eq!((text(fs, "/f").await.as_str(), fs.head().await.unwrap().seq), ("x", subject.seq(2)));
    // The hash of the request tells a retry from another request under the same key.
    batch_refused(fs, batch(2), IdempotencyMismatch, None).await;
    subject.clock.advance(Duration::from_secs(10));
    // The record has ended, so the key is free again.
    let anew = fs
        .commit(Batch { idempotency: Some(record("k", 2, 100)), ..Batch::new([append("/f", "y")]) })
        .await
        .unwrap();
    assert_eq!((anew.replayed, anew.seq, text(fs, "/f").await.as_str()), (false, subject.seq(3), "xy"));
}

async fn retry_with_same_id_commits_once(subject: &Subject) {
    let fs = &*subject.fs;
    let batch = |id| Batch { id: Some(CommitId(id)), ..Batch::new([append("/f", "x"), mkdir_all("/d")]) };
    // The extreme ids: neither means that there is none.
    for id in [u128::MAX, 0] {
        let first = fs.commit(batch(id)).await.unwrap();
        assert!(!first.replayed);
        put(fs, "/g", "").await;
        let head = fs.head().await.unwrap();
        for _ in 0..2 {
            let again = fs.commit(batch(id)).await.unwrap();
            assert_eq!((again.seq, again.time, &again.outcomes), (first.seq, first.time, &first.outcomes));
            assert!(again.replayed);
        }
        assert_eq!(fs.head().await.unwrap(), head);
    }
    assert_eq!(text(fs, "/f").await, "xx");
}

async fn committed_returns_a_lost_result(subject: &Subject) {
    let fs = &*subject.fs;
    let id = CommitId(7);
    assert_eq!(fs.committed(id).await.unwrap(), None);
    let refused = Batch::new([remove("/no", Remove::Any)]).id(id);
    batch_refused(fs, refused, NotFound, Some("/no")).await;
    assert_eq!(fs.committed(id).await.unwrap(), None, "what was refused is no commit");
    let batch = Batch::new([append("/f", "x"), mkdir_all("/d"), mkdir_all("/d")]).id(id);
    let first = fs.commit(batch).await.unwrap();
    // The result is kept even after its node is removed.
    given(fs, [remove("/f", Remove::File)]).await;
    let found = fs.committed(id).await.unwrap().unwrap();
    assert!(found.replayed);
    assert_eq!((found.seq, found.time, found.outcomes), (first.seq, first.time, first.outcomes));
    assert_eq!(fs.committed(CommitId(8)).await.unwrap(), None);
    if can(fs).history {
        let before = fs.as_of(&Moment::Seq(Seq(first.seq.0 - 1))).await.unwrap();
        assert_eq!(before.committed(id).await.unwrap(), None, "it is not there yet");
        let then = fs.as_of(&Moment::Seq(first.seq)).await.unwrap();
        assert_eq!(then.committed(id).await.unwrap().map(|commit| commit.seq), Some(first.seq));
    }
    if let Some(reopen) = &subject.reopen {
        assert_eq!(reopen().await.fs.committed(id).await.unwrap().map(|commit| commit.seq), Some(first.seq));
    }
}

async fn abandoned_batch_can_be_queried(subject: &Subject) {
    let fs = &*subject.fs;
    for round in 0..50 {
        let id = CommitId(round);
        let batch = Batch::new([append("/f", format!("{round}\n"))]).id(id);
        // Polled once, then dropped: nobody receives the result.
        drop(fs.commit(batch.clone()).now_or_never());
        let found = fs.committed(id).await.unwrap();
        let commit = match &found {
            Some(commit) => commit.clone(),
            None => fs.commit(batch.clone()).await.unwrap(),
        };
        assert_eq!(commit.replayed, found.is_some());
        let again = fs.commit(batch).await.unwrap();
        assert_eq!((again.seq, again.replayed), (commit.seq, true));
    }
    let lines: Vec<String> = (0..50).map(|round| round.to_string()).collect();
    assert_eq!(text(fs, "/f").await.lines().collect::<Vec<_>>(), lines, "each once, in order");
}

async fn idempotency_record_serves_id_and_key(subject: &Subject) {
    let fs = &*subject.fs;
    let first = Batch::new([append("/f", "x")]).id(CommitId(1)).idempotency(record("k", 1, 10));
    let seq = fs.commit(first.clone()).await.unwrap().seq;
    let by_id = Batch::new([append("/f", "y")]).id(CommitId(1));
    let by_key = Batch::new([append("/f", "y")]).id(CommitId(2)).idempotency(record("k", 1, 10));
    // The request differs, but id or hash decide.
    for retry in [by_id, by_key] {
        let again = fs.commit(retry).await.unwrap();
        assert_eq!((again.seq, again.replayed), (seq, true));
    }
    assert_eq!(fs.committed(CommitId(2)).await.unwrap(), None, "nothing was committed under that id");
    subject.clock.advance(Duration::from_secs(10));
    let again = fs.commit(first).await.unwrap();
    assert_eq!((again.seq, again.replayed), (seq, true), "the key has ended, the id has not");
    assert_eq!(text(fs, "/f").await, "x");
}

async fn retry_returns_the_first_note(subject: &Subject) {
    let fs = &*subject.fs;
    let noted = |note: &str| Batch::new([append("/f", "x")]).idempotency(record("k", 1, 10).note(note));
    let first = fs.commit(noted("first: \u{e9}")).await.unwrap();
    assert_eq!(first.note, "", "only who tries again is told");
    let again = fs.commit(noted("second")).await.unwrap();
    assert_eq!((again.seq, again.replayed, again.note.as_str()), (first.seq, true, "first: \u{e9}"));
    let long = "n".repeat(MAX_NOTE);
    // The note has its own limit, also if the batch has no operations.
    let nothing = |note: &str| Batch::new([]).idempotency(record("nothing", 1, 10).note(note));
    batch_refused(fs, nothing(&format!("{long}n")), TooLarge, None).await;
    let seq = fs.commit(nothing(&long)).await.unwrap().seq;
    let again = fs.commit(nothing("")).await.unwrap();
    assert_eq!((again.seq, again.note), (seq, long), "a commit that changes nothing has a record, too");
}

async fn key_record_is_found_until_expiry(subject: &Subject) {
    let fs = &*subject.fs;
    assert_eq!(fs.recorded("k").await.unwrap(), None);
    let refused = Batch::new([remove("/no", Remove::Any)]).idempotency(record("k", 1, 10));
    batch_refused(fs, refused, NotFound, Some("/no")).await;
    assert_eq!(fs.recorded("k").await.unwrap(), None, "what was refused leaves no record");
    let batch = Batch::new([append("/f", "x"), mkdir_all("/d")]).idempotency(record("k", 1, 10).note("n"));
    let first = fs.commit(batch.visible()).await.unwrap();
    let found = fs.recorded("k").await.unwrap().unwrap();
    assert_eq!(found.request_hash, [1; 32]);
    let commit = found.commit;
    assert_eq!((commit.seq, commit.time, commit.outcomes), (first.seq, first.time, first.outcomes));
    assert_eq!((commit.replayed, commit.note.as_str()), (true, "n"));
    assert_eq!(fs.recorded("other").await.unwrap(), None);
    if can(fs).history {
        let before = fs.as_of(&Moment::Seq(Seq(first.seq.0 - 1))).await.unwrap();
        assert_eq!(before.recorded("k").await.unwrap(), None, "it is not there yet");
    }
    if let Some(reopen) = &subject.reopen {
        assert_eq!(
            reopen().await.fs.recorded("k").await.unwrap().map(|found| found.commit.seq),
            Some(first.seq)
        );
    }
    subject.clock.advance(Duration::from_secs(10));
    assert_eq!(fs.recorded("k").await.unwrap(), None, "its time is over");
}
