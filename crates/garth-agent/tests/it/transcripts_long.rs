//! Transcripts that are imported in several commits, also by several callers at once.

use std::sync::Arc;

use garth_agent::session::{Append, Draft, Import, Imported, Sessions, TranscriptFormat};
use garth_engine::{Error, ErrorKind, FileSystem};
use garth_testkit::fs::interfering::{Call, Interfering};
use serde_json::json;

use super::sessions::{engines, said, sessions};
use super::transcripts_again::{assistant, lines, user, whole};

const OPENAI: TranscriptFormat = TranscriptFormat::OpenAi;

#[tokio::test]
async fn long_rewind_is_one_commit() {
    let text = |first: &str| -> String {
        let rest = (2..=2500).map(|n| format!("{}\n", user(&n.to_string())));
        format!("{}\n{}", user(first), rest.collect::<String>())
    };
    let (old, new) = (text("a"), text("x"));
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        whole(&sessions, "default", OPENAI, &old).await;
        let head = fs.head().await.unwrap().seq.0;
        let done = sessions.import("default", &Import::new(OPENAI, &new).rewind()).await.unwrap();
        assert_eq!((done.retracted, done.new, done.lines), (Some(1..=2500), 2500, Some(2501..=5000)));
        assert_eq!(fs.head().await.unwrap().seq.0, head + 1, "one commit");
        assert_eq!(whole(&sessions, "default", OPENAI, &new).await.present, 2500);
    }
}

#[tokio::test]
async fn concurrent_whole_imports_append_messages_once() {
    let text: String = (1..=3500).map(|n| format!("{}\n", user(&n.to_string()))).collect();
    let longer = format!("{text}{}\n", assistant("done"));
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let (short, long) = (Import::new(OPENAI, &text).whole(), Import::new(OPENAI, &longer).whole());
        let (one, two, three) = tokio::join!(
            sessions.import("default", &short),
            sessions.import("default", &short),
            sessions.import("default", &long),
        );
        let all = [one.unwrap(), two.unwrap(), three.unwrap()];
        assert!(all.iter().all(|done| done.present + done.new == done.messages), "{all:?}");
        assert_eq!(all.iter().map(|done| done.new).sum::<u64>(), 3501, "{all:?}");
        assert_eq!(whole(&sessions, "default", OPENAI, &longer).await.new, 0);
    }
}

#[tokio::test]
async fn concurrent_part_imports_append_all_messages() {
    let text: String = (1..=2500).map(|n| format!("{}\n", user(&n.to_string()))).collect();
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let part = Import::new(OPENAI, &text).part();
        let (one, two) = tokio::join!(sessions.import("default", &part), sessions.import("default", &part));
        assert_eq!((one.unwrap().new, two.unwrap().new), (2500, 2500));
    }
}

fn whole_of(text: &str) -> Import<'_> {
    Import::new(OPENAI, text).whole()
}

fn part_of(text: &str) -> Import<'_> {
    Import::new(OPENAI, text).part()
}

fn part_with_ids(text: &str) -> Import<'_> {
    Import::new(TranscriptFormat::Garth, text).part()
}

fn part_after_start(text: &str) -> Import<'_> {
    part_of(text).after("msg-start")
}

/// Imports the first text. The other one is imported completely before a commit of the first import, after
/// `skip` of its commits.
async fn interleaved(
    fs: &Arc<dyn FileSystem>,
    skip: usize,
    import: fn(&str) -> Import<'_>,
    [first, other]: [&str; 2],
) -> Result<Imported, Error> {
    let other = other.to_owned();
    let raced = Interfering::running(fs, Call::Commit, skip, move |fs| async move {
        let sessions = Sessions::new(&*fs, "default", "coder")?;
        sessions.import("default", &import(&other)).await.map(drop)
    });
    let sessions = Sessions::new(&raced, "default", "coder")?;
    sessions.import("default", &import(first)).await
}

#[tokio::test]
async fn interleaved_whole_imports_append_messages_once() {
    let text: String = (1..=2500).map(|n| format!("{}\n", user(&n.to_string()))).collect();
    let longer = format!("{text}{}\n", assistant("done"));
    let all: Vec<String> = (1..=2500).map(|n| n.to_string()).chain(["done".to_owned()]).collect();
    for (other, due) in [(&text, &all[..2500]), (&longer, &all[..])] {
        for (skip, new) in [(0, 0), (1, 1000), (2, 2000)] {
            for (fs, _kept) in engines().await {
                let sessions = sessions(&*fs).await;
                let done = interleaved(&fs, skip, whole_of, [&text, other]).await.unwrap();
                assert_eq!((done.new, done.present), (new, 2500 - new), "{skip}");
                assert_eq!(said(&sessions, "default").await, due, "{skip}");
            }
        }
    }
}

