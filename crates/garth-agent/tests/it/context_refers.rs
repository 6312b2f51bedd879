//! References keep chunks and blobs, in any file. Files in which references could not be found are rejected.

use garth_agent::session::{
    Append, ChildChange, Collect, Create, Derive, Draft, PackOptions, Sessions, Spawn,
};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt};
use serde_json::json;

use super::sessions::{engines, path, sessions};

async fn chunk(sessions: &Sessions<'_>, source: &str) -> String {
    let id = sessions.swap_out("default", &source.parse().unwrap(), "s").await.unwrap().id;
    sessions.swap_in("default", &id).await.unwrap();
    id
}

async fn blob(fs: &dyn FileSystem, sessions: &Sessions<'_>, name: &str) -> String {
    fs.write(&path(name), format!("in {name}")).await.unwrap();
    let hash = sessions.dedup("default", &[name.parse().unwrap()]).await.unwrap().remove(0).hash;
    fs.remove(&path(name)).await.unwrap();
    hash
}

async fn collect(sessions: &Sessions<'_>) -> Vec<String> {
    let dry = sessions.collect("default", &Collect::dry()).await.unwrap();
    let done = sessions.collect("default", &Collect::default()).await.unwrap();
    assert_eq!(dry.removed, done.removed);
    let again = sessions.collect("default", &Collect::default()).await.unwrap().removed;
    assert!(again.is_empty(), "{again:?}");
    let mut names: Vec<String> = done.removed.into_iter().map(|one| one.name).collect();
    names.sort();
    names
}

fn fresh() -> PackOptions {
    let mut options = PackOptions::default();
    options.fresh = true;
    options
}

async fn ttl_0(fs: &dyn FileSystem) {
    fs.write(&path("context/gc.policy"), "swap_ttl=0s\npack_ttl=1d\n").await.unwrap();
}

#[tokio::test]
async fn collection_keeps_files_referenced_by_children() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.append("default", &Append::messages(["a", "b", "c"].map(Draft::user))).await.unwrap();
        let (one, two, free) = (
            chunk(&sessions, "messages:1").await,
            chunk(&sessions, "messages:2").await,
            chunk(&sessions, "messages:3").await,
        );
        let (kept, gone) = (blob(&*fs, &sessions, "kept.md").await, blob(&*fs, &sessions, "gone.md").await);
        sessions.spawn("default", &Spawn::new("kid", "do")).await.unwrap();
        let reference = |id: &str, path: &str, source: &str| {
            json!({"id": id, "path": path, "kind": "x", "summary": "s", "source": source}).to_string() + "\n"
        };
        let mut change = ChildChange::default();
        change.refs = Some(
            reference("a", "/x", &format!("swap:{one}"))
                + &reference("b", &format!("{}", path(&format!("context/swap/chunk/{two}"))), "messages:1")
                + &reference("c", &format!("context/dedup/blob/{kept}"), "messages:1"),
        );
        sessions.set_child("default", "kid", &change).await.unwrap();
        ttl_0(&*fs).await;
        let due = [format!("context/dedup/blob/{gone}"), format!("context/swap/chunk/{free}")];
        assert_eq!(collect(&sessions).await, due);
        change.refs = Some(String::new());
        sessions.set_child("default", "kid", &change).await.unwrap();
        assert_eq!(collect(&sessions).await.len(), 3, "nothing names them any more");
    }
}

#[tokio::test]
async fn rejects_chunks_of_other_sessions_as_sources() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.append("default", &Append::messages([Draft::user("a")])).await.unwrap();
        let (id, hash) = (chunk(&sessions, "messages:1").await, blob(&*fs, &sessions, "a.md").await);
        sessions.create(&Create::new("other")).await.unwrap();
        sessions.spawn("other", &Spawn::new("kid", "do")).await.unwrap();
        let at = path(&format!("context/dedup/blob/{hash}"));
        let entry = |source: &str| json!({"id": "f1", "text": "t", "source": source}).to_string();
        let of_path = |path: &str| json!({"id": "r1", "path": path, "kind": "k", "summary": "s"}).to_string();
        for source in
            [format!("default#swap:{id}"), format!("default#context/swap/chunk/{id}"), at.to_string()]
        {
            let mut derive = Derive::default();
            derive.facts = Some(entry(&source));
            let mut of_ref = Derive::default();
            of_ref.refs = Some(of_path(&source));
            let mut change = ChildChange::default();
            change.refs = Some(of_path(&source));
            for refused in [
                sessions.derive("other", &derive).await.unwrap_err(),
                sessions.derive("other", &of_ref).await.unwrap_err(),
                sessions.set_child("other", "kid", &change).await.unwrap_err(),
            ] {
                let is_said = refused.message().contains("name the lines it came from");
                assert!(refused.is(ErrorKind::Conflict) && is_said, "{source}: {refused:?}");
            }
            sessions.derive("default", &derive).await.unwrap();
        }
        let mut of_kid = ChildChange::default();
        of_kid.refs = Some(of_path(&format!("swap:{id}")));
        let refused = sessions.set_child("other", "kid", &of_kid).await.unwrap_err();
        assert!(refused.is(ErrorKind::Conflict), "{refused:?}");
        let mut derive = Derive::default();
        derive.facts = Some(entry("default#messages:1"));
        sessions.derive("other", &derive).await.unwrap();
    }
}

