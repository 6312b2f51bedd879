//! Retracted messages are never sent to a model, at no cost to reads.

use std::sync::Arc;

use garth_agent::recall::fence::Key;
use garth_agent::recall::{Recall, Recaller};
use garth_agent::session::{
    Append, Change, Collect, Create, Derive, Draft, Import, Select, Sessions, Source, State, TranscriptFormat,
};
use garth_agent::{Access, Caller, Class, Request};
use garth_engine::model::{At, ByteRange, Op, SearchQuery};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::fs::counting::Counting;
use garth_testkit::fs::interfering::{Call, Interfering};
use serde_json::{Value, json};

use super::packs::{budget, check};
use super::sessions::{account, engines, path, said, sessions};

pub(super) fn source(text: &str) -> Source {
    text.parse().unwrap()
}

pub(super) async fn say(sessions: &Sessions<'_>, session: &str, texts: impl IntoIterator<Item = String>) {
    let drafts = texts.into_iter().enumerate().map(|(number, text)| match number % 2 {
        0 => Draft::user(text),
        _ => Draft::assistant(text),
    });
    let drafts: Vec<Draft> = drafts.collect();
    for part in drafts.chunks(1000) {
        sessions.append(session, &Append::messages(part.to_vec())).await.unwrap();
    }
}

