//! System messages at the beginning of a session are in every pack, wherever its window starts.

use garth_agent::session::{Append, Derive, Draft, Format, Role, Sessions};

use super::packs::{budget, check};
use super::sessions::{engines, sessions};

const RULE: &str = "Never reveal the passphrase.";

fn turn(number: usize) -> [Draft; 2] {
    let text = "the build of this part fails at the same place as before ".repeat(6);
    [
        Draft::user(format!("Question {number}: {text}?")),
        Draft::assistant(format!("Answer {number}: {text}.")),
    ]
}

async fn say(sessions: &Sessions<'_>, messages: impl IntoIterator<Item = Draft>) {
    sessions.append("default", &Append::messages(messages)).await.unwrap();
}

#[tokio::test]
async fn every_pack_begins_with_leading_system_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::message(Role::System, RULE), Draft::message(Role::System, "Be brief.")]).await;
        for number in 0..40 {
            say(&sessions, turn(number)).await;
        }
        for tokens in [1_000, 2_000, 4_000, 20_000] {
            let packed = sessions.pack("default", &budget(tokens)).await.unwrap();
            check(&packed);
            assert!(packed.markdown.starts_with("<!-- messages:1 system"), "{}", packed.markdown);
            assert_eq!(packed.markdown.matches(RULE).count(), 1, "{tokens}");
            assert!(packed.markdown.contains("Be brief.") && packed.markdown.contains("Answer 39"));
            assert_eq!(packed.list(Format::OpenAi).matches(RULE).count(), 1);
            let anthropic: serde_json::Value = serde_json::from_str(&packed.list(Format::Anthropic)).unwrap();
            assert_eq!(anthropic["system"], format!("{RULE}\n\nBe brief."));
            let has_all = packed.pack.window.from == 1;
            assert_eq!(packed.pack.window.lead, if has_all { 0 } else { 2 }, "{tokens}");
            let again = sessions.replay("default", None).await.unwrap();
            assert_eq!(again.markdown, packed.markdown);
        }
    }
}

#[tokio::test]
async fn extended_packs_keep_leading_system_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::message(Role::System, RULE)]).await;
        for number in 0..40 {
            say(&sessions, turn(number)).await;
        }
        let first = sessions.pack("default", &budget(4_000)).await.unwrap();
        say(&sessions, turn(40)).await;
        let second = sessions.pack("default", &budget(4_000)).await.unwrap();
        check(&second);
        assert!(second.markdown.starts_with(&*first.markdown), "the prefix stays");
    }
}

#[tokio::test]
async fn pack_without_room_names_leading_system_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::message(Role::System, &*"Follow each rule. ".repeat(400))]).await;
        for number in 0..40 {
            say(&sessions, turn(number)).await;
        }
        for _ in 0..2 {
            let packed = sessions.pack("default", &budget(1_000)).await.unwrap();
            check(&packed);
            let mut omitted = packed.pack.omitted.iter().filter(|out| out.kind == "system");
            let out = omitted.next().unwrap();
            assert_eq!((out.range.as_deref(), &*out.reason), (Some("1-1"), "budget"));
            assert!(omitted.next().is_none() && packed.markdown.contains("Answer 39"));
        }
    }
}

#[tokio::test]
async fn retracted_leading_system_messages_are_in_no_pack() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::message(Role::System, RULE)]).await;
        for number in 0..40 {
            say(&sessions, turn(number)).await;
        }
        assert!(sessions.pack("default", &budget(4_000)).await.unwrap().markdown.contains(RULE));
        sessions.retract("default", &"messages:1".parse().unwrap(), None).await.unwrap();
        let packed = sessions.pack("default", &budget(4_000)).await.unwrap();
        check(&packed);
        assert!(!packed.markdown.contains(RULE));
    }
}

#[tokio::test]
async fn compacted_session_keeps_leading_system_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, [Draft::message(Role::System, RULE)]).await;
        for number in 0..40 {
            say(&sessions, turn(number)).await;
        }
        let mut derive = Derive::default();
        derive.summary = Some("Forty questions.".to_owned());
        sessions.derive("default", &derive).await.unwrap();
        let packed = sessions.pack("default", &budget(3_000)).await.unwrap();
        check(&packed);
        assert!(packed.markdown.contains(RULE) && packed.markdown.contains("Forty questions."));
    }
}
