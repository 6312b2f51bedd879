//! Version log: pages of changes, in the complete tree or in subtrees, and waiting for more.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::time::Duration;

use futures::FutureExt;
use garth_engine::ErrorKind::InvalidArgument;
use garth_engine::model::ChangeKind::{Attributes, Created, Linked, Modified, Removed, Renamed};
use garth_engine::model::{
    Batch, Change, ChangeKind, Changes, ChangesQuery, CommitChanges, Ino, LogPosition, MAX_CHANGE_PATHS,
    MAX_CHANGES_BYTES, MAX_SCANNED, MAX_SUBTREES, Op, Remove, RenameMode, Seq, SetAttrs,
};

use super::suite::checks;
use crate::subject::Subject;
use crate::tools::*;

checks! {
    changes_are_listed_in_order_and_pages [history]
    changes_page_may_end_within_commit [history]
    changes_page_has_a_maximum_size [history]
    changes_page_scans_bounded_log [history]
    change_names_every_path_of_node [history links]
    subtree_changes_exclude_outside [history links snapshots]
    rename_across_subtree_is_creation_or_removal [history nodes]
    changes_above_subtree_show_at_its_top [history nodes]
    subtree_pages_advance_past_hidden_commits [history]
    changes_query_has_a_maximum_of_subtrees [history]
    wait_ends_with_the_next_commit [history]
    wait_ends_with_commit_of_another_instance [history]
}

async fn head(fs: &Fs) -> Seq {
    fs.head().await.unwrap().seq
}

async fn page(fs: &Fs, since: impl Into<LogPosition>, limit: usize) -> Changes {
    fs.changes(&ChangesQuery::since(since).limit(limit)).await.unwrap()
}

/// Returns the query for the changes after a page.
fn behind(mut query: ChangesQuery, page: &Changes) -> ChangesQuery {
    query.since = page.until;
    query
}

/// Returns all commits after a position, read in pages of the size of the query. A commit on two pages is
/// joined.
async fn all(fs: &Fs, query: &ChangesQuery) -> Vec<CommitChanges> {
    let mut query = query.clone();
    let mut commits: Vec<CommitChanges> = Vec::new();
    loop {
        let page = fs.changes(&query).await.unwrap();
        for next in page.commits {
            match commits.last_mut() {
                Some(last) if last.commit.seq == next.commit.seq => last.changes.extend(next.changes),
                _ => commits.push(next),
            }
        }
        if page.until == page.head.into() {
            return commits;
        }
        // Otherwise a reader would ask for the same page for ever.
        assert!(page.until > query.since, "each page moves on");
        query.since = page.until;
    }
}

/// Returns the changes of these subtrees after a commit.
async fn seen(fs: &Fs, since: Seq, within: &[&str]) -> Vec<Change> {
    let query = within.iter().fold(ChangesQuery::since(since), |query, top| query.within(p(top)));
    let commits = all(fs, &query).await;
    assert!(commits.iter().all(|commit| !commit.changes.is_empty()), "only commits that show something");
    assert_eq!(all(fs, &query.limit(1)).await, commits, "the same in pages of one");
    commits.into_iter().flat_map(|commit| commit.changes).collect()
}

fn change(kind: ChangeKind, ino: Ino, path: &str) -> Change {
    Change::new(kind, ino, [p(path)])
}

fn numbers(changes: &Changes) -> Vec<Seq> {
    changes.commits.iter().map(|it| it.commit.seq).collect()
}

async fn ino(fs: &Fs, path: &str) -> Ino {
    stat(fs, path).await.ino
}