#[tokio::test]
async fn repeated_retraction_is_idempotent() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (0..200).map(|number| format!("m{number}"))).await;
        sessions.retract("default", &source("messages:10-20"), None).await.unwrap();
        let before = fs.head().await.unwrap().seq;
        let again = sessions.retract("default", &source("messages:11-19"), None).await.unwrap();
        assert_eq!((again.lines, again.events.len()), (11..=19, 0));
        assert_eq!(fs.head().await.unwrap().seq, before);
        // Of those that were not retracted before there are two runs.
        let more = sessions.retract("default", &source("messages:5-30"), None).await.unwrap();
        assert_eq!(more.events.len(), 2);
        let events = fs.read_to_string(&path("events.jsonl")).await.unwrap();
        let last = events.lines().next_back().unwrap();
        assert!(last.contains(r#""source":"messages:21-30""#) && last.contains(r#""span":"messages:5-30""#));
        assert_eq!(said(&sessions, "default").await.len(), 200 - 26);
        // A rewind joins the run.
        sessions.retract("default", &source("messages:31-40"), None).await.unwrap();
        let events = fs.read_to_string(&path("events.jsonl")).await.unwrap();
        assert!(events.lines().next_back().unwrap().contains(r#""span":"messages:5-40""#));
    }
}

/// Order in which messages are retracted.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The last ones, repeatedly.
    Back,
    /// One after the other.
    Forth,
    /// Every second one.
    Apart,
    /// One message again and again, by events of another program.
    Again,
}

/// Counts the reads of a tail, the last message, lines and a pack in a session with `count` retractions.
async fn reads(fs: &Arc<dyn FileSystem>, way: Way, count: usize) -> (Vec<usize>, String) {
    let counting = Counting::new(Arc::clone(fs));
    let sessions = Sessions::new(&counting, "default", &format!("a-{way:?}-{count}").to_lowercase());
    let sessions = sessions.unwrap();
    sessions.create(&Create::new("s")).await.unwrap();
    let gone = |number: usize| match way {
        Way::Back | Way::Forth => number >= 20,
        Way::Apart => number >= 20 && number % 2 == 1,
        Way::Again => number == 20,
    };
    let all = 20 + if matches!(way, Way::Apart) { 2 * count } else { count };
    let texts = (0..all).map(|number| {
        let word = if gone(number) { "zretracted" } else { "kept" };
        format!("{word} {number}")
    });
    say(&sessions, "s", texts).await;
    let retract = async |lines: String| {
        sessions.retract("s", &source(&lines), None).await.unwrap();
    };
    match way {
        Way::Back => {
            for _ in 0..count / 50 {
                retract("tail:50".to_owned()).await;
            }
        }
        Way::Forth => {
            for number in 0..count / 50 {
                retract(format!("messages:{}-{}", 21 + 50 * number, 70 + 50 * number)).await;
            }
        }
        Way::Apart => {
            for number in 0..count {
                retract(format!("messages:{}", 22 + 2 * number)).await;
            }
        }
        Way::Again => {
            let event = || Draft::event("message.withdrawn").with("source", "messages:21-21");
            for part in 0..count.div_ceil(1000) {
                let events = (0..1000.min(count - part * 1000)).map(|_| event());
                sessions.append("s", &Append::events(events)).await.unwrap();
            }
        }
    }
    say(&sessions, "s", (0..4).map(|number| format!("kept last {number}"))).await;
    let mut reads = Vec::new();
    counting.reads_since();
    let tail = sessions.resolve("s", &source("tail:6")).await.unwrap();
    reads.push(counting.reads_since());
    assert_eq!(tail.fixed().rsplit('-').next(), Some(&*(all + 4).to_string()));
    sessions.resolve("s", &source("user:latest")).await.unwrap();
    reads.push(counting.reads_since());
    let page = sessions.lines("s", &Select::messages(15..=u64::MAX)).await.unwrap();
    if !matches!(way, Way::Apart | Way::Again) {
        assert_eq!(page.items.len(), 6 + 4);
        reads.push(counting.reads_since());
    }
    counting.reads_since();
    let packed = sessions.pack("s", &budget(1000)).await.unwrap();
    reads.push(counting.reads_since());
    check(&packed);
    assert!(packed.markdown.contains("kept last 3") && !packed.markdown.contains("zretracted"));
    (reads, packed.markdown)
}

#[tokio::test]
async fn read_cost_ignores_retractions() {
    let (account, _folder) = account().await;
    let fs: Arc<dyn FileSystem> = account.clone();
    for way in [Way::Back, Way::Forth, Way::Apart, Way::Again] {
        // Runs longer than all that one look-up or part covers.
        let sizes = if matches!(way, Way::Apart) { [80, 160] } else { [700, 1400] };
        let (few, small) = reads(&fs, way, sizes[0]).await;
        let (many, large) = reads(&fs, way, sizes[1]).await;
        for (few, many) in few.iter().zip(&many) {
            // A run among more events takes two more steps to find, and lines may touch one more block of
            // keys.
            assert!(*many <= *few + 16, "{way:?}: {few} and {many}");
        }
        if matches!(way, Way::Back | Way::Forth) {
            assert_eq!(small.matches("kept").count(), large.matches("kept").count(), "{way:?}");
        }
        let hits = account.search(&SearchQuery::new("zretracted").limit(100)).await.unwrap().hits;
        assert!(hits.iter().all(|hit| !hit.snippet.contains("zretracted")), "{way:?}: {hits:?}");
    }
}

#[tokio::test]
async fn search_and_recall_omit_retracted_messages() {
    let (account, _folder) = account().await;
    let sessions = sessions(&*account).await;
    let texts = ["The harbour is closed on Monday.", "The quokka lives on Rottnest island.", "Thank you."];
    say(&sessions, "default", texts.map(str::to_owned)).await;
    let found = async |text: &str| {
        let query = SearchQuery::new(text).limit(20).context(3);
        let hits = account.search(&query).await.unwrap().hits;
        let recaller = Recaller::new(&*account, "default");
        let recalled = recaller.recall(&Recall::new(text), &Key::new([9; 32])).await.unwrap();
        (hits, format!("{recalled:?}"))
    };
    let (hits, recalled) = found("quokka Rottnest").await;
    assert!(!hits.is_empty() && recalled.contains("quokka"));
    sessions.retract("default", &source("messages:2"), None).await.unwrap();
    for question in ["quokka Rottnest", "quokka", "harbour closed Monday"] {
        let (hits, recalled) = found(question).await;
        let shown = format!("{hits:?}");
        assert!(!shown.contains("quokka lives") && !recalled.contains("quokka lives"), "{shown} {recalled}");
        // Nor are there blanks in its place.
        assert!(!recalled.contains("    "), "{recalled}");
        assert_eq!(question.contains("harbour"), !hits.is_empty(), "{question}: {shown}");
        assert_eq!(question.contains("harbour"), recalled.contains("harbour is closed"), "{recalled}");
    }
}

#[tokio::test]
async fn retracted_words_raise_no_score() {
    const QUESTIONS: [&str; 4] =
        ["depot 91234", "91234 Zebrafirm", "the depot of Zebrafirm", "what does Anna earn at the depot"];
    /// Returns the hits in a session, with their scores, before and after its second message is retracted.
    async fn hits(second: &str) -> [Vec<(u64, u64)>; 2] {
        let (account, _folder) = account().await;
        let sessions = sessions(&*account).await;
        let texts = ["The depot opens at nine.", second, "Thanks, see you."];
        say(&sessions, "default", texts.map(str::to_owned)).await;
        let log = account.search(&SearchQuery::new("depot")).await.unwrap().hits.swap_remove(0).path;
        let scores = async || {
            let mut scores = Vec::new();
            for question in QUESTIONS {
                let query = SearchQuery::new(question).within(log.clone()).per_file(20);
                let hits = account.search(&query).await.unwrap().hits;
                scores.extend(hits.into_iter().map(|hit| (hit.bytes.start, hit.score.to_bits())));
            }
            scores
        };
        let before = scores().await;
        sessions.retract("default", &source("messages:2"), None).await.unwrap();
        [before, scores().await]
    }
    let [told, hidden] = hits("Anna earns 91234 euros at Zebrafirm.").await;
    let [other, without] = hits("Nobody said 55555 words of any uses.").await;
    assert_ne!(told, other);
    assert_eq!(hidden, without);
    assert!(!hidden.is_empty());
}

#[tokio::test]
async fn derived_entries_of_retracted_messages_are_removed() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (0..20).map(|number| format!("Said {number}."))).await;
        let fact = |id: &str, source: &str| json!({"id": id, "text": format!("fact {id}"), "source": source});
        let mut derive = Derive::default();
        derive.facts = Some(format!(
            "{}\n{}\n{}\n",
            fact("f1", "messages:1-2"),
            fact("f2", "messages:17-18"),
            fact("f3", "tail:2")
        ));
        let decision = json!({"id": "d1", "decision": "wait", "source": ["messages:1", "messages:20"]});
        derive.decisions = Some(decision.to_string());
        derive.refs = Some(
            json!({"id": "r1", "path": "/a", "kind": "file", "summary": "s", "source": "messages:20"})
                .to_string(),
        );
        derive.todo = Some("Ask again.".to_owned());
        derive.summary = Some("All was said.".to_owned());
        sessions.derive("default", &derive).await.unwrap();
        say(&sessions, "default", ["Later.".to_owned()]).await;
        let packed = sessions.pack("default", &budget(4000)).await.unwrap();
        for shown in ["fact f3", "wait", "Ask again.", "All was said."] {
            assert!(packed.markdown.contains(shown), "{shown}");
        }
        // What came later was no source.
        sessions.retract("default", &source("messages:21"), None).await.unwrap();
        let packed = sessions.pack("default", &budget(4000)).await.unwrap();
        assert!(packed.markdown.contains("All was said.") && packed.markdown.contains("fact f3"));
        sessions.retract("default", &source("messages:20"), None).await.unwrap();
        let packed = sessions.pack("default", &budget(4000)).await.unwrap();
        assert!(packed.markdown.contains("fact f1") && packed.markdown.contains("fact f2"));
        for hidden in ["fact f3", "wait", "Ask again.", "All was said.", "Said 19."] {
            assert!(!packed.markdown.contains(hidden), "{hidden}");
        }
        // A repeat is rejected, but not entries derived from other messages.
        let error = sessions.derive("default", &derive).await.unwrap_err();
        assert!(error.is(ErrorKind::Conflict) && error.message().contains("retracted"), "{error}");
        let mut again = Derive::default();
        again.summary = Some("Most was said.".to_owned());
        sessions.derive("default", &again).await.unwrap();
        let mut options = budget(4000);
        options.fresh = true;
        let packed = sessions.pack("default", &options).await.unwrap();
        assert!(packed.markdown.contains("Most was said."));
    }
}

