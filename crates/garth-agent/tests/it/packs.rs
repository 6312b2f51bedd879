//! Packs: the messages of a session for a model, within a budget, and their replay.

use garth_agent::count::TokenCache;
use garth_agent::session::{
    Append, Derive, Draft, Format, Pack, PackOptions, Packed, Role, Sessions, Source,
};
use garth_engine::model::{Moment, Op};
use garth_engine::text::secret::{Judgement, masked};
use garth_engine::{ErrorKind, FileSystemExt};
use garth_testkit::data::random::Random;
use garth_testkit::data::secrets::each;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::sessions::{engines, path, sessions};

/// Returns the number of tokens, by an independent tokenizer.
pub(super) fn tokens(text: &str) -> u64 {
    bpe_openai::o200k_base().encode(text).len() as u64
}

pub(super) fn budget(tokens: u64) -> PackOptions {
    let mut options = PackOptions::default();
    options.budget = Some(tokens);
    options
}

pub(super) fn call(id: &str, name: &str, arguments: &Value) -> Draft {
    let call = json!([{"type": "tool_call", "id": id, "name": name, "arguments": arguments}]);
    Draft::message(Role::Assistant, &call)
}

pub(super) fn result(id: &str, text: &str) -> Draft {
    Draft::message(Role::Tool, &json!([{"type": "tool_result", "call_id": id, "content": text}]))
}

async fn say(sessions: &Sessions<'_>, messages: impl IntoIterator<Item = Draft>) {
    sessions.append("default", &Append::messages(messages)).await.unwrap();
}

/// Returns a turn: a question of the user, a tool call, its result, and the answer of the model.
fn turn(number: usize, output: &str) -> Vec<Draft> {
    let id = format!("call_{number}");
    vec![
        Draft::user(format!("Question {number}: what does part {number} do?")),
        call(&id, "bash", &json!({"command": format!("cat part-{number}")})),
        result(&id, output),
        Draft::assistant(format!("Part {number} parses the input of stage {number}.")),
    ]
}

fn items(pack: &Pack) -> Vec<(&str, &str, Option<&str>)> {
    pack.items.iter().map(|item| (&*item.kind, &*item.source, item.range.as_deref())).collect()
}

/// Checks the invariants of every pack.
pub(super) fn check(packed: &Packed) {
    let pack = &packed.pack;
    let due = tokens(&packed.markdown);
    assert_eq!(pack.tokens, due, "{}", packed.markdown);
    assert_eq!(pack.items.iter().map(|item| item.tokens).sum::<u64>(), due);
    if pack.budget_tokens > 0 {
        assert!(due + pack.reserved.all() <= pack.budget_tokens);
    }
    let prefix = &packed.markdown[..usize::try_from(pack.prefix.bytes).unwrap()];
    assert_eq!(pack.prefix.tokens, tokens(prefix));
}

