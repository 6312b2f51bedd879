//! Every retraction hides what it names or is refused, whether it is a call, an appended event or a line.

use garth_agent::session::{Append, Derive, Draft, MAX_DERIVED, MAX_REASON, Sessions, Source};
use garth_engine::model::{Batch, Op};
use garth_engine::{Error, ErrorKind, FileSystemExt};
use serde_json::json;

use super::sessions::{engines, path, said, sessions};
use super::sessions_retracted::{say, source};

/// Length at which fields are beyond the part of a line that keys are taken from.
const LONG: usize = 70_000;

/// Returns an event that retracts messages.
fn withdrawn(source: &str) -> Draft {
    Draft::event("message.withdrawn").with("source", source)
}

async fn append(sessions: &Sessions<'_>, events: impl IntoIterator<Item = Draft>) -> Result<(), Error> {
    sessions.append("default", &Append::events(events)).await.map(drop)
}

#[tokio::test]
async fn reason_beyond_its_limit_is_refused() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (1..=4).map(|number| format!("m{number}"))).await;
        let head = fs.head().await.unwrap().seq;
        for length in [MAX_REASON + 1, LONG, 1 << 20] {
            let reason = "x".repeat(length);
            let by_call = sessions.retract("default", &source("messages:1"), Some(&reason)).await;
            let event = withdrawn("messages:1-1").with("reason", &reason);
            for error in [by_call.unwrap_err(), append(&sessions, [event]).await.unwrap_err()] {
                assert!(error.is(ErrorKind::TooLarge), "{error}");
                assert!(error.message().contains("at most 4096 bytes"), "{error}");
            }
        }
        assert_eq!(fs.head().await.unwrap().seq, head);
        let reason = "x".repeat(MAX_REASON);
        sessions.retract("default", &source("messages:1"), Some(&reason)).await.unwrap();
        append(&sessions, [withdrawn("messages:3-3").with("reason", &reason)]).await.unwrap();
        assert_eq!(said(&sessions, "default").await, ["m2", "m4"]);
    }
}

#[tokio::test]
async fn retraction_with_long_fields_hides_its_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (1..=5).map(|number| format!("m{number}"))).await;
        let long = "x".repeat(LONG);
        // Fields whose names come before `source`, or that messages begin with.
        for (line, field) in ["a", "from", "role", "parent"].into_iter().enumerate() {
            let event = withdrawn(&format!("messages:{0}-{0}", line + 1)).with(field, &long);
            append(&sessions, [event]).await.unwrap();
        }
        assert_eq!(said(&sessions, "default").await, ["m5"]);
        let events = fs.read_to_string(path("events.jsonl")).await.unwrap();
        for line in events.lines() {
            assert!(line.find("\"source\"").is_some_and(|at| at < 200), "{}", &line[..200]);
        }
    }
}

#[tokio::test]
async fn rule_refuses_retractions_without_keys() {
    let line = |source: &str, reason: usize| {
        let start = r#"{"id":"ev-1","run":"r","created_at":"2026-01-27T09:30:00Z","reason":""#;
        let reason = "x".repeat(reason);
        format!("{start}{reason}\",\"type\":\"message.withdrawn\",\"source\":\"{source}\"}}\n")
    };
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (1..=5).map(|number| format!("m{number}"))).await;
        let events = path("events.jsonl");
        for (text, said) in [
            (line("messages:1-1", LONG), "first 65536 bytes"),
            (line("messages:5-3", 0), "retracts no message"),
            (line("messages:1-70000", 0), "more than 65536 messages"),
        ] {
            let batch = Batch::new([Op::append(events.clone(), text)]);
            let refused = fs.commit(batch.clone()).await.unwrap_err();
            assert!(refused.is(ErrorKind::RuleViolation), "{refused}");
            // Commits of garth itself are judged as well.
            let refused = fs.commit(batch.by_garth()).await.unwrap_err();
            assert!(refused.is(ErrorKind::RuleViolation), "{refused}");
            assert!(refused.message().contains(said), "{refused}");
        }
        fs.commit(Batch::new([Op::append(events, line("messages:1-1", 0))]).by_garth()).await.unwrap();
        assert_eq!(said(&sessions, "default").await, ["m2", "m3", "m4", "m5"]);
    }
}

#[tokio::test]
async fn appended_retraction_is_judged_as_a_call() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (1..=6).map(|number| format!("m{number}"))).await;
        append(&sessions, [Draft::event("x")]).await.unwrap();
        let head = fs.head().await.unwrap().seq;
        for (bad, kind) in [
            ("messages:7-9", ErrorKind::NotFound),
            ("messages:2-1000", ErrorKind::NotFound),
            ("messages:99999999-999999999", ErrorKind::NotFound),
            ("messages:5-3", ErrorKind::InvalidArgument),
            ("messages:0-3", ErrorKind::InvalidArgument),
            ("messages:1-3 ", ErrorKind::InvalidArgument),
            ("messages:1-99999999999999999999", ErrorKind::InvalidArgument),
            ("events:1-1", ErrorKind::InvalidArgument),
            ("other#messages:1-1", ErrorKind::InvalidArgument),
            ("context/summary.md", ErrorKind::InvalidArgument),
            ("tail:0", ErrorKind::InvalidArgument),
            ("", ErrorKind::InvalidArgument),
        ] {
            let by_call = match bad.parse::<Source>() {
                Ok(source) => sessions.retract("default", &source, None).await.map(drop),
                Err(error) => Err(error),
            };
            // Messages of the same append do not exist yet, either.
            let more = Append::messages([Draft::user("more")]).and_events([withdrawn(bad)]);
            let with_messages = sessions.append("default", &more).await.map(drop);
            let alone = append(&sessions, [withdrawn(bad)]).await;
            for refused in [by_call, with_messages, alone] {
                let error = refused.expect_err(bad);
                assert!(error.is(kind), "{bad}: {error}");
            }
        }
        for (bad, said) in [
            (Draft::event("message.withdrawn"), "needs a `source`"),
            (Draft::event("message.withdrawn").with("source", &7), "has to be text"),
            (withdrawn("messages:1-1").with("reason", &7), "has to be text"),
            (withdrawn("messages:3"), "write `source` as messages:3-3"),
            (withdrawn("tail:1"), "such as messages:3-5"),
        ] {
            let error = append(&sessions, [bad]).await.unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument) && error.message().contains(said), "{error}");
            assert!(error.message().starts_with("event 1: "), "{error}");
        }
        assert_eq!(fs.head().await.unwrap().seq, head);
        let later = ["later".to_owned(), "last".to_owned()];
        say(&sessions, "default", later.clone()).await;
        let due: Vec<String> = (1..=6).map(|number| format!("m{number}")).chain(later).collect();
        assert_eq!(said(&sessions, "default").await, due);
    }
}

