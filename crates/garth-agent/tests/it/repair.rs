//! Repair of memories that were written file by file, cut short, or changed by other interfaces.

mod left_alone;
mod verdicts;

use std::collections::BTreeMap;
use std::time::Duration;

use garth_agent::memory::{
    Event, EventType, FindingReport, Follow, LayerText, Level, Memories, Meta, Next, Origin, Put, Repair,
    Report, Status, Uri,
};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{Batch, Op, Seq, Timestamp, WalkPage};
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, Retention};
use garth_engine::{Env, FileSystem, FileSystemExt, TreePath};

use super::memories_set::{coffee, edge, engines, memories, uri};

fn tea() -> Uri {
    uri("users/alice/memories/preferences/tea")
}

fn skill() -> Uri {
    uri("agents/scout/skills/brew")
}

/// Repairs everything, twice: the second run has nothing to do.
async fn repaired(fs: &dyn FileSystem) -> Report {
    let report = Repair::new(memories(fs)).at_once(true).scan(|_| ()).await.unwrap();
    let before = all(fs).await;
    let again = Repair::new(memories(fs)).at_once(true).scan(|_| ()).await.unwrap();
    assert_eq!((again.found, again.failed), (BTreeMap::new(), 0), "after {:?}", report.found);
    assert_eq!(all(fs).await, before);
    report
}

/// Returns all files of an account, with their content.
async fn all(fs: &dyn FileSystem) -> BTreeMap<String, String> {
    let walk = fs.walk(&(&TreePath::root()).into(), &WalkPage::default().limit(10_000)).await.unwrap();
    let mut files = BTreeMap::new();
    for item in walk.items {
        let text = fs.read_file(&item.path).await.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        files.insert(item.path.to_string(), text.unwrap_or_default());
    }
    files
}

/// Returns the waiting events of an account, oldest first: type and URI.
async fn events(fs: &dyn FileSystem) -> Vec<(EventType, String)> {
    let files = all(fs).await.into_iter();
    let events = files.filter(|(path, _)| path.contains("/.outbox/") && path.ends_with(".json"));
    let mut events: Vec<Event> = events.map(|(_, text)| Event::parse(text.as_bytes()).unwrap()).collect();
    events.sort_by(|one, other| one.event_id.cmp(&other.event_id));
    events.into_iter().map(|event| (event.event_type, event.uri)).collect()
}

/// Removes every waiting event, as if it had been delivered.
async fn drain(fs: &dyn FileSystem) {
    for (path, _) in all(fs).await {
        let path = TreePath::parse(&path).unwrap();
        let name = path.name().unwrap_or_default().to_owned();
        if name.ends_with(".json") && path.as_str().contains("/.outbox/") {
            fs.remove(&path).await.unwrap();
        }
        if name == ".meta.json" {
            let meta = Meta::parse(&fs.read_file(&path).await.unwrap()).unwrap();
            let dir = path.parent().unwrap();
            fs.mkdir_all(&TreePath::parse(&format!("{dir}/.outbox")).unwrap()).await.unwrap();
            let done = TreePath::parse(&format!("{dir}/.outbox/.done")).unwrap();
            fs.write(&done, format!("{}\n", meta.version)).await.unwrap();
        }
    }
}

async fn meta(fs: &dyn FileSystem, uri: &Uri) -> Meta {
    Meta::parse(&fs.read_file(uri.file(".meta.json")).await.unwrap()).unwrap()
}

async fn set_meta(fs: &dyn FileSystem, uri: &Uri, change: impl FnOnce(&mut serde_json::Value)) {
    let mut meta = serde_json::from_slice(&fs.read_file(uri.file(".meta.json")).await.unwrap()).unwrap();
    change(&mut meta);
    fs.write(uri.file(".meta.json"), meta.to_string()).await.unwrap();
}

fn found(report: &Report) -> Vec<(&str, u64)> {
    report.found.iter().map(|(name, count)| (*name, *count)).collect()
}

