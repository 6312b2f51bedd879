//! Memories: written completely in one commit, on every engine that supports them.

use garth_agent::memory::{
    Around, Direction, Event, EventType, LayerText, Level, List, Listed, Memories, Meta, Origin, Prefix, Put,
    Status, Uri,
};
use garth_engine::model::{Moment, Timestamp, WalkPage};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt};

use super::memories_set::{coffee, edge, engines, memories, uri};

const ALICE: &str = "ctx://default/users/alice/memories";

async fn names(fs: &dyn FileSystem, dir: &Uri) -> Vec<String> {
    let walk = fs.walk(&(&dir.dir()).into(), &WalkPage::default()).await.unwrap();
    walk.items.iter().map(|item| item.path.to_string().replace(dir.dir().as_str(), "")).collect()
}

/// Returns the waiting events of an account, oldest first.
async fn events(fs: &dyn FileSystem) -> Vec<Event> {
    let walk = fs.walk(&(&garth_engine::TreePath::root()).into(), &WalkPage::default()).await.unwrap();
    let mut events = Vec::new();
    for item in walk.items.iter().filter(|item| item.path.as_str().contains("/.outbox/")) {
        events.push(Event::parse(&fs.read_file(&item.path).await.unwrap()).unwrap());
    }
    events.sort_by(|one, other| one.event_id.cmp(&other.event_id));
    events
}

#[tokio::test]
async fn put_writes_every_file_and_one_event() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let made = memories.put(&coffee(), &Put::new("# Coffee\n\nBlack. No milk.\n")).await.unwrap();
        assert!(made.created && made.meta.version == 1);
        let files = names(&*fs, &coffee()).await;
        assert_eq!(
            files[..5],
            ["/.abstract.md", "/.meta.json", "/.outbox", "/.overview.md", "/.relations.json"]
        );
        assert!(files.contains(&"/content.md".to_owned()) && files.len() == 7, "{files:?}");
        for (level, text) in [
            (Level::Abstract, "Black."),
            (Level::Overview, "# Coffee\nBlack."),
            (Level::Content, "# Coffee\n\nBlack. No milk.\n"),
        ] {
            assert_eq!(memories.get(&coffee(), level).await.unwrap().text, text);
        }
        let events = events(&*fs).await;
        assert_eq!(events.len(), 1);
        let records = events[0].payload.records.as_ref().unwrap();
        let texts: Vec<_> =
            records.iter().map(|record| (record.level, record.text.as_deref().unwrap())).collect();
        assert_eq!(texts, [(0, "Black."), (1, "# Coffee\nBlack."), (2, "# Coffee\n\nBlack. No milk.\n")]);
        let id = garth_agent::memory::sha256(format!("{}#0", coffee()).as_bytes())[..16].to_owned();
        assert_eq!(records[0].id, id);
        let text = fs.read_to_string(coffee().file(".meta.json")).await.unwrap();
        let fields: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("  \"")?.split('"').next()).collect();
        let due =
            "uri context_type category level owner_space status created_at updated_at version tags layers";
        assert_eq!(fields.join(" "), due);
    }
}

#[tokio::test]
async fn stale_layer_describes_its_content_again() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let mut put = Put::new("Black.");
        put.brief = LayerText::Given("How Alice takes it".to_owned());
        memories.put(&coffee(), &put).await.unwrap();
        for (text, due) in [("With milk.", Origin::Stale), ("Black.", Origin::Given)] {
            let layers = memories.put(&coffee(), &Put::new(text)).await.unwrap().meta.layers.unwrap();
            assert_eq!(layers.brief.origin, due, "{text}");
        }
        assert_eq!(memories.get(&coffee(), Level::Abstract).await.unwrap().text, "How Alice takes it");
    }
}

