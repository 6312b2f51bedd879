//! Readers of a past that is no longer stored, in both engines: what is left is whole, and the rest fails
//! with `Gone`.

use std::sync::Arc;
use std::time::Duration;

use garth_engine::model::{
    At, Author, Batch, Blame, ByteRange, ChangesQuery, CommitId, Confinement, HistoryPage, Idempotency, Ino,
    MAX_PAGE, Moment, Op, Owner, Page, Seq, SessionOf, SnapshotsPage, Timestamp, Version, VersionId, Within,
};
use garth_engine::rule::retention::Retention;
use garth_engine::view::{Mount, Overlay, Scope};
use garth_engine::{Error, ErrorKind, FileSystem, FileSystemExt as _};
use garth_testkit::tools::{append, at, mkdir_all, p, write};

use super::retained_trees::{Engine, START, Tree, commits, history, keeping_commits, past, text};

fn time_of(commit: u64) -> Timestamp {
    Timestamp(START.0 + commit as i64 * 1_000_000_000)
}

#[track_caller]
fn assert_gone<T>(answer: Result<T, Error>, oldest: Seq) {
    let error = answer.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
    assert!(error.message().contains(&format!("ask for {oldest} or later")), "{error}");
}

/// Returns the commits of the versions of a path, read in pages of one.
async fn paged(fs: &dyn FileSystem, path: &str) -> Vec<u64> {
    let (mut found, mut page) = (Vec::new(), HistoryPage::default().limit(1));
    loop {
        let listing = fs.history(&at(path), &page).await.unwrap();
        found.extend(commits(&listing.items));
        if !listing.more {
            return found;
        }
        page = page.before(listing.items[0].id);
    }
}

async fn blame(fs: &dyn FileSystem, path: &str) -> Blame {
    fs.blame(&at(path), ByteRange::ALL, MAX_PAGE).await.unwrap()
}

/// Returns the length of each run of a file with the agent that wrote it, and true for a removed commit.
fn written_by(blame: &Blame) -> Vec<(u64, &str, bool)> {
    let of = |seq: Option<Seq>| blame.commits.iter().find(|commit| Some(commit.seq) == seq).unwrap();
    let run = |length, seq| {
        let commit = of(seq);
        (length, commit.author.agent.as_deref().unwrap_or_default(), commit.folded)
    };
    blame.runs.iter().map(|at| run(at.range.length, at.commit)).collect()
}

/// Returns a view of the tree that reaches a directory.
async fn inside(fs: &dyn FileSystem, dir: &str) -> Arc<dyn FileSystem> {
    let owner = Owner::new("her").unwrap();
    fs.confined(&Confinement::new(Within::new([p(dir)]), owner)).await.unwrap()
}

#[tokio::test]
async fn as_of_before_oldest_is_gone() {
    for tree in Tree::both() {
        tree.fill("/a", 1..=10).await;
        let oldest = tree.keep(4).await;
        let fs = tree.fs();
        for seq in 0..6 {
            assert_gone(past(fs, seq).await, oldest);
        }
        for seq in 6..=10 {
            let then = past(fs, seq).await.unwrap();
            assert_eq!(text(&*then, "/a").await, seq.to_string());
            assert_gone(past(&*then, 5).await, oldest);
        }
        assert_eq!(past(fs, 11).await.err().unwrap().kind(), ErrorKind::NotFound);
        assert_eq!(tree.retain(Retention::default()).await, oldest, "the past does not come back");
    }
}