#[tokio::test]
async fn repair_keeps_complete_memories() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        let mut put = Put::new("# Brew\n\nUse hot water.\n");
        put.brief = LayerText::Given("How to brew".to_owned());
        memories.put(&skill(), &put).await.unwrap();
        memories.put(&tea(), &Put::new("Green.")).await.unwrap();
        memories.relate(&edge(&tea(), &coffee())).await.unwrap();
        memories.tag(&tea(), &["a".to_owned()], &[]).await.unwrap();
        memories.move_to(&tea(), &uri("users/alice/memories/preferences/green")).await.unwrap();
        memories.put(&coffee(), &Put::new("With milk.")).await.unwrap();
        memories.put(&skill(), &Put::new("# Brew\n\nUse cold water.\n")).await.unwrap();
        fs.mkdir_all(&TreePath::parse("/agents/scout/skills/plain").unwrap()).await.unwrap();
        fs.write("/agents/scout/skills/plain/SKILL.md", "Not a memory.").await.unwrap();
        for _ in 0..2 {
            let report = repaired(&*fs).await;
            assert_eq!((found(&report), report.memories), (vec![], 4));
            drain(&*fs).await;
        }
    }
}

#[tokio::test]
async fn repair_completes_text_without_meta() {
    for (fs, _kept) in engines().await {
        fs.mkdir_all(&coffee().dir()).await.unwrap();
        fs.write(coffee().file("content.md"), "# Coffee\n\nBlack. No milk.\n").await.unwrap();
        fs.write(coffee().file("notes.txt"), "mine").await.unwrap();
        let waiting = Repair::new(memories(&*fs)).scan(|_| ()).await.unwrap();
        assert_eq!((waiting.waiting, waiting.found.len()), (1, 0), "it may be in the making");
        let report = repaired(&*fs).await;
        assert_eq!(found(&report), [("orphan", 1)]);
        let memories = memories(&*fs);
        assert_eq!(memories.get(&coffee(), Level::Abstract).await.unwrap().text, "Black.");
        assert_eq!(meta(&*fs, &coffee()).await.version, 1);
        assert_eq!(events(&*fs).await, [(EventType::UpsertContext, coffee().to_string())]);
        assert_eq!(fs.read_to_string(coffee().file(".relations.json")).await.unwrap(), "[]\n");
    }
}

#[tokio::test]
async fn repair_sets_active_or_broken() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        for memory in [coffee(), tea()] {
            memories.put(&memory, &Put::new("Black.")).await.unwrap();
            set_meta(&*fs, &memory, |meta| meta["status"] = "PENDING".into()).await;
        }
        drain(&*fs).await;
        fs.remove(tea().file(".overview.md")).await.unwrap();
        let report = repaired(&*fs).await;
        assert_eq!(found(&report), [("activated", 1), ("broken", 1)]);
        assert_eq!(report.broken_memories, [tea().to_string()]);
        assert_eq!(meta(&*fs, &coffee()).await.status, Status::Active);
        assert_eq!(events(&*fs).await, [(EventType::UpsertContext, coffee().to_string())]);
        assert_eq!(meta(&*fs, &tea()).await.status, Status::Broken);
        let report = Repair::new(memories.clone()).scan(|_| ()).await.unwrap();
        assert_eq!((report.broken, report.is_whole()), (1, false), "as long as it is");
        let report = Repair::new(memories.clone()).retry(&tea(), |_| ()).await.unwrap();
        assert!(report.is_whole());
        assert_eq!(memories.get(&tea(), Level::Overview).await.unwrap().text, "Black.");
        assert_eq!(repaired(&*fs).await.found, BTreeMap::new());
    }
}

#[tokio::test]
async fn missing_text_is_broken_until_put() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        fs.remove(coffee().file("content.md")).await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("broken", 1)]);
        let report = Repair::new(memories.clone()).retry(&coffee(), |_| ()).await.unwrap();
        assert_eq!(report.broken, 1, "its text is still missing");
        memories.put(&coffee(), &Put::new("White.")).await.unwrap();
        assert!(repaired(&*fs).await.is_sound());
    }
}

#[tokio::test]
async fn repair_recreates_undelivered_events() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        drain(&*fs).await;
        assert!(repaired(&*fs).await.is_sound());
        memories.put(&coffee(), &Put::new("White.")).await.unwrap();
        for (path, _) in all(&*fs).await {
            if path.contains("/.outbox/") && path.ends_with(".json") {
                fs.remove(&path[..]).await.unwrap();
            }
        }
        assert_eq!(found(&repaired(&*fs).await), [("missing_event", 1)]);
        assert_eq!(events(&*fs).await, [(EventType::UpsertContext, coffee().to_string())]);
    }
}