#[tokio::test]
async fn pack_has_ordered_parts_and_manifest() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        fs.write(&path("context/pinned/style.md"), "Answer in one sentence.\n").await.unwrap();
        fs.write(&path("context/pinned/system.md"), "You are a coder.\n").await.unwrap();
        say(&sessions, turn(1, "fn main() {}")).await;
        let mut derive = Derive::default();
        derive.summary = Some("We look at parts.".to_owned());
        derive.facts = Some(r#"{"id":"f1","text":"Part 1 parses.","source":"messages:4"}"#.to_owned());
        derive.decisions =
            Some(r#"{"id":"d1","decision":"Begin with part 1.","source":"user:latest"}"#.to_owned());
        derive.todo = Some("- part 2\n".to_owned());
        derive.refs =
            Some(r#"{"id":"r1","path":"/src/main.rs","kind":"file","summary":"the source"}"#.to_owned());
        sessions.derive("default", &derive).await.unwrap();
        let packed = sessions.pack("default", &budget(4000)).await.unwrap();
        check(&packed);
        let due = [
            ("system", "context/pinned/system.md", None),
            ("pinned", "context/pinned/style.md", None),
            ("summary", "context/summary.md", None),
            ("facts", "context/facts.jsonl", None),
            ("decisions", "context/decisions.jsonl", None),
            ("todo", "context/todo.md", None),
            ("refs", "context/refs.jsonl", None),
            ("recent_messages", "messages.jsonl", Some("1-4")),
        ];
        assert_eq!(items(&packed.pack), due);
        assert!(packed.pack.omitted.is_empty());
        let json: Value =
            serde_json::from_str(&fs.read_to_string(&path("context/pack.json")).await.unwrap()).unwrap();
        assert_eq!(
            (&json["session"], &json["agent"], &json["budget_tokens"]),
            (&json!("default"), &json!("coder"), &json!(4000))
        );
        assert_eq!(fs.read_to_string(&path("context/pack.md")).await.unwrap(), packed.markdown);
        for said in [
            "You are a coder.",
            "We look at parts.",
            "Begin with part 1.",
            "call call_1 of bash",
            "fn main() {}",
        ] {
            assert!(packed.markdown.contains(said), "{said}: {}", packed.markdown);
        }
        let list: Value = serde_json::from_str(&packed.list(Format::OpenAi)).unwrap();
        let roles: Vec<_> =
            list["messages"].as_array().unwrap().iter().map(|of| of["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant"]);
    }
}

#[tokio::test]
async fn unchanged_pack_is_reused_and_extended() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, turn(1, "out")).await;
        let first = sessions.pack("default", &budget(4000)).await.unwrap();
        let head = fs.head().await.unwrap().seq;
        let again = sessions.pack("default", &budget(4000)).await.unwrap();
        assert_eq!((again.markdown, fs.head().await.unwrap().seq), (first.markdown.clone(), head));
        say(&sessions, turn(2, "out")).await;
        let second = sessions.pack("default", &budget(4000)).await.unwrap();
        assert!(second.markdown.starts_with(&first.markdown));
        assert_eq!(fs.read_to_string(&path("context/pack.md")).await.unwrap(), second.markdown);
        // Another program has written the file.
        fs.write(&path("context/pack.md"), "mine").await.unwrap();
        sessions.pack("default", &budget(4000)).await.unwrap();
        assert_eq!(fs.read_to_string(&path("context/pack.md")).await.unwrap(), second.markdown);
        fs.write(&path("context/pack.md"), "mine").await.unwrap();
        say(&sessions, turn(3, "out")).await;
        let third = sessions.pack("default", &budget(4000)).await.unwrap();
        assert_eq!(fs.read_to_string(&path("context/pack.md")).await.unwrap(), third.markdown);
        let difference = third.since(&second);
        assert_eq!(difference.common_bytes, second.markdown.len() as u64);
        assert_eq!((difference.added.len(), difference.removed.len(), difference.changed.len()), (0, 0, 1));
    }
}

#[tokio::test]
async fn pack_start_moves_only_when_full() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let (mut before, mut moves): (Option<Packed>, usize) = (None, 0);
        for number in 1..=60 {
            say(&sessions, turn(number, &format!("output {number} ").repeat(4))).await;
            if number == 3 {
                let mut derive = Derive::default();
                derive.summary = Some("Later than the first pack.".to_owned());
                sessions.derive("default", &derive).await.unwrap();
            }
            let packed = sessions.pack("default", &budget(1500)).await.unwrap();
            check(&packed);
            if let Some(before) = &before {
                if before.pack.window.from == packed.pack.window.from {
                    assert!(packed.markdown.starts_with(&before.markdown));
                } else {
                    moves += 1;
                    assert!(packed.pack.tokens <= 1125, "{}", packed.pack.tokens);
                    assert!(packed.markdown.contains("Later than the first pack."));
                    assert!(packed.pack.omitted.iter().any(|out| out.reason == "older"));
                }
            }
            before = Some(packed);
        }
        assert!((2..12).contains(&moves), "{moves}");
    }
}

