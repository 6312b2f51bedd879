//! Answers of sessions, memories and files whose past is no longer stored.

use std::time::Duration;

use garth_agent::files::{FileRestore, Files};
use garth_agent::memory::{FindingReport, Follow, Level, Put, Repair, Report};
use garth_agent::recall::fence::Key;
use garth_agent::recall::{Recall, Recaller};
use garth_agent::session::{Append, Create, Derive, Draft};
use garth_engine::model::{Author, Batch, HistoryPage, LogPosition, Moment, Op, Seq};
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, Retention};
use garth_engine::{AccountStore, Env, Error, ErrorKind, FileSystem, FileSystemExt, TreePath};

use super::memories_set::{coffee, memories};
use super::packs::budget;
use super::sessions::{account, said, sessions};

/// Ends the past before the newest state. Returns its commit.
async fn end_past(account: &dyn AccountStore) -> Seq {
    let newest = account.head().await.unwrap().seq;
    end_past_before(account, newest).await;
    newest
}

/// Ends the past before a state.
async fn end_past_before(account: &dyn AccountStore, oldest: Seq) {
    let head = account.head().await.unwrap().seq;
    let retention = Retention { commits: Some(head.0 - oldest.0), ..Retention::default() };
    account.set_retention(retention).await.unwrap();
    account.gc(Duration::ZERO).await.unwrap();
    assert_eq!(account.retention().await.unwrap().oldest, oldest);
}

#[track_caller]
fn assert_gone<T>(answer: Result<T, Error>, oldest: Seq) {
    let error = answer.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
    assert!(error.message().contains(&format!("ask for {oldest} or later")), "{error}");
}

fn summary(text: &str) -> Derive {
    let mut derive = Derive::default();
    derive.summary = Some(text.to_owned());
    derive
}

/// Appends to a source file as a session.
async fn code(account: &dyn AccountStore, session: &str, text: &str) {
    let op = Op::append(path("/src/a.rs"), text.to_owned()).with_parents();
    account.commit(Batch::new([op]).author(author(session))).await.unwrap();
}

fn author(session: &str) -> Author {
    Author::agent("coder").with_user("default").with_session(session)
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

#[tokio::test]
async fn replay_of_folded_pack_is_gone() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    let say = async |text: &str| {
        sessions.append("default", &Append::messages([Draft::user(text)])).await.unwrap();
    };
    say("What does part 1 do?").await;
    sessions.pack("default", &budget(1000)).await.unwrap();
    let then = Moment::Seq(account.head().await.unwrap().seq);
    say("And part 2?").await;
    let packed = sessions.pack("default", &budget(1000)).await.unwrap();
    let oldest = end_past(&*account).await;
    assert_gone(sessions.replay("default", Some(&then)).await, oldest);
    assert_gone(sessions.packed("default", Some(&then)).await, oldest);
    // The current pack needs files that are older than the log.
    assert_eq!(sessions.replay("default", None).await.unwrap().markdown, packed.markdown);
    assert_eq!(sessions.replay("default", Some(&oldest.into())).await.unwrap().markdown, packed.markdown);
}

#[tokio::test]
async fn replay_needs_no_content_that_classes_end() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    let say = async |text: &str| {
        sessions.append("default", &Append::messages([Draft::user(text)])).await.unwrap();
    };
    say("What does part 1 do?").await;
    let first = sessions.pack("default", &budget(1000)).await.unwrap();
    let then = Moment::Seq(account.head().await.unwrap().seq);
    say("And part 2?").await;
    sessions.pack("default", &budget(1000)).await.unwrap();
    assert_eq!(account.gc(Duration::ZERO).await.unwrap().contents, 0, "kept for a day");
    let off = |file: &str| {
        let pattern = PathPattern::parse(&format!("/users/*/agents/*/session/*/{file}")).unwrap();
        ContentLimit { pattern, keep: Duration::ZERO }
    };
    let content = ["latest.md", "context/pack.md", "context/dedup/index.jsonl"].map(off).to_vec();
    account.set_retention(Retention { content, ..Retention::default() }).await.unwrap();
    assert!(account.gc(Duration::ZERO).await.unwrap().contents > 0);
    assert_eq!(sessions.replay("default", Some(&then)).await.unwrap().markdown, first.markdown);
}