#[tokio::test]
async fn repair_derives_layers_of_edited_text() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let mut put = Put::new("Black.");
        put.brief = LayerText::Given("Her coffee".to_owned());
        memories.put(&coffee(), &put).await.unwrap();
        drain(&*fs).await;
        fs.write(coffee().file("content.md"), "With milk.\n").await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("changed_content", 1)]);
        let now = meta(&*fs, &coffee()).await;
        let layers = now.layers.unwrap();
        assert_eq!(
            (now.version, layers.brief.origin, layers.overview.origin),
            (2, Origin::Stale, Origin::Derived)
        );
        assert_eq!(memories.get(&coffee(), Level::Overview).await.unwrap().text, "With milk.");
        assert_eq!(memories.get(&coffee(), Level::Abstract).await.unwrap().text, "Her coffee");
        assert_eq!(events(&*fs).await.len(), 1);
        drain(&*fs).await;
        fs.write(coffee().file(".overview.md"), "With milk, said Alice.\n").await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("changed_layer", 1)]);
        let layers = meta(&*fs, &coffee()).await.layers.unwrap();
        assert_eq!(layers.overview.origin, Origin::Given);
        assert_eq!(memories.get(&coffee(), Level::Overview).await.unwrap().text, "With milk, said Alice.");
        drain(&*fs).await;
        fs.write(coffee().file(".abstract.md"), "Her coffee, with milk\n").await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("changed_layer", 1)]);
        assert_eq!(meta(&*fs, &coffee()).await.layers.unwrap().brief.origin, Origin::Given);
        assert_eq!(events(&*fs).await.len(), 1);
    }
}

#[tokio::test]
async fn repair_completes_foreign_memories() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        memories.put(&tea(), &Put::new("Green.")).await.unwrap();
        set_meta(&*fs, &coffee(), |meta| {
            meta.as_object_mut().unwrap().remove("layers");
        })
        .await;
        fs.write(tea().file(".meta.json"), r#"{"status":"ACTIVE","version":"3","mood":7}"#).await.unwrap();
        fs.remove(tea().file(".abstract.md")).await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("incomplete", 2)]);
        assert_eq!(meta(&*fs, &coffee()).await.layers.unwrap().brief.origin, Origin::Derived);
        let now = meta(&*fs, &tea()).await;
        assert_eq!((now.uri, &now.other["mood"]), (tea().to_string(), &7.into()));
        assert!(fs.read_to_string(tea().file(".meta.json.broken")).await.unwrap().contains("\"3\""));
        assert_eq!(memories.get(&tea(), Level::Abstract).await.unwrap().text, "Green.");
    }
}

#[tokio::test]
async fn repair_renames_unreadable_files() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        fs.write(coffee().file(".meta.json"), "{\"uri\": \"ctx").await.unwrap();
        fs.write(coffee().file(".relations.json"), "[{").await.unwrap();
        fs.remove(coffee().file(".overview.md")).await.unwrap();
        fs.mkdir_all(&coffee().file(".overview.md")).await.unwrap();
        fs.write(coffee().file(".overview.md").to_string() + "/mine", "kept").await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("orphan", 1)]);
        assert_eq!(fs.read_to_string(coffee().file(".meta.json.broken")).await.unwrap(), "{\"uri\": \"ctx");
        assert_eq!(fs.read_to_string(coffee().file(".relations.json.broken")).await.unwrap(), "[{");
        let mine = coffee().file(".overview.md.broken").to_string() + "/mine";
        assert_eq!(fs.read_to_string(&mine[..]).await.unwrap(), "kept");
        assert!(memories.exists(&coffee()).await.unwrap());
    }
}

#[tokio::test]
async fn unreadable_meta_gets_version_above_done() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        for text in ["Black.", "White."] {
            memories.put(&coffee(), &Put::new(text)).await.unwrap();
        }
        drain(&*fs).await;
        fs.write(coffee().file(".meta.json"), "{\"uri\": \"ctx").await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("orphan", 1)]);
        assert_eq!(meta(&*fs, &coffee()).await.version, 3);
        assert_eq!(events(&*fs).await, [(EventType::UpsertContext, coffee().to_string())]);
    }
}