#[tokio::test]
async fn summary_loses_retracted_excerpts() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (0..30).map(|number| format!("Word{number} was said."))).await;
        sessions.compact("default", &garth_agent::session::Compact::default()).await.unwrap();
        let summary = async || fs.read_to_string(&path("context/summary.md")).await.unwrap();
        assert!(summary().await.contains("Word3 was"));
        sessions.retract("default", &source("messages:4-5"), None).await.unwrap();
        let left = summary().await;
        assert!(!left.contains("Word3 was") && !left.contains("Word4 was") && left.contains("Word5 was"));
        assert!(left.starts_with("<!-- covers messages:1-"));
    }
}

#[tokio::test]
async fn packs_omit_retracted_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", ["we keep quokkas", "noted", "and a dog", "fine"].map(str::to_owned)).await;
        let swapped = sessions.swap_out("default", &source("messages:1-2"), "about quokkas").await.unwrap();
        let of_log = path("messages.jsonl").to_string();
        let refs = [("r1", "messages:1"), ("r2", &*of_log), ("r3", &*format!("swap:{}", swapped.id))];
        let line = |(id, at): &(&str, &str)| {
            json!({"id": id, "path": at, "kind": "k", "summary": "s"}).to_string() + "\n"
        };
        let mut derive = Derive::default();
        derive.refs = Some(refs.iter().map(line).collect());
        sessions.derive("default", &derive).await.unwrap();
        let mut options = budget(4000);
        options.expand = refs.map(|(id, _)| id.to_owned()).to_vec();
        let packed = sessions.pack("default", &options).await.unwrap();
        assert!(packed.markdown.matches("we keep quokkas").count() == 3, "{}", packed.markdown);
        sessions.retract("default", &source("messages:1"), None).await.unwrap();
        assert_eq!(fs.read_to_string(&path("context/pack.md")).await.unwrap(), "");
        let index = fs.read_to_string(&path("context/swap/index.jsonl")).await.unwrap();
        assert!(!index.contains("quokkas"), "{index}");
        options.expand.clear();
        let packed = sessions.pack("default", &options).await.unwrap();
        assert!(!packed.markdown.contains("quokkas"), "{}", packed.markdown);
        // A reference to retracted messages can still be derived, and is not expanded.
        let mut derive = Derive::default();
        derive.refs = Some(refs.iter().map(line).collect());
        sessions.derive("default", &derive).await.unwrap();
        options.expand = refs.map(|(id, _)| id.to_owned()).to_vec();
        let packed = sessions.pack("default", &options).await.unwrap();
        assert!(!packed.markdown.contains("quokkas"), "{}", packed.markdown);
        let reasons =
            packed.pack.omitted.iter().filter(|out| out.reason == "retracted" && out.kind == "expanded");
        assert_eq!(reasons.count(), 3, "{:?}", packed.pack.omitted);
    }
}