#[tokio::test]
async fn put_increments_version_and_keeps_given_layers() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let brief = LayerText::Given("How Alice takes it".to_owned());
        let mut put = Put::new("Black.");
        (put.brief, put.tags) = (brief, Some(vec!["drink".to_owned()]));
        let first = memories.put(&coffee(), &put).await.unwrap().meta;
        let again = memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        assert_eq!((again.seq, again.meta.version), (None, 1), "nothing was to change");
        let changed = memories.put(&coffee(), &Put::new("With milk.")).await.unwrap().meta;
        assert_eq!((changed.version, &changed.created_at), (2, &first.created_at));
        assert_eq!(changed.tags, ["drink"]);
        let layers = changed.layers.unwrap();
        assert_eq!((layers.brief.origin, layers.overview.origin), (Origin::Stale, Origin::Derived));
        assert_eq!(memories.get(&coffee(), Level::Abstract).await.unwrap().text, "How Alice takes it");
        assert_eq!(memories.get(&coffee(), Level::Overview).await.unwrap().text, "With milk.");
        let mut put = Put::new("With milk.");
        (put.brief, put.if_version) = (LayerText::Derive, Some(2));
        assert_eq!(memories.put(&coffee(), &put).await.unwrap().meta.version, 3);
        assert_eq!(memories.get(&coffee(), Level::Abstract).await.unwrap().text, "With milk.");
        let stale = memories.put(&coffee(), &put).await.unwrap_err();
        assert!(stale.is(ErrorKind::Conflict), "{stale}");
        let tags = memories.tag(&coffee(), &["a".to_owned()], &["drink".to_owned()]).await.unwrap();
        assert_eq!((tags.version, tags.tags), (4, vec!["a".to_owned()]));
    }
}

#[tokio::test]
async fn unknown_meta_fields_are_preserved() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        let file = coffee().file(".meta.json");
        let text = fs.read_to_string(&file).await.unwrap().replacen('{', "{\"mood\": [1],", 1);
        fs.write(&file, text).await.unwrap();
        let meta = memories.put(&coffee(), &Put::new("White.")).await.unwrap().meta;
        assert_eq!(meta.other["mood"], serde_json::json!([1]));
        let text = fs.read_to_string(&file).await.unwrap();
        assert!(text.contains("mood"), "{text}");
    }
}

#[tokio::test]
async fn only_active_memories_are_visible() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        let file = coffee().file(".meta.json");
        let text = fs.read_to_string(&file).await.unwrap();
        for status in ["PENDING", "BROKEN"] {
            fs.write(&file, text.replace("ACTIVE", status)).await.unwrap();
            assert!(!memories.exists(&coffee()).await.unwrap());
            assert!(memories.get(&coffee(), Level::Content).await.unwrap_err().is(ErrorKind::NotFound));
            assert_eq!(memories.list(&List::new(Prefix::Account)).await.unwrap(), Listed::default());
            let mut list = List::new(Prefix::Account);
            list.status = if status == "PENDING" { Status::Pending } else { Status::Broken };
            assert_eq!(memories.list(&list).await.unwrap().items.len(), 1);
        }
        // A put completes it, and its version continues.
        let meta = memories.put(&coffee(), &Put::new("Black.")).await.unwrap().meta;
        assert_eq!((meta.status, meta.version), (Status::Active, 2));
    }
}