#[tokio::test]
async fn repair_distinguishes_moves_and_copies() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let (moved, copied) =
            (uri("users/alice/memories/events/moved"), uri("users/bob/memories/events/copied"));
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        memories.put(&tea(), &Put::new("Green.")).await.unwrap();
        memories.relate(&edge(&tea(), &coffee())).await.unwrap();
        memories.relate(&edge(&coffee(), &tea())).await.unwrap();
        drain(&*fs).await;
        fs.mkdir_all(&moved.dir().parent().unwrap()).await.unwrap();
        fs.rename(&coffee().dir(), &moved.dir()).await.unwrap();
        fs.mkdir_all(&copied.dir().parent().unwrap()).await.unwrap();
        fs.commit(Batch::new([Op::copy_tree(tea().dir(), copied.dir())])).await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("copied", 1), ("moved", 1)]);
        let now = meta(&*fs, &moved).await;
        assert_eq!((now.uri, now.version, now.owner_space), (moved.to_string(), 2, "user:alice".to_owned()));
        assert_eq!(
            (meta(&*fs, &copied).await.uri, meta(&*fs, &copied).await.version),
            (copied.to_string(), 1)
        );
        let relations = fs.read_to_string(tea().file(".relations.json")).await.unwrap();
        assert!(relations.contains(&moved.to_string()) && !relations.contains("coffee"), "{relations}");
        let own = fs.read_to_string(copied.file(".relations.json")).await.unwrap();
        assert!(own.contains(&format!("\"from_uri\": \"{copied}\"")), "{own}");
        let told = events(&*fs).await;
        assert!(told.contains(&(EventType::MoveContext, coffee().to_string())), "{told:?}");
        assert!(told.contains(&(EventType::UpsertContext, copied.to_string())), "{told:?}");
    }
}

#[tokio::test]
async fn repair_links_skill_content() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        fs.mkdir_all(&skill().file(".outbox")).await.unwrap();
        fs.write(skill().file("content.md"), "Use hot water.\n").await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("orphan", 1)]);
        assert_eq!(fs.read_to_string(skill().file("SKILL.md")).await.unwrap(), "Use hot water.\n");
        assert!(fs.entry(skill().file("content.md")).await.unwrap().is_symlink());
        fs.remove(skill().file("content.md")).await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("misplaced", 1)]);
        // An editor that replaces the link with a new file.
        fs.remove(skill().file("content.md")).await.unwrap();
        fs.write(skill().file("content.md"), "Use cold water.\n").await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("changed_content", 1)]);
        assert_eq!(memories.get(&skill(), Level::Content).await.unwrap().text, "Use cold water.\n");
        assert_eq!(fs.read_to_string(skill().file("SKILL.md.broken")).await.unwrap(), "Use hot water.\n");
    }
}

#[tokio::test]
async fn a_skill_keeps_a_content_file_of_its_own() {
    for (fs, _kept) in engines().await {
        for (name, files) in [("one", &["content.md"][..]), ("two", &["SKILL.md", "content.md"])] {
            let dir = format!("/agents/scout/skills/{name}");
            fs.mkdir_all(&TreePath::parse(&dir).unwrap()).await.unwrap();
            for file in files {
                fs.write(&format!("{dir}/{file}"), format!("{file} of {name}\n")).await.unwrap();
            }
        }
        assert_eq!(found(&repaired(&*fs).await), []);
        for (path, text) in [
            ("one/content.md", "content.md of one\n"),
            ("two/content.md", "content.md of two\n"),
            ("two/SKILL.md", "SKILL.md of two\n"),
        ] {
            let path = format!("/agents/scout/skills/{path}");
            assert_eq!(fs.read_to_string(&*path).await.unwrap(), text);
        }
    }
}

#[tokio::test]
async fn repair_finishes_interrupted_delete() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        memories.put(&tea(), &Put::new("Green.")).await.unwrap();
        memories.relate(&edge(&tea(), &coffee())).await.unwrap();
        drain(&*fs).await;
        fs.mkdir_all("/.outbox").await.unwrap();
        fs.rename(&coffee().dir(), "/.outbox/0197.d").await.unwrap();
        assert_eq!(found(&repaired(&*fs).await), [("unfinished_delete", 1)]);
        assert!(!fs.exists("/.outbox/0197.d").await.unwrap());
        assert!(events(&*fs).await.contains(&(EventType::DeleteContext, coffee().to_string())));
        assert_eq!(fs.read_to_string(tea().file(".relations.json")).await.unwrap(), "[]\n");
    }
}