#[tokio::test]
async fn replay_of_folded_source_is_gone() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    sessions.append("default", &Append::messages([Draft::user("What does part 1 do?")])).await.unwrap();
    sessions.derive("default", &summary("Part 1 is asked for.")).await.unwrap();
    sessions.pack("default", &budget(1000)).await.unwrap();
    sessions.derive("default", &summary("Part 1 is done.")).await.unwrap();
    let oldest = end_past(&*account).await;
    // The oldest state has the pack, but the summary that it names was replaced before.
    assert_gone(sessions.replay("default", None).await, oldest);
    let packed = sessions.pack("default", &budget(1000)).await.unwrap();
    assert_eq!(sessions.replay("default", None).await.unwrap().markdown, packed.markdown);
}

#[tokio::test]
async fn session_is_whole_from_oldest_on() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    let (files, now) = (Files::new(&*account).author(author("default")), Env::system().now());
    let say = async |text: &str| {
        sessions.append("default", &Append::messages([Draft::user(text)])).await.unwrap();
    };
    let pack = async |about: &str| {
        sessions.derive("default", &summary(about)).await.unwrap();
        let packed = sessions.pack("default", &budget(2000)).await.unwrap();
        (account.head().await.unwrap().seq, packed.markdown)
    };
    let undo = async || sessions.retract("default", &"tail:1".parse().unwrap(), None).await.unwrap();
    say("What does part 1 do?").await;
    code(&*account, "default", "fn a() {}\n").await;
    let early = pack("Part 1 is asked for.").await;
    // Undone before the oldest state: a message, and a change of a file.
    say("A slip.").await;
    undo().await;
    code(&*account, "other", "fn slip() {}\n").await;
    files.restore("/src/a.rs", &FileRestore::to(early.0), now).await.unwrap();
    say("And part 2?").await;
    let middle = pack("Part 2 is asked for.").await;
    code(&*account, "default", "fn b() {}\n").await;
    say("And part 3?").await;
    let late = pack("Part 3 is asked for.").await;
    let oldest = middle.0;
    end_past_before(&*account, oldest).await;

    let replays = async || {
        assert_gone(sessions.replay("default", Some(&early.0.into())).await, oldest);
        for (seq, markdown) in [&middle, &late] {
            let replayed = sessions.replay("default", Some(&(*seq).into())).await.unwrap();
            assert_eq!(replayed.markdown, *markdown, "{seq}");
        }
    };
    replays().await;
    assert_eq!(said(&sessions, "default").await, ["What does part 1 do?", "And part 2?", "And part 3?"]);

    assert_gone(sessions.wrote("default", Some(early.0.into())).await, oldest);
    let wrote = sessions.wrote("default", Some(oldest.into())).await.unwrap();
    let file = wrote.items.iter().find(|file| file.path.as_str() == "/src/a.rs").unwrap();
    // The restore wrote the first line, for the session, before the oldest state.
    assert_eq!(file.bytes, std::iter::once(0..20).collect::<Vec<_>>());

    let head = account.head().await.unwrap().seq;
    assert_gone(files.restore("/src/a.rs", &FileRestore::to(early.0), now).await, oldest);
    assert_eq!(account.head().await.unwrap().seq, head, "nothing is changed");
    files.restore("/src/a.rs", &FileRestore::to(oldest), now).await.unwrap();
    assert_eq!(account.read_to_string("/src/a.rs").await.unwrap(), "fn a() {}\n");
    undo().await;
    assert_eq!(said(&sessions, "default").await, ["What does part 1 do?", "And part 2?"]);
    replays().await;
}

