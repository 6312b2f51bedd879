//! Sources in sessions: names of lines and files, their targets, and retracted messages.

use garth_agent::registry::projections;
use garth_agent::session::{Append, Create, Draft, Log, Resolved, Role, Select, Source};
use garth_engine::model::FindQuery;
use garth_engine::{ErrorKind, FileSystem, FileSystemExt};

use super::sessions::{DIR, account, engines, path, said, sessions};

/// Creates a session with `count` messages of the user and the model in turn, with the ids `msg-1` and on.
async fn talk(fs: &dyn FileSystem, count: usize) -> garth_agent::session::Sessions<'_> {
    let sessions = sessions(fs).await;
    let drafts: Vec<_> = (1..=count)
        .map(|n| {
            let draft =
                if n % 2 == 1 { Draft::user(format!("q{n}")) } else { Draft::assistant(format!("a{n}")) };
            draft.with("id", &format!("msg-{n}"))
        })
        .collect();
    for some in drafts.chunks(500) {
        sessions.append("default", &Append::messages(some.to_vec())).await.unwrap();
    }
    sessions
}

fn source(text: &str) -> Source {
    text.parse().unwrap()
}

#[tokio::test]
async fn sources_lead_to_lines_or_files() {
    for (fs, _kept) in engines().await {
        let sessions = talk(&*fs, 200).await;
        let result = serde_json::json!([{"type": "tool_result", "call_id": "call_7", "content": "ok"}]);
        let more = Append::messages([Draft::message(Role::Tool, &result)]).and_events([Draft::event("x")]);
        let done = sessions.append("default", &more).await.unwrap();
        sessions.create(&Create::new("other")).await.unwrap();
        sessions.append("other", &Append::messages([Draft::user("else")])).await.unwrap();
        for (text, fixed) in [
            ("messages:12-18", "default#messages:12-18"),
            ("messages:64-65", "default#messages:64-65"),
            ("messages:201", "default#messages:201-201"),
            ("msg-130", "default#messages:130-130"),
            ("msg-3..msg-5", "default#messages:3-5"),
            ("tail:3", "default#messages:199-201"),
            ("tail:1000", "default#messages:1-201"),
            ("user:latest", "default#messages:199-199"),
            ("tool:call_7", "default#messages:201-201"),
            (&*done.events[0], "default#events:1-1"),
            ("other#tail:1", "other#messages:1-1"),
            ("context/summary.md", &*format!("{DIR}/context/summary.md")),
            (&*format!("{DIR}/state"), &*format!("{DIR}/state")),
        ] {
            let found = sessions.resolve("default", &source(text)).await.unwrap();
            assert_eq!(found.fixed(), fixed, "{text}");
            if let Resolved::Lines { session, log: Log::Messages, lines, bytes, .. } = found {
                // The bytes are those of the lines.
                let whole = fs
                    .read_file(
                        path("messages.jsonl")
                            .as_str()
                            .replace("/session/default", &format!("/session/{session}")),
                    )
                    .await
                    .unwrap();
                let text =
                    String::from_utf8_lossy(&whole[bytes.start as usize..bytes.end as usize]).into_owned();
                let page = sessions.lines(&session, &Select::messages(lines)).await.unwrap();
                let due: Vec<_> = page.items.iter().map(|line| line.text.as_str()).collect();
                assert_eq!(text, due.join("\n"));
            }
        }
        for nowhere in [
            "messages:202",
            "messages:1-500",
            "msg-900",
            "msg-5..msg-3",
            "events:2",
            "tool:no",
            "swap:no",
            "no.md",
            "no#tail:1",
            "context",
        ] {
            let error = sessions.resolve("default", &source(nowhere)).await.unwrap_err();
            assert!(error.is(ErrorKind::NotFound), "{nowhere}: {error}");
        }
    }
}