#[tokio::test]
async fn swapped_content_omits_retracted_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", ["we keep quokkas", "noted", "and a dog", "fine"].map(str::to_owned)).await;
        let swap = async |of: &str| sessions.swap_out("default", &source(of), "about quokkas").await.unwrap();
        let (part, one) = (swap("messages:1-2").await, swap("messages:1").await);
        let log = swap(path("messages.jsonl").as_str()).await;
        let shown = async |id: &str| {
            let content = sessions.swap_content("default", id).await;
            content.map(|bytes| String::from_utf8(bytes).unwrap())
        };
        assert!(shown(&part.id).await.unwrap().contains("quokkas"));
        sessions.retract("default", &source("messages:1"), None).await.unwrap();
        let late = swap("messages:1-3").await;
        let listed = sessions.swapped("default").await.unwrap();
        let of_lines = listed.iter().filter(|entry| entry.kind == "message_range");
        assert_eq!(of_lines.filter(|entry| entry.summary.is_empty()).count(), 3, "{listed:?}");
        for id in [&part.id, &log.id, &late.id] {
            let left = shown(id).await.unwrap();
            assert!(!left.contains("quokkas") && left.contains("noted"), "{left}");
            let bytes = sessions.swap_in("default", id).await.unwrap();
            assert_eq!(bytes, left.len());
            // The chunk stays, but no entry says what it has.
            assert_eq!(shown(id).await.unwrap(), left);
        }
        let error = shown(&one.id).await.unwrap_err();
        assert!(error.is(ErrorKind::NotFound) && error.message().contains("retracted"), "{error}");
        assert_eq!(sessions.swap_in("default", &one.id).await.unwrap(), 0);
        assert!(sessions.swapped("default").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn references_to_retracted_messages_are_removed() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", ["we keep quokkas", "noted", "and a dog", "fine"].map(str::to_owned)).await;
        let swap = async |of: &str| sessions.swap_out("default", &source(of), "").await.unwrap().id;
        let (gone, kept) = (swap("messages:1-2").await, swap("messages:3").await);
        let of_log = path("messages.jsonl").to_string();
        let chunk = format!("context/swap/chunk/{gone}");
        let line = |(id, at): (&str, &str)| {
            json!({"id": id, "path": at, "kind": "k", "summary": "s"}).to_string() + "\n"
        };
        let mut derive = Derive::default();
        let refs = [
            ("g1", "messages:1"),
            ("g2", &*of_log),
            ("g3", &*format!("swap:{gone}")),
            ("g4", &*chunk),
            ("k1", "messages:3"),
            ("k2", &*format!("swap:{kept}")),
            ("k3", "/elsewhere"),
        ];
        derive.refs = Some(refs.map(line).concat());
        sessions.derive("default", &derive).await.unwrap();
        sessions.retract("default", &source("messages:1"), None).await.unwrap();
        let left = fs.read_to_string(&path("context/refs.jsonl")).await.unwrap();
        assert_eq!(left, [refs[4], refs[5], refs[6]].map(line).concat());
    }
}