#[tokio::test]
async fn oversized_step_is_cut_and_swapped_out() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let long: String = (0..40_000).map(|line| format!("line {line} of the log\n")).collect();
        let calls = json!([
            {"type": "tool_call", "id": "a", "name": "bash", "arguments": {"command": "make"}},
            {"type": "tool_call", "id": "b", "name": "bash", "arguments": {"command": "ls"}},
        ]);
        say(&sessions, [Draft::user("Build it."), Draft::message(Role::Assistant, &calls)]).await;
        say(&sessions, [result("a", &long), result("b", "src\n")]).await;
        let packed = sessions.pack("default", &budget(2000)).await.unwrap();
        check(&packed);
        assert!((1300..=1500).contains(&packed.pack.tokens), "{}", packed.pack.tokens);
        for said in
            ["line 0 of the log", "line 39999 of the log", "src\n", "bytes are left out: swap:sha256-"]
        {
            assert!(packed.markdown.contains(said), "{said}");
        }
        let cut = &packed.pack.window.cuts[0];
        let whole = sessions.swap_content("default", &cut.swap).await.unwrap();
        assert!(String::from_utf8(whole).unwrap().contains("line 20000 of the log"));
        let again = sessions.replay("default", None).await.unwrap();
        assert_eq!(again.markdown, packed.markdown);
        let error = sessions.pack("default", &budget(100)).await.unwrap_err();
        assert!(error.is(ErrorKind::BudgetTooSmall), "{error:?}");
        let least: u64 =
            error.message().split_whitespace().filter_map(|word| word.parse().ok()).next_back().unwrap();
        check(&sessions.pack("default", &budget(least)).await.unwrap());
        assert!(
            sessions.pack("default", &budget(least - 1)).await.unwrap_err().is(ErrorKind::BudgetTooSmall)
        );
    }
}

#[tokio::test]
async fn pack_replay_ignores_later_changes() {
    let (account, _folder) = super::sessions::account().await;
    let sessions = sessions(&*account).await;
    account.write(&path("context/pinned/system.md"), "You are a coder.\n").await.unwrap();
    for number in 1..=10 {
        say(&sessions, turn(number, &format!("output {number} ").repeat(20))).await;
    }
    let mut derive = Derive::default();
    derive.summary = Some("First.".to_owned());
    sessions.derive("default", &derive).await.unwrap();
    let swapped: Source = "messages:5-8".parse().unwrap();
    sessions.swap_out("default", &swapped, "the second turn").await.unwrap();
    let packed = sessions.pack("default", &budget(3000)).await.unwrap();
    assert!(
        packed.markdown.contains("messages 5-8 are swapped out") && !packed.markdown.contains("Question 2")
    );
    let then = Moment::Seq(account.head().await.unwrap().seq);
    derive.summary = Some("Second.".to_owned());
    sessions.derive("default", &derive).await.unwrap();
    account.write(&path("context/pinned/system.md"), "You are a poet.\n").await.unwrap();
    sessions.retract("default", &"messages:9-12".parse().unwrap(), None).await.unwrap();
    // The earlier pack may have been built from these messages.
    sessions.derive("default", &derive).await.unwrap();
    let id = sessions.swapped("default").await.unwrap()[0].id.clone();
    sessions.swap_in("default", &id).await.unwrap();
    say(&sessions, turn(11, "more")).await;
    let later = sessions.pack("default", &budget(3000)).await.unwrap();
    assert!(later.markdown.contains("You are a poet.") && later.markdown.contains("Second."));
    assert!(later.markdown.contains("Question 2") && !later.markdown.contains("Question 3"));
    let again = sessions.replay("default", Some(&then)).await.unwrap();
    assert_eq!(again.markdown, packed.markdown);
    assert_eq!(again.list(Format::Anthropic), packed.list(Format::Anthropic));
    let difference = later.since(&again);
    assert!(difference.changed.iter().any(|changed| changed.to.kind == "summary"));
}

