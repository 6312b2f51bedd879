//! Past of memories, events about memories that were edited by hand, and memories without text.

use garth_agent::memory::{
    Event, EventType, LayerText, Level, MAX_LOGGED, Memories, MemoryVersion, Put, Repair, Status, Uri,
};
use garth_agent::{Access, Caller, Request};
use garth_engine::model::{Batch, HistoryPage, Moment, Op, Seq};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use serde_json::json;

use super::memories_set::{coffee, edge, engines, memories, uri};

fn tea() -> Uri {
    uri("users/alice/memories/preferences/tea")
}

async fn log(memories: &Memories<'_>, uri: &Uri) -> Vec<MemoryVersion> {
    let log = memories.log(uri, &HistoryPage::default().limit(MAX_LOGGED)).await.unwrap();
    assert!(!log.more);
    log.items
}

/// Returns the version of each entry of a log, newest first; `None` where the memory ended.
fn versions(log: &[MemoryVersion]) -> Vec<Option<u64>> {
    log.iter().map(|version| version.meta.as_ref().map(|meta| meta.version)).collect()
}

fn has_history(fs: &dyn FileSystem) -> bool {
    fs.capabilities(&TreePath::root()).history
}

#[tokio::test]
async fn log_lists_every_readable_version() {
    for (fs, _kept) in engines().await {
        if !has_history(&*fs) {
            let error =
                memories(&*fs).get_at(&coffee(), Level::Content, &Moment::Seq(Seq(1))).await.unwrap_err();
            assert!(error.is(ErrorKind::Unsupported), "{error}");
            continue;
        }
        let memories = memories(&*fs);
        let mut put = Put::new("Black. No milk.");
        memories.put(&coffee(), &put).await.unwrap();
        put.content = "With milk.".to_owned();
        put.brief = LayerText::Given("Her coffee".to_owned());
        memories.put(&coffee(), &put).await.unwrap();
        memories.tag(&coffee(), &["drink".to_owned()], &[]).await.unwrap();
        memories.put(&tea(), &Put::new("Green.")).await.unwrap();
        memories.relate(&edge(&coffee(), &tea())).await.unwrap();
        let log = log(&memories, &coffee()).await;
        assert_eq!(versions(&log), [Some(3), Some(2), Some(1)], "relations have no version");
        assert!(log[0].commit.message.contains("tag"), "{:?}", log[0].commit);
        let mut texts = Vec::new();
        for version in log.iter().rev() {
            let moment = Moment::Seq(version.commit.seq);
            let memory = memories.get_at(&coffee(), Level::Abstract, &moment).await.unwrap();
            assert_eq!(Some(&memory.meta), version.meta.as_ref());
            let content = memories.get_at(&coffee(), Level::Content, &moment).await.unwrap();
            texts.push((memory.text, content.text));
        }
        let due = [("Black.", "Black. No milk."), ("Her coffee", "With milk."), ("Her coffee", "With milk.")];
        assert_eq!(texts, due.map(|(brief, content)| (brief.to_owned(), content.to_owned())));
        let before = Moment::Seq(Seq(log[2].commit.seq.0 - 1));
        let error = memories.get_at(&coffee(), Level::Content, &before).await.unwrap_err();
        assert!(error.is(ErrorKind::NotFound), "{error}");
    }
}

#[tokio::test]
async fn log_spans_moves_and_deletions() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        if !has_history(&*fs) {
            continue;
        }
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        memories.put(&coffee(), &Put::new("White.")).await.unwrap();
        memories.move_to(&coffee(), &tea()).await.unwrap();
        let moved = log(&memories, &tea()).await;
        assert_eq!(versions(&moved)[0], Some(3));
        assert_eq!(*versions(&moved).last().unwrap(), Some(1), "its past came along");
        for version in &moved {
            let memory = memories.get_at(&tea(), Level::Content, &Moment::Seq(version.commit.seq)).await;
            assert_eq!(Some(memory.unwrap().meta), version.meta);
        }
        let left = log(&memories, &coffee()).await;
        assert!(left[0].deleted && left[0].meta.is_none());
        let seq = memories.delete(&tea()).await.unwrap();
        let ended = log(&memories, &tea()).await;
        assert!(ended[0].deleted && ended[0].commit.seq == seq);
        let last = Moment::Seq(Seq(seq.0 - 1));
        assert_eq!(memories.get_at(&tea(), Level::Content, &last).await.unwrap().text, "White.");
        let never = memories.log(&uri("users/alice/memories/profile"), &HistoryPage::default()).await;
        assert!(never.unwrap_err().is(ErrorKind::NotFound));
        let many = memories.log(&tea(), &HistoryPage::default().limit(MAX_LOGGED + 1)).await;
        assert!(many.unwrap_err().is(ErrorKind::InvalidArgument));
    }
}