async fn changes_are_listed_in_order_and_pages(subject: &Subject) {
    let fs = &*subject.fs;
    let start = head(fs).await;
    let mut seqs = Vec::new();
    for _ in 0..5 {
        seqs.push(apply(fs, append("/f", "x")).await.0.seq);
    }
    let everything = page(fs, start, 100).await;
    assert_eq!((numbers(&everything), everything.head), (seqs.clone(), seqs[4]));
    assert_eq!(everything.until, seqs[4].into());
    let first = page(fs, seqs[0], 2).await;
    assert_eq!((numbers(&first), first.until, first.head), (seqs[1..3].to_vec(), seqs[2].into(), seqs[4]));
    // An empty batch takes a sequence number, which readers of the log must see.
    let empty = fs.commit(Batch::default().message("nothing")).await.unwrap().seq;
    let last = page(fs, seqs[4], 1).await;
    assert_eq!(
        (numbers(&last), last.commits[0].changes.len()),
        (vec![empty], 0),
        "it is a commit all the same"
    );
    // A position at or after the head gives an empty page, and no error.
    for since in [empty, Seq(empty.0 + 1), Seq(u64::MAX)] {
        let none = page(fs, since, 10).await;
        assert!(none.commits.is_empty());
        assert_eq!((none.until, none.head), (since.into(), empty));
    }
}

async fn changes_page_may_end_within_commit(subject: &Subject) {
    let fs = &*subject.fs;
    let start = head(fs).await;
    let large =
        fs.commit(Batch::new((0..3000).map(|number| mkdir(&format!("/d{number:04}"))))).await.unwrap();
    let after = apply(fs, mkdir("/last")).await.0.seq;
    let paths = |changes: &Changes| -> Vec<String> {
        let changes = changes.commits.iter().flat_map(|commit| &commit.changes);
        changes.map(|change| change.path().unwrap().to_string()).collect()
    };
    let first = page(fs, start, 2).await;
    assert_eq!(paths(&first), ["/d0000", "/d0001"]);
    assert_eq!(first.until, LogPosition { seq: start, changes: 2 });
    // A page may begin anywhere within a commit.
    for skip in [2, 500, 2997] {
        let middle = page(fs, LogPosition { seq: start, changes: skip }, 2).await;
        assert_eq!(paths(&middle), [format!("/d{skip:04}"), format!("/d{:04}", skip + 1)]);
        assert_eq!(middle.until, LogPosition { seq: start, changes: skip + 2 });
    }
    let end = page(fs, LogPosition { seq: start, changes: 2999 }, 2).await;
    assert_eq!((paths(&end), numbers(&end)), (vec!["/d2999".into(), "/last".into()], vec![large.seq, after]));
    assert_eq!(end.until, after.into());
    let beyond = page(fs, LogPosition { seq: start, changes: 4000 }, 2).await;
    assert_eq!(numbers(&beyond), [after], "a commit has no more changes than it has");
    let whole = all(fs, &ChangesQuery::since(start).limit(999)).await;
    assert_eq!(whole.iter().map(|commit| commit.changes.len()).collect::<Vec<_>>(), [3000, 1]);
}

async fn changes_page_has_a_maximum_size(subject: &Subject) {
    let fs = &*subject.fs;
    let start = head(fs).await;
    let count = MAX_CHANGES_BYTES / 4000 + 10;
    for _ in 0..count {
        fs.commit(Batch::new([append("/f", "x")]).message("m".repeat(4000)).visible()).await.unwrap();
    }
    let first = page(fs, start, 10_000).await;
    let shown = first.commits.len();
    // The page ends because of its bytes, and not much before.
    assert!(shown < count && shown * 4000 <= MAX_CHANGES_BYTES && (shown + 1) * 4100 > MAX_CHANGES_BYTES);
    assert_eq!(first.until, first.commits[shown - 1].commit.seq.into());
    assert_eq!(all(fs, &ChangesQuery::since(start).limit(10_000)).await.len(), count);
}