#[tokio::test]
async fn search_omits_archives_of_retracted_messages() {
    let (account, _folder) = account().await;
    let fs = account.overriding_rules();
    let sessions = sessions(&*fs).await;
    say(&sessions, "default", ["we keep quokkas", "and wombats"].map(str::to_owned)).await;
    sessions.retract("default", &source("messages:1"), None).await.unwrap();
    let policy = "keep_messages=0\nkeep_events=1\nhistory=archive\nhistory_ttl=0s\n";
    fs.write(&path("context/gc.policy"), policy).await.unwrap();
    sessions.set("default", &Change::new().state(State::Done)).await.unwrap();
    let done = sessions.collect("default", &Collect::default()).await.unwrap();
    assert!(done.removed.iter().any(|one| one.name == "messages.jsonl"), "{done:?}");
    let archive = fs.read_to_string(&path("archive/messages.jsonl")).await.unwrap();
    assert!(archive.contains("quokkas"));
    assert!(fs.search(&SearchQuery::new("quokkas")).await.unwrap().hits.is_empty());
}

#[tokio::test]
async fn collection_keeps_events_of_retracted_messages() {
    let (account, _folder) = account().await;
    let fs = account.overriding_rules();
    let sessions = sessions(&*fs).await;
    say(&sessions, "default", ["we keep quokkas", "and wombats"].map(str::to_owned)).await;
    sessions.retract("default", &source("messages:1"), None).await.unwrap();
    let policy = "keep_messages=1\nkeep_events=0\nhistory=delete\nhistory_ttl=0s\n";
    fs.write(&path("context/gc.policy"), policy).await.unwrap();
    sessions.set("default", &Change::new().state(State::Done)).await.unwrap();
    sessions.collect("default", &Collect::default()).await.unwrap();
    assert_eq!(said(&sessions, "default").await, ["and wombats"]);
}

/// Returns facts that a session derives from messages of another one.
pub(super) fn facts(of: &[(&str, &str)]) -> Derive {
    let line = |(id, source): &(&str, &str)| {
        json!({"id": id, "text": format!("fact {id} about quinces"), "source": source}).to_string() + "\n"
    };
    let mut derive = Derive::default();
    derive.facts = Some(of.iter().map(line).collect());
    derive
}