#[tokio::test]
async fn paused_writer_is_not_marked_broken() {
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = MemoryFs::new(env.clone(), garth_agent::registry());
    let memories = Memories::new(&fs, "default").env(env);
    let repair = Repair::new(memories.clone());
    fs.mkdir_all(&coffee().dir()).await.unwrap();
    let pending = Meta { status: Status::Pending, ..Meta::new(&coffee(), Timestamp(0)) };
    let files = [
        (".meta.json", pending.to_json().unwrap()),
        ("content.md", "Black.\n".to_owned()),
        (".relations.json", "[]\n".to_owned()),
        (".abstract.md", "Hers\n".to_owned()),
        (".overview.md", "Black\n".to_owned()),
    ];
    for (name, text) in files {
        for _ in 0..30 {
            clock.advance(Duration::from_secs(1));
            assert!(repair.scan(|_| ()).await.unwrap().found.is_empty());
        }
        fs.write(coffee().file(name), text).await.unwrap();
    }
    clock.advance(Duration::from_secs(59));
    assert_eq!(repair.scan(|_| ()).await.unwrap().waiting, 1);
    clock.advance(Duration::from_secs(2));
    assert_eq!(found(&repair.scan(|_| ()).await.unwrap()), [("activated", 1)]);
    assert_eq!(memories.get(&coffee(), Level::Abstract).await.unwrap().text, "Hers");
}

/// Follows an account until only a commit can cause more work, advancing the clock by a second at a time.
async fn followed(
    follow: &mut Follow,
    fs: &dyn FileSystem,
    env: &Env,
    clock: &ManualClock,
    most: usize,
) -> Vec<String> {
    let repair = Repair::new(Memories::new(fs, "default").env(env.clone()));
    let (mut report, mut told) = (Report::default(), Vec::new());
    let mut seconds = 0;
    loop {
        let mut tell = |one: &FindingReport<'_>| {
            if one.until.is_none() {
                told.push(format!("{} {}", one.finding.as_str(), one.memory.replace("ctx://default", "")));
            }
        };
        match follow.step(&repair, &mut report, &mut tell).await.unwrap() {
            Next::Now => {}
            Next::At(_) if seconds < most => {
                clock.advance(Duration::from_secs(1));
                seconds += 1;
            }
            Next::At(_) | Next::Commit => break,
        }
    }
    assert_eq!(report.failed, 0, "{:?}", report.failures);
    told
}

#[tokio::test]
async fn follow_sees_other_changes_within_two_seconds() {
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = MemoryFs::new(env.clone(), garth_agent::registry());
    let memories = Memories::new(&fs, "default").env(env.clone());
    let mut follow = Follow::since(Seq(0));
    let bob = TreePath::parse("/users/bob").unwrap();
    memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
    memories.put(&tea(), &Put::new("Green.")).await.unwrap();
    memories.relate(&edge(&tea(), &coffee())).await.unwrap();
    assert_eq!(followed(&mut follow, &fs, &env, &clock, 3).await, [""; 0], "our own writes are whole");
    drain(&fs).await;
    let preferences = "/users/alice/memories/preferences";

    fs.write(coffee().file("content.md"), "With milk.\n").await.unwrap();
    assert_eq!(
        followed(&mut follow, &fs, &env, &clock, 3).await,
        ["changed_content /users/alice/memories/preferences/coffee"]
    );
    drain(&fs).await;
    fs.rename(preferences, "/users/alice/memories/events").await.unwrap();
    let mut told = followed(&mut follow, &fs, &env, &clock, 3).await;
    told.sort();
    assert_eq!(told, ["moved /users/alice/memories/events/coffee", "moved /users/alice/memories/events/tea"]);
    drain(&fs).await;
    let copy = Batch::new([Op::copy_tree("/users/alice".parse::<TreePath>().unwrap(), &bob)]);
    fs.commit(copy).await.unwrap();
    let told = followed(&mut follow, &fs, &env, &clock, 3).await;
    assert_eq!(told, ["copied /users/bob/memories/events/coffee", "copied /users/bob/memories/events/tea"]);
    drain(&fs).await;
    fs.commit(Batch::new([Op::remove_tree(&bob)])).await.unwrap();
    let told = followed(&mut follow, &fs, &env, &clock, 3).await;
    assert_eq!(told, ["deleted /users/bob/memories/events/coffee", "deleted /users/bob/memories/events/tea"]);
    assert_eq!(events(&fs).await.len(), 2);
    drain(&fs).await;
    // Moved to a path without memories, and file by file.
    fs.rename("/users/alice/memories/events/tea", "/trash").await.unwrap();
    for name in
        [".abstract.md", ".meta.json", ".outbox/.done", ".overview.md", ".relations.json", "content.md"]
    {
        fs.remove(uri("users/alice/memories/events/coffee").file(name)).await.unwrap();
    }
    fs.remove(uri("users/alice/memories/events/coffee").file(".outbox")).await.unwrap();
    fs.remove(&uri("users/alice/memories/events/coffee").dir()).await.unwrap();
    let mut told = followed(&mut follow, &fs, &env, &clock, 3).await;
    told.sort();
    assert_eq!(
        told,
        ["deleted /users/alice/memories/events/coffee", "deleted /users/alice/memories/events/tea"]
    );
    drain(&fs).await;
    // Changes through the library write their own events.
    memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
    memories.move_to(&coffee(), &tea()).await.unwrap();
    drain(&fs).await;
    memories.delete(&tea()).await.unwrap();
    drain(&fs).await;
    assert_eq!(followed(&mut follow, &fs, &env, &clock, 3).await, [""; 0]);
    assert!(follow.settled().is_some());
}