async fn changes_page_scans_bounded_log(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/in"), write("/out", "")]).await;
    let start = head(fs).await;
    // Each of them scans the change and the one name of its node.
    let looked = MAX_SCANNED as u64 / 2;
    let outside = (0..looked + 1000).map(|_| set("/out", SetAttrs::default()));
    fs.commit(Batch::new(outside)).await.unwrap();
    let inside = apply(fs, write("/in/f", "")).await.0.seq;
    let query = ChangesQuery::since(start).within(p("/in"));
    let first = fs.changes(&query).await.unwrap();
    assert_eq!((first.commits.len(), first.until), (0, LogPosition { seq: start, changes: looked }));
    let rest = fs.changes(&behind(query, &first)).await.unwrap();
    assert_eq!((numbers(&rest), rest.until), (vec![inside], inside.into()));
}

async fn change_names_every_path_of_node(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/z", ""), mkdir("/d-"), link("/d/z", "/d-/f"), link("/d/z", "/a")])
        .await;
    let node = ino(fs, "/a").await;
    let modified = |paths: &[&str]| Change::new(Modified, node, paths.iter().map(|path| p(path)));
    let start = head(fs).await;
    given(fs, [append("/a", "x")]).await;
    assert_eq!(seen(fs, start, &[]).await, [modified(&["/a", "/d/z", "/d-/f"])]);
    assert_eq!(seen(fs, start, &["/d"]).await, [modified(&["/d/z"])]);
    assert_eq!(seen(fs, start, &["/a", "/d-"]).await, [modified(&["/a", "/d-/f"])]);
    // Later commits must not change what an earlier change names.
    given(fs, [rename("/d-", "/e"), remove("/a", Remove::Any)]).await;
    let then = fs.as_of(&Seq(start.0 + 1).into()).await.unwrap();
    for fs in [fs, &*then] {
        let first = &page(fs, start, 1).await.commits[0].changes;
        assert_eq!(*first, [modified(&["/a", "/d/z", "/d-/f"])], "its names of that time");
    }
    let start = head(fs).await;
    fs.commit(Batch::new([append("/d/z", "y"), remove("/d/z", Remove::Any)])).await.unwrap();
    let log = seen(fs, start, &[]).await;
    assert_eq!(log, [modified(&["/e/f"]), change(Removed, node, "/d/z")]);
    // More names than one change lists.
    let links = (0..MAX_CHANGE_PATHS + 20).map(|number| link("/e/f", &format!("/d/{number:03}")));
    fs.commit(Batch::new(links)).await.unwrap();
    let start = head(fs).await;
    given(fs, [append("/e/f", "z")]).await;
    let paths = &seen(fs, start, &[]).await[0].paths;
    assert_eq!((paths.len(), &paths[0]), (MAX_CHANGE_PATHS, &p("/d/000")));
    assert_eq!(seen(fs, start, &["/e"]).await, [modified(&["/e/f"])]);
}

async fn subtree_changes_exclude_outside(subject: &Subject) {
    let fs = &*subject.fs;
    // Names that a search by prefix, by pattern or without case would mistake for `/a`.
    given(fs, [mkdir("/a"), mkdir("/ab"), mkdir("/a%"), mkdir("/A"), write("/a/f", "1"), mkdir("/b")]).await;
    let (dir, file) = (ino(fs, "/a").await, ino(fs, "/a/f").await);
    let start = head(fs).await;
    let outside = [
        write("/ab/x", ""),
        write("/a%/x", ""),
        write("/A/f", ""),
        set("/", SetAttrs::default()),
        Op::snapshot("s"),
        Op::drop_snapshot("s"),
        append("/ab/x", "y"),
        link("/ab/x", "/b/x"),
        remove("/ab/x", Remove::Any),
    ];
    given(fs, outside).await;
    assert_eq!(seen(fs, start, &["/a"]).await, []);
    assert_eq!(seen(fs, start, &["/a", "/none"]).await, []);
    assert_eq!(seen(fs, start, &["/"]).await.len(), 9);
    assert_eq!(seen(fs, start, &["/b", "/A"]).await.len(), 2);
    let start = head(fs).await;
    given(fs, [set("/a", SetAttrs::default()), link("/a/f", "/b/f"), append("/b/f", "2")]).await;
    given(fs, [remove("/b/f", Remove::Any), write("/a/g", "")]).await;
    let made = ino(fs, "/a/g").await;
    let expected =
        [change(Attributes, dir, "/a"), change(Modified, file, "/a/f"), change(Created, made, "/a/g")];
    assert_eq!(seen(fs, start, &["/a"]).await, expected, "a name outside changes nothing inside");
    let expected =
        [change(Linked, file, "/b/f"), change(Modified, file, "/b/f"), change(Removed, file, "/b/f")];
    assert_eq!(seen(fs, start, &["/b"]).await, expected);
    let start = head(fs).await;
    let both = Batch::new([append("/a/f", "3"), append("/a%/x", "4")]).message("both");
    fs.commit(both).await.unwrap();
    let shown = all(fs, &ChangesQuery::since(start).within(p("/a"))).await;
    assert_eq!((shown[0].commit.message.as_str(), shown[0].changes.len()), ("both", 1));
}