#[tokio::test]
async fn retracted_messages_are_hidden_but_kept() {
    for (fs, _kept) in engines().await {
        let sessions = talk(&*fs, 140).await;
        let before = fs.read_file(path("messages.jsonl")).await.unwrap();
        let done = sessions.retract("default", &source("tail:1"), Some("regenerate")).await.unwrap();
        assert_eq!((done.lines, done.events.len()), (140..=140, 1));
        assert_eq!(fs.read_to_string(path("latest.md")).await.unwrap(), "a138");
        // An SDK's pop, repeatedly.
        assert_eq!(sessions.retract("default", &source("tail:1"), None).await.unwrap().lines, 139..=139);
        assert_eq!(sessions.retract("default", &source("tail:2"), None).await.unwrap().lines, 137..=138);
        sessions.retract("default", &source("messages:60-70"), None).await.unwrap();
        assert_eq!(
            sessions.resolve("default", &source("user:latest")).await.unwrap().fixed(),
            "default#messages:135-135"
        );
        let left = said(&sessions, "default").await;
        assert_eq!(left.len(), 140 - 4 - 11);
        assert!(
            !left.contains(&"a60".to_owned())
                && !left.contains(&"q137".to_owned())
                && left.contains(&"q59".to_owned())
        );
        assert_eq!(fs.read_file(path("messages.jsonl")).await.unwrap(), before);
        let all = sessions.lines("default", &Select::messages(1..=200).with_retracted()).await.unwrap();
        assert_eq!(all.items.len(), 140);
        // New messages are read.
        sessions.append("default", &Append::messages([Draft::assistant("again")])).await.unwrap();
        assert_eq!(fs.read_to_string(path("latest.md")).await.unwrap(), "again");
        assert_eq!(said(&sessions, "default").await.last().unwrap(), "again");
        sessions.retract("default", &source("messages:1-141"), None).await.unwrap();
        assert!(said(&sessions, "default").await.is_empty());
        assert_eq!(fs.read_to_string(path("latest.md")).await.unwrap(), "");
        for bad in ["context/summary.md", "other#messages:1", "events:1"] {
            assert!(sessions.retract("default", &source(bad), None).await.is_err(), "{bad}");
        }
        let nothing = sessions.retract("default", &source("tail:1"), None).await.unwrap_err();
        assert!(nothing.is(ErrorKind::NotFound), "{nothing}");
    }
}

#[tokio::test]
async fn line_pages_are_bounded_in_bytes() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    let long = "x".repeat(1 << 20);
    for n in 0..10 {
        sessions.append("default", &Append::messages([Draft::user(format!("{n}{long}"))])).await.unwrap();
    }
    let (mut select, mut numbers, mut pages) = (Select::messages(2..=9), Vec::new(), 0);
    loop {
        let page = sessions.lines("default", &select).await.unwrap();
        assert!(page.items.iter().map(|line| line.text.len()).sum::<usize>() <= 4 << 20);
        numbers.extend(page.items.iter().map(|line| line.number));
        pages += 1;
        match page.next {
            Some(next) => select.lines = next..=9,
            None => break,
        }
    }
    assert!(pages > 1 && numbers == (2..=9).collect::<Vec<_>>(), "{numbers:?}");
}

#[tokio::test]
async fn reindex_rebuilds_the_same_line_keys() {
    let (account, _folder) = account().await;
    let sessions = talk(&*account, 300).await;
    sessions.retract("default", &source("tail:100"), None).await.unwrap();
    let keys = async || {
        let answer = account.find(&FindQuery::new(projections::SESSION_LINE).limit(10_000)).await.unwrap();
        answer.items.into_iter().map(|item| (item.key, item.path, item.line)).collect::<Vec<_>>()
    };
    let before = keys().await;
    // An id and a role for each line, each 64th line by its number, the event with its id and the two blocks
    // that it retracts, both ends of the run, and the lines of blocks that are not retracted completely.
    assert_eq!(before.len(), 300 * 2 + 5 + 1 + 1 + 1 + 2 + 2 + 100);
    assert!(account.fsck().await.unwrap().findings.is_empty());
    account.reindex().await.unwrap();
    assert_eq!(keys().await, before);
    let ends = account.find(&FindQuery::ends(projections::SESSION_LINE)).await.unwrap().items;
    let ends: Vec<_> = ends.into_iter().filter_map(|item| Some(item.line?.number)).collect();
    assert_eq!(ends, [301, 2]);
}