#[tokio::test]
async fn manual_owner_change_is_delete_and_create() {
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = MemoryFs::new(env.clone(), garth_agent::registry());
    let memories = Memories::new(&fs, "default").env(env.clone());
    let mut follow = Follow::since(Seq(0));
    memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
    memories.put(&uri("users/bob/memories/events/x"), &Put::new("x")).await.unwrap();
    drain(&fs).await;
    let of_bob = uri("users/bob/memories/preferences/coffee");
    fs.mkdir_all(&of_bob.dir().parent().unwrap()).await.unwrap();
    fs.rename(&coffee().dir(), &of_bob.dir()).await.unwrap();
    let mut told = followed(&mut follow, &fs, &env, &clock, 3).await;
    told.sort();
    assert_eq!(
        told,
        ["copied /users/bob/memories/preferences/coffee", "deleted /users/alice/memories/preferences/coffee"]
    );
    let due =
        [(EventType::DeleteContext, coffee().to_string()), (EventType::UpsertContext, of_bob.to_string())];
    let mut got = events(&fs).await;
    got.sort_by_key(|(_, uri)| uri.clone());
    assert_eq!(got, due);
    assert_eq!(meta(&fs, &of_bob).await.owner_space, "user:bob");
    // A move by garth writes its own event.
    drain(&fs).await;
    memories.move_to(&of_bob, &coffee()).await.unwrap();
    drain(&fs).await;
    assert_eq!(followed(&mut follow, &fs, &env, &clock, 3).await, [""; 0]);
}

#[tokio::test]
async fn removing_a_moved_memory_reports_both_uris_deleted() {
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = MemoryFs::new(env.clone(), garth_agent::registry());
    let memories = Memories::new(&fs, "default").env(env.clone());
    let mut follow = Follow::since(Seq(0));
    memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
    drain(&fs).await;
    memories.move_to(&coffee(), &tea()).await.unwrap();
    memories.put(&tea(), &Put::new("Green.")).await.unwrap();
    // As a worker that is delivering it.
    let walk = all(&fs).await.into_iter();
    let (at, text) = walk
        .filter(|(path, _)| path.ends_with(".json"))
        .find(|(_, text)| text.contains("UPSERT_CONTEXT"))
        .unwrap();
    let lease = env.now().plus_seconds(40).to_rfc3339();
    let held = text.replace("\"PENDING\"", &format!("\"PROCESSING\", \"lease_until\": \"{lease}\""));
    fs.write(&TreePath::parse(&at).unwrap(), held).await.unwrap();
    fs.commit(Batch::new([Op::remove_tree(tea().dir())])).await.unwrap();
    let mut told = followed(&mut follow, &fs, &env, &clock, 3).await;
    told.sort();
    assert_eq!(
        told,
        ["deleted /users/alice/memories/preferences/coffee", "deleted /users/alice/memories/preferences/tea"]
    );
    for (path, text) in all(&fs).await.into_iter().filter(|(path, _)| path.ends_with(".json")) {
        let event = Event::parse(text.as_bytes()).unwrap();
        assert_eq!(event.event_type, EventType::DeleteContext, "{path}");
        assert_eq!(event.next_attempt_at, Some(lease.clone()), "{path}");
    }
}