#[tokio::test]
async fn list_filters_by_prefix_category_and_tags() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let all = [
            "agents/bot/memories/cases/one",
            "agents/bot/skills/web search",
            "users/al/memories/profile",
            "users/alice/memories/events/a",
            "users/alice/memories/events/b",
            "users/alice/memories/preferences/a",
            "users/alice/memories/profile",
        ];
        for (at, name) in all.iter().enumerate().rev() {
            let mut put = Put::new(format!("Text {at}."));
            put.tags = Some(if at % 2 == 0 { vec!["even".to_owned()] } else { Vec::new() });
            memories.put(&uri(&name.replace(' ', "%20")), &put).await.unwrap();
        }
        let listed = async |prefix: &str, limit: usize, tags: &[&str]| {
            let (account, prefix) = Prefix::parse(prefix).unwrap();
            assert_eq!(account, "default");
            let (mut list, mut found) = (List::new(prefix), Vec::new());
            (list.limit, list.tags) = (limit, tags.iter().map(|tag| (*tag).to_owned()).collect());
            loop {
                let page = memories.list(&list).await.unwrap();
                assert!(page.items.len() <= limit);
                found.extend(page.items.iter().map(|(uri, _)| uri.dir().to_string()[1..].to_owned()));
                match page.next {
                    Some(next) => list.after = Some(next),
                    None => return found,
                }
            }
        };
        for limit in [1, 2, 100] {
            assert_eq!(listed("ctx://default", limit, &[]).await, all);
            assert_eq!(listed("ctx://default/users/alice", limit, &[]).await, all[3..]);
            assert_eq!(listed("ctx://default/users/alice/memories/events/", limit, &[]).await, all[3..5]);
            assert_eq!(listed("ctx://default/agents/bot/skills", limit, &[]).await, all[1..2]);
            assert_eq!(listed(&format!("{ALICE}/profile"), limit, &[]).await, all[6..]);
            assert_eq!(listed("ctx://default/users", limit, &["even"]).await, [all[2], all[4], all[6]]);
        }
        for bad in ["", "ctx://", "ctx://default/teams", "ctx://default/users/a/b", "ctx://default/users//x"]
        {
            assert!(Prefix::parse(bad).unwrap_err().is(ErrorKind::InvalidArgument), "{bad}");
        }
        let mut list = List::new(Prefix::Account);
        list.category = Some("events".to_owned());
        assert_eq!(memories.list(&list).await.unwrap().items.len(), 2);
    }
}

#[tokio::test]
async fn replacing_a_memory_ends_its_validity() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let (old, new) = (uri("users/alice/memories/events/old"), uri("users/alice/memories/events/new"));
        memories.put(&old, &Put::new("Lives in Rome.")).await.unwrap();
        let mut put = Put::new("Lives in Oslo.");
        put.replaces = Some(old.clone());
        put.valid_from = Some(Timestamp::parse_rfc3339("2026-01-02T03:04:05Z").unwrap());
        let meta = memories.put(&new, &put).await.unwrap().meta;
        assert_eq!(meta.valid_from.as_deref(), Some("2026-01-02T03:04:05Z"));
        let before = memories.get(&old, Level::Content).await.unwrap().meta;
        assert_eq!((before.valid_to, before.version), (meta.valid_from.clone(), 2));
        // A repeat changes nothing, and a replaced memory cannot be replaced again.
        assert_eq!(memories.put(&new, &put).await.unwrap().seq, None);
        let error = memories.put(&uri("users/alice/memories/events/third"), &put).await.unwrap_err();
        assert!(error.is(ErrorKind::Conflict), "{error}");
        put.replaces = Some(uri("users/alice/memories/events/nobody"));
        assert!(memories.put(&new, &put).await.unwrap_err().is(ErrorKind::NotFound));
    }
}