async fn rename_across_subtree_is_creation_or_removal(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/in"), mkdir("/out"), write("/in/f", "1"), write("/out/g", "2"), mkdir("/in2")]).await;
    let (f, g) = (ino(fs, "/in/f").await, ino(fs, "/out/g").await);
    let renamed = |from: &str, ino, to: &str| change(Renamed { from: p(from) }, ino, to);
    let cases = [
        (rename("/in/f", "/in/h"), vec![renamed("/in/f", f, "/in/h")]),
        (rename("/in/h", "/out/f"), vec![change(Removed, f, "/in/h")]),
        (rename("/out/g", "/in/g"), vec![change(Created, g, "/in/g")]),
        (rename("/out/f", "/out/h"), vec![]),
        (
            rename_as("/in/g", "/out/h", RenameMode::Exchange),
            vec![change(Removed, g, "/in/g"), change(Created, f, "/in/g")],
        ),
        (rename("/out/h", "/in/g"), vec![change(Removed, f, "/in/g"), change(Created, g, "/in/g")]),
    ];
    for (op, expected) in cases {
        let (start, what) = (head(fs).await, format!("{op:?}"));
        given(fs, [op]).await;
        assert_eq!(seen(fs, start, &["/in"]).await, expected, "{what}");
    }
    let start = head(fs).await;
    given(fs, [rename("/in/g", "/in2/g")]).await;
    assert_eq!(seen(fs, start, &["/in", "/in2"]).await, [renamed("/in/g", g, "/in2/g")], "both are inside");
}

async fn changes_above_subtree_show_at_its_top(subject: &Subject) {
    let fs = &*subject.fs;
    let start = head(fs).await;
    given(fs, [mkdir_all("/a/b/c")]).await;
    let first = ino(fs, "/a/b").await;
    // The subtrees lie below the directories that change, and one never exists.
    let within = ["/a/b", "/a/none", "/z/b"];
    assert_eq!(
        seen(fs, start, &within).await,
        [change(Created, first, "/a/b"), change(Created, ino(fs, "/a/b/c").await, "/a/b/c")],
        "an empty directory above brings nothing"
    );
    let start = head(fs).await;
    // The change of attributes above is not shown, and the rename is.
    given(fs, [set("/a", SetAttrs::default()), rename("/a", "/z")]).await;
    assert_eq!(
        seen(fs, start, &within).await,
        [change(Removed, first, "/a/b"), change(Created, first, "/z/b")]
    );
    assert_eq!(seen(fs, start, &["/z/b"]).await, [change(Created, first, "/z/b")]);
    let start = head(fs).await;
    given(fs, [copy("/z", "/a")]).await;
    let second = ino(fs, "/a/b").await;
    assert_eq!(seen(fs, start, &within).await, [change(Created, second, "/a/b")]);
    let start = head(fs).await;
    given(fs, [rename_as("/a", "/z", RenameMode::Exchange)]).await;
    let expected = [
        change(Removed, second, "/a/b"),
        change(Created, second, "/z/b"),
        change(Removed, first, "/z/b"),
        change(Created, first, "/a/b"),
    ];
    assert_eq!(seen(fs, start, &within).await, expected);
    let start = head(fs).await;
    given(fs, [remove("/a", Remove::Tree), write("/a", "a file"), remove("/z/b", Remove::Tree)]).await;
    let expected = [change(Removed, first, "/a/b"), change(Removed, second, "/z/b")];
    assert_eq!(seen(fs, start, &within).await, expected);
    let start = head(fs).await;
    given(fs, [remove("/z", Remove::Tree), remove("/a", Remove::Any)]).await;
    assert_eq!(seen(fs, start, &within).await, [], "what was not there did not go");
    given(fs, [mkdir_all("/in/top")]).await;
    let top = ino(fs, "/in/top").await;
    let start = head(fs).await;
    given(fs, [rename("/in", "/a")]).await;
    let expected = [change(Removed, top, "/in/top"), change(Created, top, "/a/top")];
    assert_eq!(seen(fs, start, &["/in/top", "/a/top"]).await, expected);
}