#[tokio::test]
async fn other_sessions_lose_entries_of_retracted_messages() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (0..10).map(|number| format!("Said {number}."))).await;
        sessions.create(&Create::new("other")).await.unwrap();
        say(&sessions, "other", (0..10).map(|number| format!("Noted {number}."))).await;
        let derive = facts(&[
            ("f1", "default#messages:1-2"),
            ("f2", "default#messages:5"),
            ("f3", "messages:5"),
            ("f4", "default#tail:1"),
        ]);
        sessions.derive("other", &derive).await.unwrap();
        let mut decided = Derive::default();
        decided.decisions =
            Some(json!({"id": "d1", "decision": "wait", "source": "default#messages:4-6"}).to_string());
        decided.refs = Some(
            json!({"id": "r1", "path": "default#messages:5", "kind": "said", "summary": "pears"}).to_string(),
        );
        sessions.derive("other", &decided).await.unwrap();
        let packed = sessions.pack("other", &budget(4000)).await.unwrap();
        assert!(packed.markdown.contains("fact f2") && packed.markdown.contains("pears"));
        sessions.retract("default", &source("messages:5"), None).await.unwrap();
        let file = |name: &str| path(name).as_str().replace("/session/default/", "/session/other/");
        let file = TreePath::parse(&file("context/facts.jsonl")).unwrap();
        let left = fs.read_to_string(&file).await.unwrap();
        assert!(left.contains("fact f1") && !left.contains("fact f2"), "{left}");
        for hidden in ["f2", "d1", "r1"] {
            assert!(sessions.why("other", hidden).await.unwrap_err().is(ErrorKind::NotFound), "{hidden}");
            assert!(sessions.to_publish("other", hidden).await.unwrap_err().is(ErrorKind::NotFound));
        }
        let packed = sessions.pack("other", &budget(4000)).await.unwrap();
        for shown in ["fact f1", "fact f3", "fact f4"] {
            assert!(packed.markdown.contains(shown), "{shown}");
        }
        for hidden in ["fact f2", "wait", "pears"] {
            assert!(!packed.markdown.contains(hidden), "{hidden}");
        }
        // Not every engine can search.
        if let Ok(found) = fs.search(&SearchQuery::new("quinces")).await {
            let found = format!("{found:?}");
            assert!(found.contains("facts.jsonl") && !found.contains("fact f2"), "{found}");
        }
        // Neither the whole file again nor a new entry brings the text back.
        for again in [derive, facts(&[("f9", "default#messages:5")])] {
            let error = sessions.derive("other", &again).await.unwrap_err();
            assert!(error.is(ErrorKind::Conflict) && error.message().contains("retracted"), "{error}");
        }
        // A range of which a part is retracted can be derived from again, and stays.
        sessions
            .derive("other", &facts(&[("f5", "default#messages:4-6"), ("f4", "default#messages:10")]))
            .await
            .unwrap();
        sessions.retract("default", &source("messages:5"), None).await.unwrap();
        // Any event that retracts messages does the same.
        let event = Draft::event("message.withdrawn").with("source", "messages:10-10");
        sessions.append("default", &Append::events([event])).await.unwrap();
        assert!(sessions.why("other", "f5").await.is_ok());
        assert!(sessions.why("other", "f4").await.unwrap_err().is(ErrorKind::NotFound));
    }
}

#[tokio::test]
async fn many_sessions_lose_entries_of_retracted_messages() {
    let (fs, _kept) = engines().await.remove(0);
    let sessions = sessions(&*fs).await;
    say(&sessions, "default", (0..2).map(|number| format!("Said {number}."))).await;
    let others: Vec<String> = (0..70).map(|number| format!("other-{number}")).collect();
    for other in &others {
        sessions.create(&Create::new(other)).await.unwrap();
        let derive = facts(&[("f1", "default#messages:1"), ("f2", "default#messages:2")]);
        sessions.derive(other, &derive).await.unwrap();
    }
    sessions.retract("default", &source("messages:2"), None).await.unwrap();
    for other in &others {
        assert!(sessions.why(other, "f1").await.is_ok(), "{other}");
        let file = format!("/users/default/agents/coder/session/{other}/context/facts.jsonl");
        let left = fs.read_to_string(&TreePath::parse(&file).unwrap()).await.unwrap();
        assert!(!left.contains("fact f2"), "{left}");
        assert!(sessions.why(other, "f2").await.unwrap_err().is(ErrorKind::NotFound), "{other}");
    }
}

/// Returns the ids of the facts of a session.
pub(super) async fn fact_ids(fs: &dyn FileSystem, session: &str) -> Vec<String> {
    let file = format!("/users/default/agents/coder/session/{session}/context/facts.jsonl");
    let text = fs.read_to_string(&TreePath::parse(&file).unwrap()).await.unwrap();
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    text.lines().map(id).collect()
}

