//! Blame: the commit that wrote each byte, whatever happened to the file afterwards.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use garth_engine::ErrorKind::{InvalidArgument, IsADirectory, NotFound};
use garth_engine::model::{Author, Batch, Blame, ByteRange, MAX_PAGE, Moment, Op, Seq};

use super::suite::checks;
use crate::subject::Subject;
use crate::tools::*;

checks! {
    blame_names_commit_of_each_byte [history]
    replaced_content_is_blamed_on_new_commit [history]
    deduplicated_append_is_blamed_on_its_commit [history]
    blame_lists_commits_in_pages [history]
    blame_rejects_directories_and_links [history]
}

/// Returns length and commit of each run of a complete file.
async fn runs(fs: &Fs, path: &str) -> Vec<(u64, Option<u64>)> {
    let blame = fs.blame(&at(path), ByteRange::ALL, MAX_PAGE).await.unwrap();
    assert_eq!(blame.next, None);
    short(&blame)
}

fn short(blame: &Blame) -> Vec<(u64, Option<u64>)> {
    blame.runs.iter().map(|run| (run.range.length, run.commit.map(|seq| seq.0))).collect()
}

/// Commits one operation and returns the sequence number.
async fn commit(fs: &Fs, op: Op) -> u64 {
    apply(fs, op).await.0.seq.0
}

async fn blame_names_commit_of_each_byte(subject: &Subject) {
    let fs = &*subject.fs;
    let first = commit(fs, write("/f", "0123456789")).await;
    let patched = commit(fs, patch("/f", 2, "ab")).await;
    let appended = commit(fs, append("/f", "more")).await;
    let expected = [(2, Some(first)), (2, Some(patched)), (6, Some(first)), (4, Some(appended))];
    assert_eq!(runs(fs, "/f").await, expected);
    commit(fs, set("/f", garth_engine::model::SetAttrs::new().mode(0o600))).await;
    commit(fs, rename("/f", "/g")).await;
    assert_eq!(runs(fs, "/g").await, expected, "what writes no bytes changes nothing");
    commit(fs, truncate("/g", 5)).await;
    assert_eq!(runs(fs, "/g").await, [(2, Some(first)), (2, Some(patched)), (1, Some(first))]);
    let grown = commit(fs, truncate("/g", 8)).await;
    assert_eq!(runs(fs, "/g").await.last(), Some(&(3, None)), "nobody wrote a hole");
    let past = fs.as_of(&Moment::Seq(Seq(grown - 1))).await.unwrap();
    assert_eq!(runs(&*past, "/g").await, [(2, Some(first)), (2, Some(patched)), (1, Some(first))]);
}

async fn replaced_content_is_blamed_on_new_commit(subject: &Subject) {
    let fs = &*subject.fs;
    let large = vec![7; 200_000];
    let first = commit(fs, write("/f", large.clone())).await;
    commit(fs, patch("/f", 5, "x")).await;
    // A copy shares the stored content, so blame must not be read from where it is stored.
    let copied = commit(fs, copy("/f", "/copy")).await;
    assert_eq!(runs(fs, "/copy").await, [(200_000, Some(copied))]);
    // Equal content may be deduplicated, and belongs to the new commit all the same.
    let again = commit(fs, write("/f", large)).await;
    assert!(again > first);
    assert_eq!(runs(fs, "/f").await, [(200_000, Some(again))]);
    let left = commit(fs, patch("/copy", 1000, "y")).await;
    assert_eq!(runs(fs, "/copy").await, [(1000, Some(copied)), (1, Some(left)), (198_999, Some(copied))]);
}

async fn deduplicated_append_is_blamed_on_its_commit(subject: &Subject) {
    let fs = &*subject.fs;
    let piece = vec![7; 70_000];
    let with = |before: &str, after: &str| {
        let body = [before.as_bytes(), &piece, after.as_bytes()].concat();
        let from = before.len() as u64;
        // The cuts make the piece one chunk, which is stored once for all three appends.
        append("/f", body).cut_at([from, from + 70_000])
    };
    let first = commit(fs, with("one", "")).await;
    let second = commit(fs, with("", "two")).await;
    let third = commit(fs, with("three", "four")).await;
    let expected = [(70_003, Some(first)), (70_003, Some(second)), (70_009, Some(third))];
    assert_eq!(runs(fs, "/f").await, expected);
    // Overwrites the end of the first append and the beginning of the second.
    let patched = commit(fs, patch("/f", 70_000, "border")).await;
    let expected = [(70_000, Some(first)), (6, Some(patched)), (70_000, Some(second)), expected[2]];
    assert_eq!(runs(fs, "/f").await, expected);
    // A collection may move content to another place.
    if let Some(collect) = &subject.collect {
        collect().await.unwrap();
        assert_eq!(runs(fs, "/f").await, expected, "however it is stored");
    }
}

async fn blame_lists_commits_in_pages(subject: &Subject) {
    let fs = &*subject.fs;
    let mut expected = Vec::new();
    for n in 0..20 {
        let author = Author::agent("writer").with_session(format!("s{n}"));
        let batch = Batch { author, message: format!("line {n}"), ..Batch::new([append("/log", "line\n")]) };
        expected.push((5, Some(fs.commit(batch).await.unwrap().seq.0)));
    }
    let mut found = Vec::new();
    let (mut next, mut sessions) = (Some(0), Vec::new());
    while let Some(offset) = next {
        let page = fs.blame(&at("/log"), ByteRange::from(offset..), 3).await.unwrap();
        assert!(page.runs.len() <= 3);
        found.extend(short(&page));
        assert_eq!(page.commits.len(), page.runs.len());
        sessions.extend(page.commits.into_iter().map(|commit| commit.author.session.unwrap()));
        next = page.next;
    }
    assert_eq!(found, expected);
    assert!(sessions.into_iter().eq((0..20).map(|n| format!("s{n}"))));
    let part = fs.blame(&at("/log"), ByteRange::from(7..12), 10).await.unwrap();
    assert_eq!(short(&part), [(3, expected[1].1), (2, expected[2].1)]);
    let behind = fs.blame(&at("/log"), ByteRange::from(1000..), 10).await.unwrap();
    assert_eq!((behind.runs.len(), behind.next), (0, None));
}

async fn blame_rejects_directories_and_links(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/f", "x")]).await;
    assert_error(fs.blame(&at("/d"), ByteRange::ALL, 1).await, IsADirectory, Some("/d"));
    assert_error(fs.blame(&at("/none"), ByteRange::ALL, 1).await, NotFound, Some("/none"));
    for limit in [0, MAX_PAGE + 1] {
        assert_error(fs.blame(&at("/f"), ByteRange::ALL, limit).await, InvalidArgument, None);
    }
}