#[tokio::test]
async fn log_skips_unreadable_meta() {
    for (fs, _kept) in engines().await {
        let memories = memories(&*fs);
        if !has_history(&*fs) {
            continue;
        }
        memories.put(&coffee(), &Put::new("Black.")).await.unwrap();
        fs.write(coffee().file(".meta.json"), "{").await.unwrap();
        fs.write(coffee().file(".meta.json"), "x".repeat(100_000)).await.unwrap();
        let put_aside =
            [Op::remove(coffee().file(".meta.json")), Op::symlink(coffee().file(".meta.json"), "/users")];
        fs.commit(Batch::new(put_aside)).await.unwrap();
        let log = log(&memories, &coffee()).await;
        let first = log.last().unwrap();
        assert_eq!(first.meta.as_ref().map(|meta| meta.status), Some(Status::Active));
        assert!(
            log.len() > 3 && log[..log.len() - 1].iter().all(|version| version.meta.is_none()),
            "{log:?}"
        );
    }
}

#[tokio::test]
async fn versions_continue_after_unreadable_meta() {
    for (fs, _kept) in engines().await {
        if !has_history(&*fs) {
            continue;
        }
        let memories = memories(&*fs);
        let mut put = Put::new("Black.");
        put.valid_from = Some(garth_engine::model::Timestamp(1_700_000_000_000_000_000));
        memories.put(&coffee(), &put).await.unwrap();
        let first = memories.put(&coffee(), &Put::new("With milk.")).await.unwrap().meta;
        let meta = coffee().file(".meta.json");
        fs.write(&meta, "{").await.unwrap();
        assert!(memories.get(&coffee(), Level::Content).await.unwrap_err().message().contains("repair"));
        let again = memories.put(&coffee(), &Put::new("Decaf.")).await.unwrap().meta;
        assert_eq!((again.version, &again.created_at), (3, &first.created_at));
        assert_eq!(again.valid_from, first.valid_from);
        fs.write(&meta, "no meta").await.unwrap();
        Repair::new(memories.clone()).at_once(true).scan(|_| {}).await.unwrap();
        let mended = memories.get(&coffee(), Level::Content).await.unwrap();
        assert!(mended.meta.version > 3 && mended.meta.valid_from == first.valid_from, "{:?}", mended.meta);
        assert_eq!(mended.meta.created_at, first.created_at);
    }
}

#[tokio::test]
async fn identities_cannot_read_the_past_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let data = garth::builder().open(&folder.path().join("data")).unwrap();
    data.create_account("default").await.unwrap();
    let account = data.account("default").await.unwrap();
    let env = Env::system();
    let of_alice = coffee();
    let seq = memories(&*account).put(&of_alice, &Put::new("A canary.")).await.unwrap().seq.unwrap();
    let bob = Request::new("scout").user("bob");
    let access = Access::open(&account, &env, Caller::ApiKey, &bob).await.unwrap();
    let reached = access.memories("default");
    let log = reached.log(&of_alice, &HistoryPage::default()).await.unwrap_err();
    let never = reached.log(&tea(), &HistoryPage::default()).await.unwrap_err();
    assert_eq!((log.kind(), never.kind()), (ErrorKind::NotFound, ErrorKind::NotFound));
    let then = reached.get_at(&of_alice, Level::Content, &Moment::Seq(seq)).await.unwrap_err();
    assert!(then.is(ErrorKind::NotFound), "{then}");
    let other = "ctx://other/users/alice/memories/profile".parse().unwrap();
    assert!(reached.log(&other, &HistoryPage::default()).await.unwrap_err().is(ErrorKind::AccessDenied));
}

/// Returns the waiting events of a memory, oldest first.
async fn events(fs: &dyn FileSystem, uri: &Uri) -> Vec<Event> {
    let outbox = uri.file(".outbox");
    let page = garth_engine::model::Page::default();
    let mut events = Vec::new();
    for item in fs.list(&outbox.clone().into(), &page).await.unwrap().items {
        let path = TreePath::parse(&format!("{outbox}/{}", item.name)).unwrap();
        events.extend(Event::parse(&fs.read_file(&path).await.unwrap()).ok());
    }
    events
}

