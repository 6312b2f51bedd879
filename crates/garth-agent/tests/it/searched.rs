//! Search among the data of agents: finds the text of active memories, and no files next to it.

use std::sync::Arc;

use garth_agent::session::{Append, Create, Draft, Sessions};
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Op, SearchMode, SearchQuery};
use garth_engine::view::Scope;
use garth_engine::{Env, FileSystem, TreePath};
use tempfile::TempDir;

fn path(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

fn account() -> (TempDir, Arc<SqliteFs>) {
    let folder = tempfile::tempdir().unwrap();
    let fs = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
    (folder, fs)
}

async fn commit(fs: &dyn FileSystem, ops: impl IntoIterator<Item = Op>) {
    fs.commit(Batch::new(ops)).await.unwrap();
}

fn write(at: &str, text: &str) -> Op {
    Op::write(path(at), text.to_owned()).with_parents()
}

fn meta(dir: &str, status: &str) -> Op {
    write(&format!("{dir}/.meta.json"), &format!(r#"{{"status":"{status}","heron":1}}"#))
}

fn memory(dir: &str) -> Vec<Op> {
    let file = |name: &str, text: &str| write(&format!("{dir}/{name}"), text);
    vec![
        file("content.md", "The heron stands in the pond."),
        file(".abstract.md", "A heron."),
        file(".overview.md", "# Heron"),
        file(".relations.json", r#"["heron"]"#),
        file(".outbox/e.json", r#"{"text":"heron"}"#),
    ]
}

async fn paths(fs: &dyn FileSystem, query: SearchQuery) -> Vec<String> {
    let hits = fs.search(&query).await.unwrap().hits;
    let mut paths: Vec<String> = hits.iter().map(|hit| hit.path.to_string()).collect();
    paths.sort();
    paths
}

fn heron() -> SearchQuery {
    SearchQuery::new("heron")
}

#[tokio::test]
async fn search_finds_only_active_memories() {
    let (_folder, fs) = account();
    for dir in ["/users/a/memories/profile", "/agents/b/memories/cases/x", "/agents/b/skills/s"] {
        let own = [format!("{dir}/content.md")];
        commit(&*fs, memory(dir)).await;
        assert!(paths(&*fs, heron()).await.is_empty(), "{dir}: without meta");
        for (status, there) in [("PENDING", false), ("ACTIVE", true), ("BROKEN", false), ("ACTIVE", true)] {
            commit(&*fs, [meta(dir, status)]).await;
            let due = if there { &own[..] } else { &[] };
            assert_eq!(paths(&*fs, heron()).await, due, "{dir}: {status}");
        }
        let with_layers = [".abstract.md", ".overview.md", "content.md"].map(|name| format!("{dir}/{name}"));
        assert_eq!(paths(&*fs, heron().layers(true)).await, with_layers);
        commit(&*fs, [Op::remove_file(path(&format!("{dir}/.meta.json")))]).await;
        assert!(paths(&*fs, heron().layers(true)).await.is_empty(), "{dir}: its meta is gone");
        commit(&*fs, [Op::remove_tree(path(dir))]).await;
    }
}

#[tokio::test]
async fn search_follows_renamed_memories() {
    let (_folder, fs) = account();
    let (one, other) = ("/users/a/memories/events/x", "/users/a/memories/events/y");
    commit(&*fs, memory(one).into_iter().chain([meta(one, "ACTIVE")])).await;
    commit(&*fs, memory(other).into_iter().chain([meta(other, "PENDING")])).await;
    assert_eq!(paths(&*fs, heron()).await, [format!("{one}/content.md")]);
    commit(&*fs, [Op::rename(path(one), path("/users/a/memories/events/z"))]).await;
    commit(&*fs, [Op::rename(path(other), path(one))]).await;
    assert_eq!(paths(&*fs, heron()).await, ["/users/a/memories/events/z/content.md"]);
    // A directory of memories, and one moved out of it: there it is text like any other.
    commit(&*fs, [Op::rename(path("/users/a"), path("/users/b"))]).await;
    assert_eq!(paths(&*fs, heron()).await, ["/users/b/memories/events/z/content.md"]);
    commit(&*fs, [Op::rename(path("/users/b/memories/events/x"), path("/x"))]).await;
    let all =
        [".abstract.md", ".meta.json", ".outbox/e.json", ".overview.md", ".relations.json", "content.md"];
    let mut due = all.map(|name| format!("/x/{name}")).to_vec();
    due.push("/users/b/memories/events/z/content.md".to_owned());
    due.sort();
    assert_eq!(paths(&*fs, heron()).await, due);
    commit(&*fs, [Op::rename(path("/x"), path("/users/b/memories/events/x"))]).await;
    assert_eq!(paths(&*fs, heron()).await, ["/users/b/memories/events/z/content.md"]);
}

#[tokio::test]
async fn excluded_files_are_found_by_other_names() {
    let (_folder, fs) = account();
    let session = "/users/a/agents/b/session/s";
    for name in [
        "state",
        "cwd",
        "latest.md",
        "native/x.jsonl",
        "context/pack.md",
        "context/swap/chunk/x",
        "context/dedup/i",
    ] {
        let text = if name.ends_with(".jsonl") { "\"heron\"\n" } else { "heron" };
        commit(&*fs, [write(&format!("{session}/{name}"), text)]).await;
    }
    for hidden in ["/.outbox/e.json", "/agents/b/sessions/old.jsonl"] {
        commit(&*fs, [write(hidden, "heron")]).await;
    }
    let message = r#"{"id":"msg-1","role":"user","created_at":"2026-01-27T09:30:00Z","content":"heron"}"#;
    for (shown, text) in [("messages.jsonl", message), ("context/summary.md", "heron")] {
        commit(&*fs, [write(&format!("{session}/{shown}"), text)]).await;
    }
    commit(&*fs, [write("/agents/b/skills/s/SKILL.md", "heron")]).await;
    let shown = ["/agents/b/skills/s/SKILL.md".to_owned()]
        .into_iter()
        .chain(["context/summary.md", "messages.jsonl"].map(|name| format!("{session}/{name}")));
    let shown: Vec<String> = shown.collect();
    assert_eq!(paths(&*fs, heron()).await, shown);
    let scope = Scope::open(&*fs, &path(session)).await.unwrap();
    assert_eq!(paths(&*scope, heron()).await, ["/context/summary.md", "/messages.jsonl"]);
    assert_eq!(fs.search(&heron().limit(3)).await.unwrap().hits.len(), 3, "what is not found does not count");
    commit(&*fs, [Op::link(path("/.outbox/e.json"), path("/kept.json"))]).await;
    assert!(paths(&*fs, heron()).await.contains(&"/kept.json".to_owned()));
}

#[tokio::test]
async fn numbered_memories_are_neighbours() {
    let (_folder, fs) = account();
    let dir = "/users/a/memories/events";
    for (slug, text) in [
        ("5-9", "the trip to Lisbon"),
        ("5-10", "yes, the deposit is paid"),
        ("5-12", "the deposit again"),
        ("6-11", "the deposit once more"),
    ] {
        let dir = format!("{dir}/{slug}");
        commit(&*fs, [write(&format!("{dir}/content.md"), text), meta(&dir, "ACTIVE")]).await;
    }
    let gaining = async |query: &SearchQuery| {
        let hits = fs.search(query).await.unwrap().hits;
        assert!(hits.len() >= 2, "{hits:?}");
        let gaining = hits.iter().filter(|hit| hit.parts.neighbours > 0.0);
        let mut paths: Vec<String> = gaining.map(|hit| hit.path.to_string()).collect();
        paths.sort();
        paths
    };
    let query = SearchQuery::new("deposit Lisbon");
    let due = ["5-10", "5-9"].map(|slug| format!("{dir}/{slug}/content.md"));
    assert_eq!(gaining(&query).await, due);
    let inside = ["5-9", "5-10"].map(|slug| path(&format!("{dir}/{slug}")));
    let hidden = inside.into_iter().fold(query, SearchQuery::within);
    assert_eq!(gaining(&hidden).await, [""; 0], "names that are not shown");
}

#[tokio::test]
async fn session_metadata_is_not_compared() {
    let (_folder, fs) = account();
    let sessions = Sessions::new(&*fs, "default", "coder").unwrap();
    for (name, title) in [("one", "Departure of the boat"), ("two", "Garden")] {
        sessions.create(&Create::new(name).title(title)).await.unwrap();
        let said = vec![Draft::user("When does the ferry leave?"), Draft::assistant("At nine, from pier 4.")];
        sessions.append(name, &Append::messages(said)).await.unwrap();
    }
    let mut answers = Vec::new();
    for name in ["one", "two"] {
        let dir = path(&format!("/users/default/agents/coder/session/{name}"));
        let query = SearchQuery::new("What is the departure time of the boat?").mode(SearchMode::Meaning);
        let hits = fs.search(&query.per_file(10).within(dir)).await.unwrap().hits;
        assert!(hits.iter().all(|hit| hit.path.name() == Some("messages.jsonl")), "{hits:?}");
        answers.push(hits.iter().map(|hit| (hit.lines.clone(), hit.score)).collect::<Vec<_>>());
    }
    assert_eq!(answers[0].len(), 2, "{answers:?}");
    assert_eq!(answers[0], answers[1]);
    for word in ["idle", "main"] {
        assert_eq!(paths(&*fs, SearchQuery::new(word)).await, [""; 0], "{word}");
    }
}

#[tokio::test]
async fn slug_and_category_of_memory_count() {
    let (_folder, fs) = account();
    let [tea, other] =
        ["likes-green-tea", "other"].map(|slug| format!("/users/ann/memories/preferences/{slug}"));
    for dir in [&tea, &other] {
        let content = write(&format!("{dir}/content.md"), "She drinks it every morning.");
        commit(&*fs, [content, meta(dir, "ACTIVE")]).await;
    }
    let found = async |text: &str| {
        let hits = fs.search(&SearchQuery::new(text)).await.unwrap().hits;
        hits.into_iter().map(|hit| (hit.path.to_string(), hit.parts.neighbours)).collect::<Vec<_>>()
    };
    let content = |dir: &str| format!("{dir}/content.md");
    let by_slug = found("drinks tea").await;
    assert_eq!(by_slug.iter().map(|(at, _)| at).collect::<Vec<_>>(), [&content(&tea), &content(&other)]);
    assert!(by_slug[0].1 > 0.0 && by_slug[1].1 == 0.0, "{by_slug:?}");
    let by_category = found("drinks preferences").await;
    assert!(by_category.len() == 2 && by_category.iter().all(|(_, gain)| *gain > 0.0), "{by_category:?}");
    for name in ["ann", "users", "memories", "content"] {
        let found = found(&format!("drinks {name}")).await;
        assert!(found.len() == 2 && found.iter().all(|(_, gain)| *gain == 0.0), "{name}: {found:?}");
    }
    commit(&*fs, [Op::rename(path(&tea), path("/users/ann/memories/preferences/coffee"))]).await;
    let renamed = found("drinks tea").await;
    assert!(renamed.len() == 2 && renamed.iter().all(|(_, gain)| *gain == 0.0), "{renamed:?}");
}