#[tokio::test]
async fn collection_keeps_references_in_derived_text() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.append("default", &Append::messages(["a", "b", "c"].map(Draft::user))).await.unwrap();
        let id = sessions.swap_out("default", &"messages:1".parse().unwrap(), "s").await.unwrap().id;
        sessions.pack("default", &PackOptions::default()).await.unwrap();
        sessions.swap_in("default", &id).await.unwrap();
        let said = chunk(&sessions, "messages:2").await;
        let mut derive = Derive::default();
        derive.todo = Some(format!("- Look at swap:{said}.\n"));
        sessions.derive("default", &derive).await.unwrap();
        ttl_0(&*fs).await;
        assert!(collect(&sessions).await.is_empty(), "the pack shows the one, the other is to be looked at");
        sessions.pack("default", &PackOptions::default()).await.unwrap();
        assert_eq!(collect(&sessions).await, [format!("context/swap/chunk/{id}")]);
    }
}

#[tokio::test]
async fn collection_keeps_files_under_other_names() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        for name in ["swap/chunk/one.txt", "swap/chunk/two.txt", "dedup/blob/one.txt", "dedup/blob/two.txt"] {
            fs.write(&path(&format!("context/{name}")), name).await.unwrap();
        }
        let mut derive = Derive::default();
        derive.facts = Some(
            json!({"id": "f", "text": "t", "source": ["swap:one.txt", "context/dedup/blob/one.txt"]})
                .to_string(),
        );
        sessions.derive("default", &derive).await.unwrap();
        fs.write(&path("context/gc.policy"), "swap_ttl=0s\ndedup_min_refs=0\n").await.unwrap();
        assert_eq!(collect(&sessions).await, ["context/swap/chunk/two.txt"]);
        ttl_0(&*fs).await;
        assert_eq!(collect(&sessions).await, ["context/dedup/blob/two.txt"]);
        // A pack shows the fact until it is built again.
        sessions.pack("default", &PackOptions::default()).await.unwrap();
        let mut derive = Derive::default();
        derive.facts = Some(String::new());
        sessions.derive("default", &derive).await.unwrap();
        assert!(collect(&sessions).await.is_empty());
        sessions.pack("default", &fresh()).await.unwrap();
        assert_eq!(collect(&sessions).await, ["context/dedup/blob/one.txt", "context/swap/chunk/one.txt"]);
    }
}

#[tokio::test]
async fn blob_is_collected_with_its_referrer() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.append("default", &Append::messages([Draft::user("a")])).await.unwrap();
        let id = chunk(&sessions, "messages:1").await;
        fs.write(&path("context/dedup/blob/odd"), "odd").await.unwrap();
        let sources = [format!("swap:{id}"), "context/dedup/blob/odd".to_owned()];
        let sources = sources.map(|source| source.parse().unwrap());
        sessions.dedup("default", &sources).await.unwrap();
        ttl_0(&*fs).await;
        // The content of the swapped line is in the log, so it needs no blob.
        assert_eq!(collect(&sessions).await.len(), 3, "the chunk, what lies there, and its blob");
        let left = fs.read_to_string(&path("context/dedup/index.jsonl")).await.unwrap();
        assert!(left.contains("\"default#messages:1-1\"") && left.lines().count() == 1, "{left}");
    }
}

#[tokio::test]
async fn collection_keeps_files_of_unreadable_index() {
    for (fs, _kept) in engines().await {
        let sessions = sessions(&*fs).await;
        sessions.append("default", &Append::messages([Draft::user("a")])).await.unwrap();
        let id = sessions.swap_out("default", &"messages:1".parse().unwrap(), "s").await.unwrap().id;
        let hash = blob(&*fs, &sessions, "a.md").await;
        ttl_0(&*fs).await;
        for (name, due) in [("swap", vec![format!("context/dedup/blob/{hash}")]), ("dedup", Vec::new())] {
            let index = path(&format!("context/{name}/index.jsonl"));
            let before = fs.read_to_string(&index).await.unwrap();
            fs.write(&index, vec![0xff; 10]).await.unwrap();
            let dry = sessions.collect("default", &Collect::dry()).await.unwrap();
            assert_eq!(dry.removed.into_iter().map(|one| one.name).collect::<Vec<_>>(), due);
            fs.write(&index, before).await.unwrap();
        }
        sessions.swap_in("default", &id).await.unwrap();
        sessions.spawn("default", &Spawn::new("kid", "do")).await.unwrap();
        fs.write(&path("context/child/kid/refs.jsonl"), vec![b'a'; (1 << 20) + 1]).await.unwrap();
        assert!(collect(&sessions).await.is_empty());
    }
}