#[tokio::test]
async fn hand_edits_are_delivered_within_limits() {
    for (fs, _kept) in engines().await {
        let repair = async || Repair::new(memories(&*fs)).at_once(true).scan(|_| ()).await.unwrap();
        memories(&*fs).put(&coffee(), &Put::new("Black.")).await.unwrap();
        memories(&*fs).put(&tea(), &Put::new("Green.")).await.unwrap();
        let long = "word ".repeat(100);
        fs.write(coffee().file(".abstract.md"), long.clone()).await.unwrap();
        fs.write(coffee().file(".overview.md"), "é".repeat(40_000)).await.unwrap();
        let good = edge(&coffee(), &tea());
        let mut edges = vec![good.clone(); 4];
        (edges[1].weight, edges[1].relation_type) = (5.0, "a".to_owned());
        (edges[2].from_uri, edges[2].relation_type) = (tea().to_string(), "b".to_owned());
        (edges[3].to_uri, edges[3].relation_type) = ("elsewhere".to_owned(), "c".to_owned());
        let relations = json!(edges).to_string();
        fs.write(coffee().file(".relations.json"), relations.clone()).await.unwrap();
        assert_eq!(repair().await.found["changed_layer"], 1);
        assert!(repair().await.found.is_empty(), "it was told");
        let told = events(&*fs, &coffee()).await.pop().unwrap();
        assert_eq!(told.event_type, EventType::UpsertContext);
        let texts: Vec<String> =
            told.payload.records.as_ref().unwrap().iter().map(|one| one.text.clone().unwrap()).collect();
        assert!(long.starts_with(&texts[0]) && (90..=100).contains(&texts[0].chars().count()), "{texts:?}");
        assert_eq!(texts[1].len(), 64 << 10);
        let moved = uri("users/alice/memories/events/moved");
        fs.mkdir_all(&moved.dir().parent().unwrap()).await.unwrap();
        fs.rename(&coffee().dir(), &moved.dir()).await.unwrap();
        repair().await;
        assert!(repair().await.found.is_empty(), "it was told");
        for event in events(&*fs, &moved).await {
            event.check("default", Some(&format!("{}.json", event.event_id)), Some(&moved)).unwrap();
            for edge in event.payload.edges.iter().flatten() {
                edge.check().unwrap();
            }
        }
        // The files as people wrote them stay.
        assert_eq!(fs.read_to_string(moved.file(".abstract.md")).await.unwrap(), long);
        assert!(fs.read_to_string(moved.file(".relations.json")).await.unwrap().contains("5.0"));
    }
}

#[tokio::test]
async fn rejects_event_over_memory_limits() {
    let fs = garth_engine::engine::memory::MemoryFs::new(Env::system(), garth_agent::registry());
    memories(&fs).put(&coffee(), &Put::new("Black.")).await.unwrap();
    memories(&fs).put(&tea(), &Put::new("Green.")).await.unwrap();
    memories(&fs).relate(&edge(&coffee(), &tea())).await.unwrap();
    for mut event in events(&fs, &coffee()).await {
        let file = format!("{}.json", event.event_id);
        event.check("default", Some(&file), Some(&coffee())).unwrap();
        for record in event.payload.records.iter_mut().flatten() {
            record.text = Some("x".repeat(500));
        }
        for edge in event.payload.edges.iter_mut().flatten() {
            edge.weight = 5.0;
        }
        event.check("default", Some(&file), Some(&coffee())).unwrap_err();
    }
}

#[tokio::test]
async fn put_rejects_empty_text_by_default() {
    for (fs, _kept) in engines().await {
        for text in ["", " \n\t\n"] {
            let error = memories(&*fs).put(&coffee(), &Put::new(text)).await.unwrap_err();
            assert!(
                error.is(ErrorKind::InvalidArgument) && error.message().contains("allow_empty"),
                "{error}"
            );
            assert!(!fs.exists(&coffee().dir()).await.unwrap());
        }
        let mut put = Put::new("");
        put.allow_empty = true;
        assert!(memories(&*fs).put(&coffee(), &put).await.unwrap().created);
    }
}