#[tokio::test]
async fn facts_require_existing_source_lines() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, turn(1, "out")).await;
        let mut derive = Derive::default();
        derive.facts =
            Some(r#"{"id":"f1","text":"It parses.","source":["user:latest","tool:call_1"]}"#.to_owned());
        derive.summary = Some("s".to_owned());
        sessions.derive("default", &derive).await.unwrap();
        say(&sessions, turn(2, "out")).await;
        let why = sessions.why("default", "f1").await.unwrap();
        let led: Vec<_> = why.sources.iter().map(|(_, resolved)| resolved.fixed()).collect();
        assert_eq!(led, ["default#messages:1-1", "default#messages:3-3"]);
        let before = fs.head().await.unwrap().seq;
        for bad in ["messages:9", "tool:none", "context/none.md", "other#tail:1"] {
            derive.facts = Some(json!({"id": "f1", "text": "a", "source": bad}).to_string());
            let error = sessions.derive("default", &derive).await.unwrap_err();
            assert!(error.is(ErrorKind::Conflict) && error.message().contains("f1"), "{error:?}");
        }
        assert_eq!(fs.head().await.unwrap().seq, before);
        assert!(sessions.why("default", "f2").await.unwrap_err().is(ErrorKind::NotFound));
    }
}

#[tokio::test]
async fn repeated_output_is_referenced_and_secrets_masked() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let long = "the same log line\n".repeat(400);
        say(&sessions, turn(1, &long)).await;
        say(&sessions, turn(2, &long)).await;
        let secret = &each(&mut Random::new(8))[1].secret;
        say(&sessions, [Draft::user(format!("My token is {secret}."))]).await;
        let packed = sessions.pack("default", &budget(0)).await.unwrap();
        check(&packed);
        assert_eq!(packed.markdown.matches("the same log line\nthe same").count(), 200);
        assert!(packed.markdown.contains("[the same as the result in messages:3: sha256-"));
        for shown in [packed.markdown.clone(), packed.list(Format::OpenAi), packed.list(Format::Anthropic)] {
            assert!(!shown.contains(secret.as_str()) && shown.contains("[secret: "), "{shown}");
        }
        fs.apply(Op::write(path("context/pack.json"), "{}")).await.unwrap();
        assert!(sessions.replay("default", None).await.unwrap_err().is(ErrorKind::NotFound));
    }
}

#[tokio::test]
async fn cached_token_counts_change_no_pack() {
    let cache = TokenCache::default();
    for (fs, _kept) in engines().await {
        let plain = sessions(&*fs).await;
        let cached = plain.clone().cache(&cache, "acme");
        let secret = &each(&mut Random::new(8))[1].secret;
        for number in 0..40 {
            let output =
                if number % 2 == 0 { "the same line\n".repeat(400) } else { format!("line {number}") };
            say(&plain, turn(number, &output)).await;
            say(&plain, [Draft::user(format!("My token is {secret}."))]).await;
            for options in [budget(4000), budget(4000).fresh()] {
                let [expected, packed] = [&plain, &cached].map(|sessions| sessions.pack("default", &options));
                let (expected, packed) = (expected.await.unwrap(), packed.await.unwrap());
                assert_eq!((packed.pack.items, packed.markdown), (expected.pack.items, expected.markdown));
            }
            check(&cached.replay("default", None).await.unwrap());
        }
    }
}

#[tokio::test]
async fn consecutive_packs_share_95_percent_of_their_bytes() {
    let (account, _folder) = super::sessions::account().await;
    let sessions = sessions(&*account).await;
    account.write(&path("context/pinned/system.md"), "You are a careful coder.\n").await.unwrap();
    let (mut before, mut all, mut same) = (String::new(), 0, 0);
    for number in 1..=200 {
        // None has more than 1% of the budget.
        say(&sessions, turn(number, &format!("line {number} of the output\n").repeat(15))).await;
        let packed = sessions.pack("default", &budget(20_000)).await.unwrap();
        let common = packed.markdown.bytes().zip(before.bytes()).take_while(|(new, old)| new == old).count();
        all += packed.markdown.len();
        same += common;
        before = packed.markdown;
    }
    assert!(same * 100 >= all * 95, "{same} of {all} bytes are those of the pack before");
}

#[tokio::test]
async fn least_budget_suffices_with_retracted_messages() {
    let (account, _folder) = super::sessions::account().await;
    let sessions = sessions(&*account).await;
    let thought = json!([
        {"type": "reasoning", "text": "so", "signature": "s".repeat(50_000)},
        {"type": "tool_call", "id": "a", "name": "bash", "arguments": {}},
    ]);
    let said = [
        Draft::user("Go."),
        Draft::message(Role::Assistant, &thought),
        Draft::user("retracted ".repeat(500)),
    ];
    say(&sessions, said).await;
    sessions.retract("default", &"messages:3".parse().unwrap(), None).await.unwrap();
    let error = sessions.pack("default", &budget(5)).await.unwrap_err();
    let least = error.message().split_whitespace().filter_map(|word| word.parse().ok()).next_back().unwrap();
    check(&sessions.pack("default", &budget(least)).await.unwrap());
}