#[tokio::test]
async fn removed_memory_is_reported_without_its_events() {
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = MemoryFs::new(env.clone(), garth_agent::registry());
    let memories = Memories::new(&fs, "default").env(env.clone());
    let mut follow = Follow::since(Seq(0));
    memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
    fs.commit(Batch::new([Op::remove_tree(coffee().dir())])).await.unwrap();
    let pattern = PathPattern::parse("/**/.outbox/**").unwrap();
    let content = vec![ContentLimit { pattern, keep: Duration::ZERO }];
    fs.set_retention(Retention { content, ..Retention::default() }).unwrap();
    fs.collect_now();
    let told = followed(&mut follow, &fs, &env, &clock, 3).await;
    assert_eq!(told, ["deleted /users/alice/memories/preferences/coffee"]);
}

#[tokio::test]
async fn forged_move_keeps_edges_of_others() {
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = MemoryFs::new(env.clone(), garth_agent::registry());
    let memories = Memories::new(&fs, "default").env(env.clone());
    let of_bob = uri("users/bob/memories/events/gone");
    memories.put(&tea(), &Put::new("Green.")).await.unwrap();
    fs.write(
        tea().file(".relations.json"),
        format!("[{}]\n", serde_json::to_string(&edge(&tea(), &of_bob)).unwrap()),
    )
    .await
    .unwrap();
    for slug in ["a", "b"] {
        memories.put(&uri(&format!("users/alice/memories/events/{slug}")), &Put::new("Mine.")).await.unwrap();
    }
    drain(&fs).await;
    // One by its meta, one by an event.
    let (a, b) = (uri("users/alice/memories/events/a"), uri("users/alice/memories/events/b"));
    set_meta(&fs, &a, |meta| meta["uri"] = of_bob.to_string().into()).await;
    let payload = garth_agent::memory::event::Payload { new_uri: Some(b.to_string()), ..Default::default() };
    let event = Event::new(&env, EventType::MoveContext, &of_bob.to_string(), payload).unwrap();
    fs.write(b.file(&format!(".outbox/{}.json", event.event_id)), event.to_json().unwrap()).await.unwrap();
    fs.remove(b.file(".outbox/.done")).await.unwrap();
    clock.advance(Duration::from_secs(120));
    let report = repaired(&fs).await;
    assert_eq!(report.found.get("moved"), None, "{report:?}");
    let relations = fs.read_to_string(tea().file(".relations.json")).await.unwrap();
    assert!(relations.contains(&of_bob.to_string()), "{relations}");
}

#[tokio::test]
async fn paused_writer_survives_concurrent_follow() {
    let (env, clock) = Env::manual(Timestamp(1_700_000_000_000_000_000));
    let fs = MemoryFs::new(env.clone(), garth_agent::registry());
    let mut follow = Follow::since(Seq(0));
    fs.mkdir_all(&coffee().dir()).await.unwrap();
    let pending = Meta { status: Status::Pending, ..Meta::new(&coffee(), Timestamp(0)) };
    let files = [
        ("content.md", "Black.\n".to_owned()),
        (".meta.json", pending.to_json().unwrap()),
        (".relations.json", "[]\n".to_owned()),
        (".abstract.md", "Hers\n".to_owned()),
        (".overview.md", "Black\n".to_owned()),
    ];
    for (name, text) in files {
        fs.write(coffee().file(name), text).await.unwrap();
        assert_eq!(followed(&mut follow, &fs, &env, &clock, 30).await, [""; 0]);
    }
    let told = followed(&mut follow, &fs, &env, &clock, 60).await;
    assert_eq!(told, ["activated /users/alice/memories/preferences/coffee"]);
    assert_eq!(meta(&fs, &coffee()).await.layers.unwrap().brief.origin, Origin::Given);
}