#[tokio::test]
async fn repeat_finishes_an_interrupted_retraction() {
    let [user, answer] = ["user", "assistant"];
    let text = |said: &[&str]| -> String {
        let roles = [user, answer].into_iter().cycle();
        said.iter()
            .zip(roles)
            .map(|(said, role)| json!({"role": role, "content": said}).to_string() + "\n")
            .collect()
    };
    let (first, other) = (text(&["a", "b", "c"]), text(&["a", "x"]));
    for is_import in [false, true] {
        for (fs, _kept) in engines().await {
            let fs: Arc<dyn FileSystem> = fs;
            let own = sessions(&*fs).await;
            own.import("default", &Import::new(TranscriptFormat::OpenAi, &first)).await.unwrap();
            let others: Vec<String> = (0..66).map(|number| format!("other-{number}")).collect();
            for other in &others {
                own.create(&Create::new(other)).await.unwrap();
                let of = [("kept", "default#messages:1"), ("part", "default#messages:1-2")];
                own.derive(other, &facts(&of)).await.unwrap();
            }
            let retract = async |fs: &dyn FileSystem| {
                let own = Sessions::new(fs, "default", "coder").unwrap();
                match is_import {
                    true => {
                        let import = Import::new(TranscriptFormat::OpenAi, &other).rewind();
                        own.import("default", &import).await.map(drop)
                    }
                    false => own.retract("default", &source("messages:2"), None).await.map(drop),
                }
            };
            // A crash before the second commit.
            let fails = vec![Op::remove(TreePath::parse("/missing").unwrap())];
            let cut = Interfering::new(&fs, Call::Commit, 1, fails);
            assert!(retract(&cut).await.unwrap_err().is(ErrorKind::NotFound));
            let own = Sessions::new(&*fs, "default", "coder").unwrap();
            let mut left = Vec::new();
            for other in &others {
                if fact_ids(&*fs, other).await.len() == 2 {
                    left.push(other);
                }
            }
            assert_eq!(left.len(), 2, "{left:?}");
            // One is derived again in between, from the message that is left. It keeps an older entry.
            let of = [
                ("kept", "default#messages:1"),
                ("part", "default#messages:1-2"),
                ("new", "default#messages:1-2"),
            ];
            own.derive(left[0], &facts(&of)).await.unwrap();
            for _ in 0..2 {
                retract(&*fs).await.unwrap();
                assert_eq!(fact_ids(&*fs, left[0]).await, ["kept", "new"], "{is_import}");
                assert_eq!(fact_ids(&*fs, left[1]).await, ["kept"], "{is_import}");
            }
        }
    }
}

#[tokio::test]
async fn repeat_ends_beside_a_reference_to_the_log() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        say(&sessions, "default", (0..3).map(|number| format!("Said {number}."))).await;
        sessions.create(&Create::new("other")).await.unwrap();
        sessions.retract("default", &source("messages:1"), None).await.unwrap();
        // Written after the retraction: the file as a whole, of which the other messages are shown.
        let log = path("messages.jsonl");
        let mut derive = Derive::default();
        derive.refs = Some(json!({"id": "r", "path": log, "kind": "file", "summary": "s"}).to_string());
        sessions.derive("other", &derive).await.unwrap();
        sessions.retract("default", &source("messages:1"), None).await.unwrap();
        assert!(sessions.why("other", "r").await.is_ok());
    }
}

#[tokio::test]
async fn hidden_sessions_lose_entries_of_retracted_messages() {
    let (account, _folder) = account().await;
    let open = async |class: Class| {
        let request = Request::new("coder").user("ann").class(class);
        let access = Access::open(&account, &Env::system(), Caller::Holder, &request).await.unwrap();
        access.make().await.unwrap();
        access
    };
    let (dm, main) = (open(Class::Dm).await, open(Class::Main).await);
    dm.sessions().create(&Create::new("d")).await.unwrap();
    say(&dm.sessions(), "d", ["Ann likes quinces.".to_owned(), "Noted.".to_owned()]).await;
    let main = main.sessions();
    main.create(&Create::new("m")).await.unwrap();
    main.derive("m", &facts(&[("f1", "d#messages:1"), ("f2", "d#messages:2")])).await.unwrap();
    let dm = open(Class::Dm).await;
    let dm = dm.sessions();
    assert!(dm.get("m").await.unwrap_err().is(ErrorKind::NotFound));
    dm.retract("d", &source("messages:1"), None).await.unwrap();
    assert!(main.why("m", "f2").await.is_ok());
    let file = account.read_to_string(&main_file("context/facts.jsonl")).await.unwrap();
    assert!(file.contains("f2") && !file.contains("f1"), "{file}");
    // The bytes that are left are still of its own class.
    let blame = account
        .blame(&At::from(main_file("context/facts.jsonl")), ByteRange { offset: 0, length: 1 << 20 }, 10)
        .await
        .unwrap();
    assert!(format!("{blame:?}").contains("main") && !format!("{blame:?}").contains("dm"), "{blame:?}");
}

fn main_file(name: &str) -> TreePath {
    TreePath::parse(&format!("/users/ann/agents/coder/session/m/{name}")).unwrap()
}
