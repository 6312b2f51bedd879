//! Transcripts that are imported in several commits, also by several callers at once.

use garth_agent::session::{Import, TranscriptFormat};
use garth_engine::ErrorKind;
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