async fn subtree_pages_advance_past_hidden_commits(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/in")]).await;
    let start = head(fs).await;
    given(fs, [write("/1", ""), write("/2", ""), write("/in/3", ""), write("/4", "")]).await;
    let query = ChangesQuery::since(start).within(p("/in")).limit(1);
    let first = fs.changes(&query).await.unwrap();
    assert_eq!((numbers(&first), first.until), (vec![Seq(start.0 + 3)], Seq(start.0 + 3).into()));
    let rest = fs.changes(&behind(query, &first)).await.unwrap();
    assert_eq!((numbers(&rest), rest.until, rest.head), (vec![], Seq(start.0 + 4).into(), Seq(start.0 + 4)));
}

async fn changes_query_has_a_maximum_of_subtrees(subject: &Subject) {
    let fs = &*subject.fs;
    let subtrees = |count: usize| {
        (0..count).fold(ChangesQuery::default(), |query, number| query.within(p(&format!("/{number}"))))
    };
    fs.changes(&subtrees(MAX_SUBTREES)).await.unwrap();
    assert_error(fs.changes(&subtrees(MAX_SUBTREES + 1)).await, InvalidArgument, None);
}

async fn wait_ends_with_the_next_commit(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/f", "1").await;
    let seq = head(fs).await;
    assert_eq!(fs.wait(Seq(seq.0 - 1)).await.unwrap().seq, seq, "it is there already");
    let mut waiting: Vec<_> = (0..20).map(|_| fs.wait(seq)).collect();
    for wait in &mut waiting {
        assert!(wait.now_or_never().is_none(), "nothing was committed");
    }
    // Waiters that stop must not keep the others from being woken.
    waiting.truncate(10);
    // A batch that fails is no commit and wakes nobody.
    batch_refused(
        fs,
        Batch::new([remove("/no", Remove::Any)]),
        garth_engine::ErrorKind::NotFound,
        Some("/no"),
    )
    .await;
    let commit = apply(fs, write("/f", "2")).await.0;
    for wait in waiting {
        let head = tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it ends").unwrap();
        assert_eq!((head.seq, head.time), (commit.seq, commit.time));
    }
    assert!(fs.wait(commit.seq).now_or_never().is_none());
}

async fn wait_ends_with_commit_of_another_instance(subject: &Subject) {
    let fs = &*subject.fs;
    let Some(reopen) = &subject.reopen else { return };
    let other = reopen().await.fs;
    for round in 0..3 {
        let seq = head(fs).await;
        let mut wait = fs.wait(seq);
        assert!((&mut wait).now_or_never().is_none());
        let commit = apply(&*other, write("/f", format!("{round}"))).await.0;
        let head = tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it ends").unwrap();
        assert_eq!(head.seq, commit.seq);
        assert_eq!(text(fs, "/f").await, format!("{round}"));
    }
}