#[tokio::test]
async fn edges_are_bidirectional_and_deleted_with_target() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let all = ["a", "b", "c", "d"].map(|name| uri(&format!("users/alice/memories/entities/{name}")));
        for memory in &all {
            memories.put(memory, &Put::new("Text.")).await.unwrap();
        }
        let [a, b, c, d] = &all;
        for (from, to) in [(a, b), (b, c), (c, d)] {
            memories.relate(&edge(from, to)).await.unwrap().unwrap();
        }
        assert_eq!(memories.relate(&edge(a, b)).await.unwrap(), None, "it is there");
        let found = async |from: &Uri, direction, hops| {
            let related = memories.around(from, &Around::new(direction).hops(hops)).await.unwrap();
            assert!(!related.more);
            related.edges.iter().map(|(step, edge)| (*step, edge.to_uri.clone())).collect::<Vec<_>>()
        };
        let to = |step: usize, uri: &Uri| (step, uri.to_string());
        assert_eq!(found(b, Direction::Outgoing, 1).await, [to(1, c)]);
        assert_eq!(found(b, Direction::Incoming, 1).await, [to(1, b)]);
        assert_eq!(found(a, Direction::Both, 5).await, [to(1, b), to(2, c), to(3, d)]);
        assert_eq!(found(d, Direction::Incoming, 2).await, [to(1, d), to(2, c)]);
        // A move redirects the edges, a delete removes them.
        let moved = uri("agents/bot/memories/cases/moved");
        memories.move_to(b, &moved).await.unwrap();
        assert_eq!(found(a, Direction::Outgoing, 2).await, [to(1, &moved), to(2, c)]);
        let gone = memories.get(b, Level::Content).await.unwrap_err();
        assert!(gone.is(ErrorKind::NotFound), "{gone}");
        if fs.capabilities(&garth_engine::TreePath::root()).find {
            assert!(gone.message().contains(&moved.to_string()), "{gone}");
        }
        let meta = memories.get(&moved, Level::Content).await.unwrap().meta;
        assert_eq!(
            (meta.owner_space.as_str(), meta.category.as_str(), meta.version),
            ("agent:bot", "cases", 2)
        );
        memories.delete(c).await.unwrap();
        assert_eq!(found(&moved, Direction::Outgoing, 1).await, []);
        let text = fs.read_to_string(moved.file(".relations.json")).await.unwrap();
        assert_eq!(text, "[]\n");
        assert_eq!(memories.unrelate(a, &moved, None).await.unwrap(), 1);
        assert!(memories.relate(&edge(a, c)).await.unwrap_err().is(ErrorKind::NotFound));
        let types: Vec<EventType> = events(&*fs).await.iter().map(|event| event.event_type).collect();
        assert!(types.contains(&EventType::MoveContext) && types.contains(&EventType::DeleteContext));
        assert!(!fs.exists(c.dir()).await.unwrap());
        assert!(memories.move_to(a, d).await.unwrap_err().is(ErrorKind::AlreadyExists));
    }
}

#[tokio::test]
async fn undelivered_move_outlives_the_memory() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let to = uri("users/alice/memories/preferences/tea");
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        memories.move_to(&coffee(), &to).await.unwrap();
        memories.delete(&to).await.unwrap();
        let events = events(&*fs).await;
        let told: Vec<_> = events.iter().map(|event| (event.event_type, event.uri.clone())).collect();
        let due =
            [(EventType::MoveContext, coffee().to_string()), (EventType::DeleteContext, to.to_string())];
        assert_eq!(told, due);
    }
}

#[tokio::test]
async fn published_skill_links_its_content() {
    let (sqlite, _kept) = engines().await.remove(0);
    let (memories, skill) = (memories(&*sqlite), uri("agents/bot/skills/search"));
    memories.put(&skill, &Put::new("---\nname: search\n---\nLook things up.")).await.unwrap();
    let text = sqlite.read_to_string(skill.file("SKILL.md")).await.unwrap();
    assert!(text.ends_with("Look things up."));
    let link = sqlite.entry(skill.file("content.md")).await.unwrap();
    assert_eq!(link.target.as_deref(), Some("SKILL.md"));
    assert_eq!(memories.get(&skill, Level::Abstract).await.unwrap().text, "Look things up.");
    memories.put(&skill, &Put::new("Look up.")).await.unwrap();
    assert_eq!(memories.get(&skill, Level::Content).await.unwrap().text, "Look up.");
    let meta = memories.get(&skill, Level::Content).await.unwrap().meta;
    assert_eq!((meta.category.as_str(), meta.version), ("skills", 2));
}