#[tokio::test]
async fn pack_has_at_most_100_pinned_files() {
    let (account, _folder) = super::sessions::account().await;
    let sessions = sessions(&*account).await;
    for number in 0..100 {
        sessions.pin("default", &format!("p{number}.md"), Some("x")).await.unwrap();
    }
    assert_eq!(sessions.pack("default", &budget(0)).await.unwrap().pack.items.len(), 100);
    assert!(sessions.pin("default", "more.md", Some("x")).await.unwrap_err().is(ErrorKind::TooLarge));
    sessions.pin("default", "p0.md", Some("again")).await.unwrap();
    // Another program writes a file that `pin` rejects: packs continue, `system.md` first.
    for name in ["more.md", "system.md"] {
        account.write(&path(&format!("context/pinned/{name}")), "x").await.unwrap();
    }
    let pack = sessions.pack("default", &budget(0)).await.unwrap().pack;
    assert_eq!(pack.items.first().map(|item| &*item.source), Some("context/pinned/system.md"));
    assert!(pack.omitted.iter().any(|out| out.reason == "too_many"), "{:?}", pack.omitted);
}

#[tokio::test]
async fn pack_adapts_to_changed_budget() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for number in 0..60 {
            say(&sessions, turn(number, &"word ".repeat(100))).await;
        }
        let pack = async |tokens| {
            let packed = sessions.pack("default", &budget(tokens)).await.unwrap();
            check(&packed);
            packed
        };
        let small = pack(2_000).await;
        let large = pack(8_000).await;
        assert!(large.pack.tokens > 2_000 && large.pack.window.from < small.pack.window.from);
        assert_eq!(pack(8_000).await.markdown, large.markdown);
        // All messages fit.
        assert_eq!(pack(0).await.pack.window.from, 1);
        assert!(pack(2_000).await.pack.tokens <= 2_000);
    }
}

#[tokio::test]
async fn pack_replay_uses_original_secret_detection() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        let link = "https://docs.example.org/document/d/1aBcD3fGhIjKlMnOpQrStUvWxYz0123456789AbCdEf/edit";
        fs.write(&path("context/pinned/style.md"), format!("As in {link} please.\n")).await.unwrap();
        say(&sessions, turn(1, &format!("see {link}"))).await;
        let packed = sessions.pack("default", &budget(4_000)).await.unwrap();
        assert_eq!(packed.markdown.matches(link).count(), 2);
        assert_eq!(sessions.replay("default", None).await.unwrap().markdown, packed.markdown);
        // Its description from before another detection existed.
        let mut before = serde_json::to_value(&packed.pack).unwrap();
        before.as_object_mut().unwrap().remove("secrets").unwrap();
        let first = |text: &str| Judgement::First.during(|| masked(text).into_owned());
        let forms = [
            ("markdown", first(&packed.markdown)),
            ("openai", first(&packed.list(Format::OpenAi))),
            ("anthropic", first(&packed.list(Format::Anthropic))),
        ];
        for (form, text) in &forms {
            assert_eq!(text.matches("[secret: random word]").count(), 2, "{text}");
            let digest = Sha256::digest(text.as_bytes());
            let sha256: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            before["forms"][form] = json!({"bytes": text.len(), "sha256": sha256});
        }
        let json = serde_json::to_string(&before).unwrap();
        fs.write(&path("context/pack.json"), json).await.unwrap();
        let again = sessions.replay("default", None).await.unwrap();
        assert_eq!(again.markdown, forms[0].1);
        assert_eq!(again.list(Format::Anthropic), forms[2].1);
        // The next one has the current detection.
        let next = sessions.pack("default", &budget(4_000)).await.unwrap();
        assert_eq!(next.markdown, packed.markdown);
        check(&next);
    }
}