#[tokio::test]
async fn time_before_oldest_is_gone() {
    for tree in Tree::both() {
        tree.fill("/a", 1..=10).await;
        let oldest = tree.keep(4).await;
        let fs = tree.fs();
        for time in [i64::MIN, 0, time_of(5).0, time_of(6).0 - 1] {
            let moment = Moment::Time(Timestamp(time));
            assert_gone(fs.as_of(&moment).await, oldest);
        }
        for (time, seq) in [(time_of(6).0, 6), (time_of(7).0 - 1, 6), (time_of(7).0, 7), (i64::MAX, 10)] {
            let moment = Moment::Time(Timestamp(time));
            let then = fs.as_of(&moment).await.unwrap();
            assert_eq!(then.head().await.unwrap().seq, Seq(seq));
        }
        // The state that was current three seconds ago stays readable.
        let by_age = Retention { age: Some(Duration::from_secs(3)), ..Retention::default() };
        assert_eq!(tree.retain(by_age).await, Seq(7));
    }
}

#[tokio::test]
async fn snapshot_holds_its_state() {
    for tree in Tree::both() {
        tree.fill("/a", 1..=4).await;
        tree.commit(Op::snapshot("kept")).await;
        tree.fill("/a", 6..=10).await;
        let few = keeping_commits(1);
        assert_eq!(tree.retain(few.clone()).await, Seq(5));
        let (fs, kept) = (tree.fs(), Moment::Snapshot("kept".to_owned()));
        let then = fs.as_of(&kept).await.unwrap();
        assert_eq!(text(&*then, "/a").await, "4");
        assert_gone(past(fs, 4).await, Seq(5));
        let listed = fs.snapshots(&SnapshotsPage::default()).await.unwrap();
        assert_eq!((listed.items[0].seq, listed.items[0].time), (Seq(5), time_of(5)));
        drop(then);
        tree.commit(Op::drop_snapshot("kept")).await;
        assert_eq!(tree.retain(few).await, Seq(10));
        assert_eq!(fs.as_of(&kept).await.err().unwrap().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn view_opened_before_keeps_its_state_only() {
    for tree in Tree::both() {
        tree.fill("/d", 1..=1).await;
        tree.fill("/a", 2..=6).await;
        let fs = tree.fs();
        let then = past(fs, 3).await.unwrap();
        let file = then.open(&at("/a")).await.unwrap();
        let version = then.stat(&at("/a")).await.unwrap().version;
        tree.commit(Op::remove(at("/a"))).await;
        tree.commit(Op::remove(at("/d"))).await;
        let oldest = tree.keep(1).await;
        // Twice: the first collection may only announce what the second removes.
        assert_eq!(tree.keep(1).await, oldest);
        assert_eq!((text(&*then, "/a").await, text(&*then, "/d").await), ("3".to_owned(), "1".to_owned()));
        assert_eq!(then.list(&at("/"), &Page::default()).await.unwrap().items.len(), 2);
        assert_eq!(then.head().await.unwrap().seq, Seq(3));
        assert_eq!(file.read_at(0, 9).await.unwrap(), "3".as_bytes());
        assert_eq!(blame(&*then, "/a").await.commits[0].seq, Seq(3));
        assert_gone(past(&*then, 3).await, oldest);
        assert_gone(history(&*then, "/a").await, oldest);
        assert_gone(then.open_version(version).await.map(drop), oldest);
        assert_gone(then.changes(&ChangesQuery::since(Seq(0))).await, oldest);
        assert_gone(past(fs, 3).await, oldest);
    }
}

#[tokio::test]
async fn version_before_oldest_is_gone() {
    for tree in Tree::both() {
        tree.fill("/old", 1..=1).await;
        tree.fill("/a", 2..=6).await;
        tree.commit(write("/removed", "x")).await;
        let fs = tree.fs();
        let of = async |path: &str| fs.stat(&at(path)).await.unwrap().ino;
        let (old, a, removed) = (of("/old").await, of("/a").await, of("/removed").await);
        tree.commit(Op::remove(at("/removed"))).await;
        tree.fill("/a", 9..=12).await;
        let oldest = tree.keep(2).await;
        let open = async |seq, ino| fs.open_version(VersionId { seq: Seq(seq), ino }).await;
        for (seq, ino) in [(2, a), (9, a), (7, removed), (8, removed), (2, old), (1, Ino(9999))] {
            assert_gone(open(seq, ino).await.map(drop), oldest);
        }
        // The oldest state shows the first one, although its commit is gone.
        for (seq, ino) in [(1, old), (10, a), (11, a), (12, a)] {
            let file = open(seq, ino).await.unwrap();
            assert_eq!(file.read_at(0, 9).await.unwrap(), seq.to_string().as_bytes());
        }
        for (seq, ino) in [(10, Ino(9999)), (11, old), (13, a)] {
            assert_eq!(open(seq, ino).await.map(drop).unwrap_err().kind(), ErrorKind::NotFound);
        }
    }
}

#[tokio::test]
async fn history_ends_with_the_oldest_state() {
    for tree in Tree::both() {
        let scout = Author::agent("scout");
        tree.commit(Batch::from(write("/old", "1")).author(scout.clone()).message("why")).await;
        tree.fill("/a", 2..=6).await;
        let fs = tree.fs();
        let before = history(fs, "/old").await.unwrap();
        assert_eq!((&*before[0].commit.message, before[0].commit.folded), ("why", false));
        let oldest = tree.keep(2).await;
        let versions = history(fs, "/a").await.unwrap();
        assert_eq!(commits(&versions), [6, 5, 4]);
        assert!(versions.iter().all(|version| !version.commit.folded), "the oldest state has its commit");
        let versions = history(fs, "/old").await.unwrap();
        assert_eq!(versions.len(), 1);
        let version = &versions[0];
        assert_eq!((version.id, &version.entry), (before[0].id, &before[0].entry));
        let commit = &version.commit;
        assert_eq!((commit.seq, commit.time, &commit.author), (Seq(1), time_of(oldest.0), &scout));
        assert_eq!((&*commit.message, commit.folded), ("", true));
        let root = history(fs, "/").await.unwrap();
        assert_eq!(commits(&root), [2], "its version of the oldest state");
    }
}

#[tokio::test]
async fn history_page_before_oldest_is_gone() {
    for tree in Tree::both() {
        tree.fill("/a", 1..=6).await;
        let oldest = tree.keep(2).await;
        let fs = tree.fs();
        let ino = fs.stat(&at("/a")).await.unwrap().ino;
        let page = async |seq, ino| {
            let page = HistoryPage::default().before(VersionId { seq: Seq(seq), ino });
            fs.history(&at("/a"), &page).await.map(|found| commits(&found.items))
        };
        assert_eq!(page(6, ino).await.unwrap(), [5, 4]);
        assert_eq!(page(5, ino).await.unwrap(), [4]);
        assert_eq!(page(4, ino).await.unwrap(), [0; 0], "after the last version");
        for (seq, ino) in [(4, Ino(9999)), (3, ino), (1, ino), (0, ino)] {
            assert_gone(page(seq, ino).await, oldest);
        }
        assert_eq!(paged(fs, "/a").await, [6, 5, 4]);
    }
}

#[tokio::test]
async fn history_pages_have_every_node_of_the_oldest_state() {
    for tree in Tree::both() {
        tree.fill("/a", 1..=1).await;
        tree.fill("/b", 2..=2).await;
        tree.fill("/c", 3..=4).await;
        tree.commit(Op::remove(at("/a"))).await;
        tree.commit(Op::rename(at("/b"), at("/a"))).await;
        let oldest = tree.keep(2).await;
        assert_eq!(oldest, Seq(4));
        assert_eq!(paged(tree.fs(), "/a").await, [6, 5, 2, 1]);
    }
}

#[tokio::test]
async fn name_of_folded_life_is_unknown() {
    for tree in Tree::both() {
        for path in ["/early", "/at", "/late"] {
            tree.commit(write(path, "x")).await;
        }
        let fs = tree.fs();
        let early = fs.stat(&at("/early")).await.unwrap().ino;
        for path in ["/early", "/at", "/late"] {
            tree.commit(Op::remove(at(path))).await;
        }
        tree.fill("/a", 7..=7).await;
        assert_eq!(commits(&history(fs, "/early").await.unwrap()), [4, 1]);
        assert_eq!(tree.keep(2).await, Seq(5));
        for path in ["/early", "/at", "/never"] {
            assert_eq!(history(fs, path).await.unwrap_err().kind(), ErrorKind::NotFound, "{path}");
        }
        assert_eq!(commits(&history(fs, "/late").await.unwrap()), [6, 3]);
        let by_inode = fs.history(&At::from(early), &HistoryPage::default()).await;
        assert_eq!(by_inode.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn changes_before_oldest_are_gone() {
    for tree in Tree::both() {
        let [user, agent, session] = ["ann", "scout", "work"].map(str::to_owned);
        let author = Author::agent("scout").with_user("ann").with_session("work");
        for number in 0..8 {
            let op = write("/in/a", number.to_string()).with_parents();
            tree.commit(Batch::from(op).author(author.clone())).await;
        }
        let oldest = tree.keep(3).await;
        let view = inside(tree.fs(), "/in").await;
        let of = SessionOf { user, agent, session };
        for fs in [tree.fs(), &*view] {
            let since = |seq| ChangesQuery::since(Seq(seq));
            for query in [since(0), since(4), since(4).within(p("/in")), since(4).session(of.clone())] {
                assert_gone(fs.changes(&query).await, oldest);
            }
            for query in [since(5), since(5).within(p("/in")), since(5).session(of.clone())] {
                let found = fs.changes(&query).await.unwrap();
                let seqs: Vec<u64> = found.commits.iter().map(|commit| commit.commit.seq.0).collect();
                assert_eq!((seqs, found.until.seq), (vec![6, 7, 8], Seq(8)), "{query:?}");
            }
        }
    }
}

#[tokio::test]
async fn changes_of_oldest_commit_name_a_later_one() {
    for tree in Tree::both() {
        tree.commit(write("/in/a", "1").with_parents()).await;
        tree.fill("/a", 2..=6).await;
        tree.commit(write("/in/a", "7")).await;
        assert_eq!(tree.keep(3).await, Seq(4));
        let (fs, scope) = (tree.fs(), Scope::open(tree.fs(), &p("/in")).await.unwrap());
        let advised = async |fs: &dyn FileSystem, seq| {
            let error = fs.changes_of(Seq(seq)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
            let failure = format!("the changes of commit {seq} are no longer stored; ask for ");
            error.message().strip_prefix(&failure).unwrap().to_owned()
        };
        for seq in [1, 3, 4] {
            assert_eq!(advised(fs, seq).await, "5 or later");
            assert_eq!(advised(&*scope, seq).await, "7 or later");
        }
        assert_eq!(fs.changes_of(Seq(5)).await.unwrap().changes.len(), 1);
        assert_eq!(scope.changes_of(Seq(7)).await.unwrap().changes.len(), 1);
        tree.keep(0).await;
        assert_eq!(advised(fs, 7).await, "a later commit");
    }
}

#[tokio::test]
async fn blame_keeps_author_after_folding() {
    for tree in Tree::both() {
        let by = |agent: &str, op: Op| Batch::from(op.with_parents()).author(Author::agent(agent));
        tree.commit(by("scout", append("/in/log", "one\n"))).await;
        tree.commit(append("/in/log", "of nobody\n")).await;
        tree.commit(by("clerk", append("/in/log", "three\n"))).await;
        tree.commit(by("clerk", write("/in/other", "x"))).await;
        tree.commit(by("scout", append("/in/log", "five\n"))).await;
        let oldest = tree.keep(1).await;
        let fs = tree.fs();
        let view = inside(fs, "/in").await;
        let then = past(fs, 4).await.unwrap();
        let expected = [(4, "scout", true), (10, "", true), (6, "clerk", true), (5, "scout", false)];
        assert_eq!(written_by(&blame(fs, "/in/log").await), expected);
        assert_eq!(written_by(&blame(&*view, "/in/log").await), expected);
        assert_eq!(written_by(&blame(&*then, "/in/log").await), expected[..3]);
        let found = blame(fs, "/in/log").await;
        let first = &found.commits[0];
        assert_eq!((first.seq, first.time, first.id), (Seq(1), time_of(oldest.0), None));
        // Which names a node had before the oldest state is not known: the view may not have shown it.
        tree.commit(by("clerk", append("/private", "hidden\n"))).await;
        tree.commit(Op::rename(at("/private"), at("/in/shown"))).await;
        assert_eq!(written_by(&blame(&*view, "/in/shown").await), [(7, "", false)]);
        tree.keep(0).await;
        assert_eq!(written_by(&blame(&*view, "/in/shown").await), [(7, "", true)]);
        assert_eq!(written_by(&blame(tree.fs(), "/in/shown").await), [(7, "clerk", true)]);
    }
}

#[tokio::test]
async fn history_keeps_author_of_a_moved_file_for_the_account() {
    for tree in Tree::both() {
        let scout = Author::agent("scout");
        tree.commit(Batch::from(write("/from/a", "1").with_parents()).author(scout.clone())).await;
        tree.commit(Op::rename(at("/from"), at("/to"))).await;
        tree.fill("/other", 3..=4).await;
        let view = inside(tree.fs(), "/to").await;
        assert_eq!(tree.keep(1).await, Seq(3));
        let author = |versions: &[Version]| versions[0].commit.author.clone();
        assert_eq!(author(&history(tree.fs(), "/to/a").await.unwrap()), scout);
        assert_eq!(
            author(&history(&*view, "/to/a").await.unwrap()),
            Author::default(),
            "moved into the view"
        );
    }
}

#[tokio::test]
async fn merged_bytes_keep_their_authors() {
    for tree in Tree::both() {
        let mut expected = Vec::new();
        for number in 0..200_usize {
            let agent = ["scout", "clerk", "scribe"][number % 3];
            let line = format!("line {number:03}\n");
            expected.push((line.len() as u64, agent, true));
            tree.commit(Batch::from(append("/log", line)).author(Author::agent(agent))).await;
        }
        if let Engine::Stored(fs) = &tree.engine {
            assert!(fs.gc(Duration::ZERO).await.unwrap().merged > 0, "merged before the past ends");
        }
        tree.commit(write("/last", "x")).await;
        tree.keep(0).await;
        assert_eq!(written_by(&blame(tree.fs(), "/log").await), expected);
    }
}

#[tokio::test]
async fn copy_of_folded_state_is_gone() {
    for tree in Tree::both() {
        tree.fill("/a", 1..=6).await;
        let oldest = tree.keep(2).await;
        let fs = tree.fs();
        let copy = |seq| Op::copy(at("/a"), at("/copy")).as_of(Seq(seq));
        for seq in [0, 3] {
            assert_gone(fs.commit(copy(seq).into()).await, oldest);
        }
        assert_eq!(fs.head().await.unwrap().seq, Seq(6));
        tree.commit(copy(4)).await;
        assert_eq!(text(fs, "/copy").await, "4");
    }
}

#[tokio::test]
async fn restore_to_folded_state_is_gone() {
    for tree in Tree::both() {
        for number in 1..=6 {
            tree.commit(write("/d/a", number.to_string()).with_parents()).await;
        }
        let oldest = tree.keep(2).await;
        let fs = tree.fs();
        let restore = |seq| {
            let copy = Op::copy_tree(at("/d"), at("/d")).as_of(Seq(seq));
            Batch::new([Op::remove_tree(at("/d")), copy])
        };
        assert_gone(fs.commit(restore(3)).await, oldest);
        assert_eq!(text(fs, "/d/a").await, "6", "nothing of the batch is done");
        tree.commit(restore(4)).await;
        assert_eq!(text(fs, "/d/a").await, "4");
    }
}

#[tokio::test]
async fn idempotency_key_outlives_its_commit() {
    for tree in Tree::both() {
        let keep_until = Timestamp(START.0 + 3_600_000_000_000);
        let keyed = || {
            let record = Idempotency::new("key", [7; 32], keep_until);
            Batch::from(write("/keyed", "1")).id(CommitId(5)).idempotency(record)
        };
        let fs = tree.fs();
        tree.commit(keyed()).await;
        let first = fs.committed(CommitId(5)).await.unwrap().unwrap();
        tree.fill("/a", 2..=5).await;
        tree.keep(1).await;
        let again = fs.commit(keyed()).await.unwrap();
        assert_eq!((again.seq, &again.outcomes, again.replayed), (Seq(1), &first.outcomes, true));
        assert_eq!(fs.recorded("key").await.unwrap().unwrap().commit.outcomes, first.outcomes);
        // The id of a commit is known as long as the log has it.
        assert!(fs.committed(CommitId(5)).await.unwrap().is_none());
        let reused = || Batch::from(write("/reused", "2")).id(CommitId(5));
        assert_eq!(tree.commit(reused()).await, Seq(6));
        assert_eq!(fs.committed(CommitId(5)).await.unwrap().unwrap().seq, Seq(6));
        assert_eq!(fs.commit(reused()).await.unwrap().seq, Seq(6), "a repeat of that");
        assert_eq!(fs.commit(keyed()).await.unwrap().seq, Seq(1), "the key still has its commit");
    }
}

#[tokio::test]
async fn gone_passes_through_views() {
    for tree in Tree::both() {
        for number in 1..=6 {
            tree.commit(write("/top/a", number.to_string()).with_parents()).await;
        }
        let fs = tree.fs();
        let first = history(fs, "/top/a").await.unwrap()[5].id;
        let oldest = tree.keep(2).await;
        let owner = Owner::new("tree").unwrap();
        let scope = Scope::open(fs, &p("/top")).await.unwrap();
        let mount = Mount::builder(fs, &p("/top"), owner).open().await.unwrap();
        for view in [&*scope, &*mount] {
            assert_gone(past(view, 3).await, oldest);
            assert_gone(view.changes(&ChangesQuery::since(Seq(3))).await, oldest);
            let page = HistoryPage::default().before(first);
            assert_gone(view.history(&at("/a"), &page).await, oldest);
            assert_gone(view.open_version(first).await.map(drop), oldest);
            assert_eq!(text(&*past(view, 4).await.unwrap(), "/a").await, "4");
            assert_eq!(commits(&history(view, "/a").await.unwrap()), [6, 5, 4]);
        }
    }
}

#[tokio::test]
async fn renamed_copy_is_found_by_name_after_folding() {
    for tree in Tree::both() {
        tree.commit(write("/below/a", "one\n").with_parents()).await;
        tree.commit(mkdir_all("/above")).await;
        let [below, above] = [p("/below"), p("/above")];
        let below = Scope::open(tree.fs(), &below).await.unwrap();
        let overlay = Overlay::open(below, Scope::open(tree.fs(), &above).await.unwrap()).await.unwrap();
        let ino = overlay.stat(&at("/a")).await.unwrap().ino;
        overlay.commit(append("/a", "two\n").into()).await.unwrap();
        overlay.commit(Op::rename(at("/a"), at("/c")).into()).await.unwrap();
        assert_eq!(overlay.stat(&At::from(ino)).await.unwrap().ino, ino);
        tree.keep(0).await;
        assert_eq!(text(&*overlay, "/c").await, "one\ntwo\n");
        assert_eq!(overlay.stat(&at("/c")).await.unwrap().ino, ino);
        assert_eq!(overlay.stat(&At::from(ino)).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
}