#[tokio::test]
async fn rejects_foreign_accounts_and_unknown_categories() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        let put = Put::new("x");
        let other: Uri = "ctx://other/users/alice/memories/profile".parse().unwrap();
        assert!(memories.put(&other, &put).await.unwrap_err().is(ErrorKind::AccessDenied));
        assert!(memories.get(&other, Level::Content).await.unwrap_err().is(ErrorKind::AccessDenied));
        assert!(memories.exists(&other).await.unwrap_err().is(ErrorKind::AccessDenied));
        assert!(memories.delete(&other).await.unwrap_err().is(ErrorKind::AccessDenied));
        assert!(memories.relate(&edge(&coffee(), &other)).await.unwrap_err().is(ErrorKind::AccessDenied));
        let unknown = uri("users/alice/memories/hobbies/chess");
        let error = memories.put(&unknown, &put).await.unwrap_err();
        assert!(error.is(ErrorKind::InvalidArgument) && error.message().contains("preferences"), "{error}");
        let more = memories.clone().categories(["hobbies".to_owned()]);
        assert!(more.put(&unknown, &put).await.unwrap().created);
        let mut long = Put::new("x");
        long.brief = LayerText::Given("é".repeat(101));
        assert!(memories.put(&coffee(), &long).await.unwrap_err().is(ErrorKind::TooLarge));
        long.brief = LayerText::Given("é".repeat(100));
        assert!(memories.put(&coffee(), &long).await.unwrap().created);
        assert!(
            memories.delete(&uri("users/alice/memories/profile")).await.unwrap_err().is(ErrorKind::NotFound)
        );
    }
}

#[tokio::test]
async fn concurrent_puts_serialize_by_memory() {
    let (sqlite, _kept) = engines().await.remove(0);
    let memories = memories(&*sqlite);
    let before = sqlite.head().await.unwrap().seq;
    let made = memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
    assert_eq!(made.seq.unwrap().0, before.0 + 1);
    let (puts, n) = (8_u64, 6_u64);
    let writers = (0..puts).map(|writer| {
        let memories = memories.clone();
        async move {
            for n in 0..n {
                memories.put(&coffee(), &Put::new(format!("Cup {n} of {writer}."))).await.unwrap();
            }
        }
    });
    futures::future::join_all(writers).await;
    let meta = memories.get(&coffee(), Level::Content).await.unwrap().meta;
    assert_eq!(meta.version, 1 + puts * n, "none was lost");
    let old = sqlite.as_of(&Moment::Seq(made.seq.unwrap())).await.unwrap();
    let then = Memories::new(&*old, "default").get(&coffee(), Level::Content).await.unwrap();
    assert_eq!((then.text.as_str(), then.meta.version), ("Black.", 1));
}

#[tokio::test]
async fn put_returns_possible_duplicates() {
    let (sqlite, _kept) = engines().await.remove(0);
    let memories = memories(&*sqlite);
    memories.put(&coffee(), &Put::new("Alice takes her coffee black, without any sugar.")).await.unwrap();
    memories
        .put(&uri("users/bob/memories/profile"), &Put::new("Alice takes her coffee black."))
        .await
        .unwrap();
    let twin = uri("users/alice/memories/preferences/drinks");
    let near = memories.put(&twin, &Put::new("Alice takes coffee black.")).await.unwrap().near.unwrap();
    assert_eq!(near.iter().map(|near| &near.uri).collect::<Vec<_>>(), [&coffee()]);
    let far =
        memories.put(&uri("users/alice/memories/events/e"), &Put::new("A trip to Oslo.")).await.unwrap();
    assert_eq!(far.near, Some(Vec::new()));
}

#[test]
fn meta_omits_unset_fields() {
    let text = r#"{"uri":"ctx://a/users/b/memories/profile","context_type":"MEMORY","category":"profile","level":3,
        "owner_space":"user:b","status":"ACTIVE","created_at":"2025-03-17T10:00:00Z",
        "updated_at":"2025-03-17T11:30:00Z","version":3,"tags":["user-profile","verified"]}"#;
    let meta = Meta::parse(text.as_bytes()).unwrap();
    assert_eq!((meta.version, meta.status, meta.tags.len()), (3, Status::Active, 2));
    let written: serde_json::Value = serde_json::from_str(&meta.to_json().unwrap()).unwrap();
    assert_eq!(written, serde_json::from_str::<serde_json::Value>(text).unwrap());
}