#[tokio::test]
async fn recall_as_of_folded_time_is_gone() {
    let (account, _folder) = account().await;
    let memories = memories(&*account);
    memories.put(&coffee(), &Put::new("Alice takes her coffee with milk.")).await.unwrap();
    let then = account.head().await.unwrap();
    memories.put(&coffee(), &Put::new("Alice takes her coffee black.")).await.unwrap();
    let oldest = end_past(&*account).await;
    let recaller = Recaller::new(&*account, "default");
    for moment in [Moment::Seq(then.seq), Moment::Time(then.time)] {
        let asked = Recall { as_of: Some(moment.clone()), ..Recall::new("how does Alice take her coffee") };
        assert_gone(recaller.recall(&asked, &Key::new([9; 32])).await, oldest);
        assert_gone(memories.get_at(&coffee(), Level::Content, &moment).await, oldest);
    }
    // The version of the newest state is left.
    let log = memories.log(&coffee(), &HistoryPage::default()).await.unwrap();
    assert_eq!((log.items.len(), log.items[0].meta.as_ref().map(|meta| meta.version)), (1, Some(2)));
}

#[tokio::test]
async fn session_provenance_begins_at_oldest() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    code(&*account, "other", "fn a() {}\n").await;
    code(&*account, "default", "fn b() {}\n").await;
    let oldest = end_past(&*account).await;
    assert_gone(sessions.wrote("default", Some(LogPosition::default())).await, oldest);
    code(&*account, "default", "fn c() {}\n").await;
    for since in [None, Some(oldest.into())] {
        let page = sessions.wrote("default", since).await.unwrap();
        let files = &page.items;
        assert_eq!((files.len(), page.next), (1, None), "{files:?}");
        // Bytes of commits that are gone keep their author.
        assert_eq!(
            (files[0].path.as_str(), &*files[0].bytes),
            ("/src/a.rs", &std::iter::once(10..30).collect::<Vec<_>>()[..])
        );
        assert_eq!(page.oldest, since.is_none().then_some(oldest));
    }
    // A session that began later wrote nothing before.
    sessions.create(&Create::new("later")).await.unwrap();
    code(&*account, "later", "fn d() {}\n").await;
    let page = sessions.wrote("later", None).await.unwrap();
    assert!(page.items.iter().any(|file| file.path.as_str() == "/src/a.rs"), "{page:?}");
    assert_eq!((page.next, page.oldest), (None, None));
    // Nothing says when a session without a directory began.
    assert_eq!(sessions.wrote("other", None).await.unwrap().oldest, Some(oldest));
}

#[tokio::test]
async fn undo_of_folded_commit_is_gone() {
    let (account, _folder) = account().await;
    let write = async |text: &str| account.write(&path("/a"), text.to_owned()).await.unwrap();
    write("one").await;
    let then = account.head().await.unwrap().seq;
    write("two").await;
    write("three").await;
    let oldest = end_past(&*account).await;
    let (files, now) = (Files::new(&*account), Env::system().now());
    assert_gone(files.restore("/a", &FileRestore::to(then), now).await, oldest);
    assert_eq!(account.read_to_string("/a").await.unwrap(), "three");
    write("four").await;
    files.restore("/a", &FileRestore::to(oldest), now).await.unwrap();
    assert_eq!(account.read_to_string("/a").await.unwrap(), "three");
}

#[tokio::test]
async fn repair_goes_on_after_folding() {
    let (account, _folder) = account().await;
    let memories = memories(&*account);
    memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
    account.write(coffee().file("content.md"), "With milk.\n".to_owned()).await.unwrap();
    end_past(&*account).await;
    // The log begins after the position, so all memories are checked.
    let repair = Repair::new(memories.clone()).at_once(true);
    let (mut follow, mut report, mut found) = (Follow::since(Seq(0)), Report::default(), Vec::new());
    while follow.settled().is_none_or(|place| place.seq == Seq(0)) {
        let mut tell = |one: &FindingReport<'_>| {
            if one.until.is_none() {
                found.push(one.finding.as_str().to_owned());
            }
        };
        follow.step(&repair, &mut report, &mut tell).await.unwrap();
    }
    assert_eq!((report.failed, &*found), (0, &["changed_content".to_owned()][..]));
    assert_eq!(memories.get(&coffee(), Level::Abstract).await.unwrap().text, "With milk.");
}