#[tokio::test]
async fn false_span_is_refused() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (1..=10).map(|number| format!("m{number}"))).await;
        sessions.retract("default", &source("messages:5-6"), None).await.unwrap();
        let event = |source: &str, span: &str| withdrawn(source).with("span", span);
        for (bad, kind) in [
            (event("messages:8-8", "messages:2-9"), ErrorKind::InvalidArgument),
            (event("messages:8-8", "messages:5-8"), ErrorKind::InvalidArgument),
            (event("messages:8-8", "messages:1-3"), ErrorKind::InvalidArgument),
            (event("messages:8-8", "tail:3"), ErrorKind::InvalidArgument),
            (event("messages:8-8", "messages:9-8"), ErrorKind::InvalidArgument),
            (event("messages:10-10", "messages:10-99"), ErrorKind::NotFound),
        ] {
            let error = append(&sessions, [bad]).await.unwrap_err();
            assert!(error.is(kind), "{error}");
        }
        assert_eq!(said(&sessions, "default").await.len(), 8);
        append(&sessions, [event("messages:7-7", "messages:5-7")]).await.unwrap();
        // Events of one append count together.
        let both = [event("messages:8-8", "messages:5-9"), event("messages:9-9", "messages:5-9")];
        append(&sessions, both).await.unwrap();
        assert_eq!(said(&sessions, "default").await, ["m1", "m2", "m3", "m4", "m10"]);
    }
}

#[tokio::test]
async fn appended_retraction_updates_the_latest_answer() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let texts = ["q1", "a1", "q2", "a2", "q3", "a3"].map(str::to_owned);
        say(&sessions, "default", texts).await;
        let latest = async || fs.read_to_string(path("latest.md")).await.unwrap();
        append(&sessions, [withdrawn("messages:4-4"), withdrawn("messages:6-6")]).await.unwrap();
        assert_eq!(latest().await, "a1");
        // A new answer is later than those that are left.
        let more = Append::messages([Draft::assistant("a4")]).and_events([withdrawn("messages:2-2")]);
        sessions.append("default", &more).await.unwrap();
        assert_eq!(latest().await, "a4");
    }
}

#[tokio::test]
async fn repeated_append_of_a_retraction_changes_nothing() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", ["a".to_owned(), "b".to_owned()]).await;
        let event = Append::events([withdrawn("messages:1-1").with("id", "ev-1")]);
        assert!(sessions.append("default", &event).await.unwrap().seq.is_some());
        assert_eq!(sessions.append("default", &event).await.unwrap().seq, None);
        assert_eq!(said(&sessions, "default").await, ["b"]);
    }
}

#[tokio::test]
async fn long_tool_result_is_found_by_call() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let text = "x".repeat(LONG);
        let block = format!(r#"{{"type":"tool_result","content":"{text}","call_id":"call_1"}}"#);
        let message = format!(r#"{{"id":"msg-1","role":"tool","content":[{block}]}}"#);
        let append = Append::messages([Draft::parse(&message).unwrap()]);
        sessions.append("default", &append).await.unwrap();
        let found = sessions.resolve("default", &source("tool:call_1")).await.unwrap();
        assert_eq!(found.fixed(), "default#messages:1-1");
        assert_eq!(sessions.append("default", &append).await.unwrap().seq, None);
    }
}

#[tokio::test]
async fn derived_file_has_its_limit_as_written() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", ["a".to_owned()]).await;
        // With the line feed, which is added, the file has exactly the largest size.
        let fact = |source: &str| {
            let line = |text: &str| json!({"id": "f1", "text": text, "source": source}).to_string();
            let mut derive = Derive::default();
            derive.facts = Some(line(&"x".repeat(MAX_DERIVED - 1 - line("").len())));
            derive
        };
        // The line that `tail:1` leads to is stored with it.
        let error = sessions.derive("default", &fact("tail:1")).await.unwrap_err();
        assert!(error.is(ErrorKind::TooLarge), "{error}");
        sessions.derive("default", &fact("messages:1")).await.unwrap();
        let mut summary = Derive::default();
        summary.summary = Some("x".repeat(MAX_DERIVED));
        let error = sessions.derive("default", &summary).await.unwrap_err();
        assert!(error.is(ErrorKind::TooLarge), "{error}");
        sessions.retract("default", &source("messages:1"), None).await.unwrap();
        assert_eq!(fs.read_to_string(path("context/facts.jsonl")).await.unwrap(), "");
    }
}