#[tokio::test]
async fn interleaved_parts_lose_and_double_nothing() {
    let of = |name: &str| -> String {
        let message = |n: u32| user(&format!("{name}{n}"));
        (1..=1500).map(|n| format!("{}\n", message(n))).collect()
    };
    let with_id = |n: u32| json!({"id": format!("msg-{n}"), "role": "user", "content": format!("c{n}")});
    let with_ids: String = (1..=1500).map(|n| format!("{}\n", with_id(n))).collect();
    let due = |name: &str| -> Vec<String> { (1..=1500).map(|n| format!("{name}{n}")).collect() };
    for (skip, new) in [(0, 0), (1, 1000)] {
        for (fs, _kept) in engines().await {
            let sessions = sessions(&*fs).await;
            let done = interleaved(&fs, skip, part_with_ids, [&with_ids, &with_ids]).await.unwrap();
            assert_eq!((done.new, done.present), (new, 1500 - new), "{skip}");
            assert_eq!(said(&sessions, "default").await, due("c"), "{skip}");
            // Without ids, all messages of both are new.
            let done = interleaved(&fs, skip, part_of, [&of("a"), &of("b")]).await.unwrap();
            assert_eq!(done.new, 1500, "{skip}");
            let said = said(&sessions, "default").await;
            assert_eq!(said.len(), 4500, "{skip}");
            for name in ["a", "b", "c"] {
                let own: Vec<&String> = said.iter().filter(|text| text.starts_with(name)).collect();
                assert_eq!(own, due(name).iter().collect::<Vec<_>>(), "{skip} {name}");
            }
        }
    }
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let start = Draft::user("start").with("id", "msg-start");
        sessions.append("default", &Append::messages([start])).await.unwrap();
        let error = interleaved(&fs, 0, part_after_start, [&of("a"), &of("b")]).await.unwrap_err();
        assert!(error.is(ErrorKind::Conflict), "{error}");
        assert_eq!(said(&sessions, "default").await[1..], due("b"));
    }
}

#[tokio::test]
async fn rewind_retracts_more_than_one_commit_appends() {
    let text = |name: &str, last: usize| -> String {
        let content = |n: usize| if n <= 2 { n.to_string() } else { format!("{name}{n}") };
        (1..=last).map(|n| format!("{}\n", user(&content(n)))).collect()
    };
    let (old, short, long) = (text("a", 10_500), text("b", 3), text("c", 10_400));
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let rewind = async |text: &str| {
            let head = fs.head().await.unwrap().seq.0;
            let done = sessions.import("default", &Import::new(OPENAI, text).rewind()).await.unwrap();
            (done.retracted, done.new, fs.head().await.unwrap().seq.0 - head)
        };
        whole(&sessions, "default", OPENAI, &old).await;
        assert_eq!(rewind(&short).await, (Some(3..=10_500), 1, 1));
        assert_eq!(said(&sessions, "default").await, ["1", "2", "b3"]);
        // More new messages than one commit holds.
        assert_eq!(rewind(&long).await, (Some(10_501..=10_501), 10_398, 2));
        assert_eq!(whole(&sessions, "default", OPENAI, &long).await.present, 10_400);
        assert_eq!(rewind(&short).await, (Some(10_502..=20_899), 1, 1));
    }
}

#[tokio::test]
async fn part_with_a_repeated_id_is_refused() {
    let of = |n: u32| json!({"id": format!("msg-{n}"), "role": "user", "content": n.to_string()});
    // The repeated id would be in the second commit.
    let messages: Vec<_> = (1..=1200).chain([1]).map(of).collect();
    let text = lines(&messages);
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let part = Import::new(TranscriptFormat::Garth, &text).part();
        let error = sessions.import("default", &part).await.unwrap_err();
        assert!(error.is(ErrorKind::InvalidArgument), "{error}");
        assert!(error.message().contains("message 1201: its id msg-1 is given twice"), "{error}");
        assert_eq!(said(&sessions, "default").await.len(), 0);
        // A whole transcript gives the second message an id of its own.
        assert_eq!(whole(&sessions, "default", TranscriptFormat::Garth, &text).await.new, 1201);
    }
}
