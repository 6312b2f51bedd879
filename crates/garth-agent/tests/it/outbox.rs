//! Events of memories: claimed, delivered in order, put off, moved to `dlq`, and removed with the version
//! noted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use garth_agent::memory::event::{Payload, TextRef};
use garth_agent::memory::write_ops::{upsert, upsert_relation};
use garth_agent::memory::{Edge, Event, EventStatus, EventType, Meta, Status, Uri, edge, sha256};
use garth_agent::outbox::{
    self, Options, Progress, Retried, Sink, SinkError, Worker, counters, drop_event, list, resend, retry,
};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{Batch, Op, Timestamp};
use garth_engine::{Env, Error, ErrorKind, FileSystem, FileSystemExt, TreePath};

mod moves;
mod slow_sink;

const ACCOUNT: &str = "acme";

/// Sink that records events, and fails on request.
#[derive(Debug, Default)]
struct Notes {
    got: Mutex<Vec<Event>>,
    fails: Mutex<Option<SinkError>>,
}

#[async_trait]
impl Sink for Notes {
    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn deliver(&self, event: &Event) -> Result<(), SinkError> {
        if let Some(error) = self.fails.lock().unwrap().clone() {
            return Err(error);
        }
        self.got.lock().unwrap().push(event.clone());
        Ok(())
    }
}

impl Notes {
    /// Removes and returns the events since the last call: type, and last segment of the URI.
    fn taken(&self) -> Vec<(EventType, String)> {
        let got = std::mem::take(&mut *self.got.lock().unwrap());
        got.iter().map(|event| (event.event_type, last(&event.uri))).collect()
    }

    fn fail(&self, error: Option<SinkError>) {
        *self.fails.lock().unwrap() = error;
    }
}

fn last(uri: &str) -> String {
    uri.rsplit('/').next().unwrap().to_owned()
}

struct Home {
    fs: Arc<dyn FileSystem>,
    env: Env,
    clock: ManualClock,
    sink: Notes,
}

fn home() -> Home {
    let (env, clock) = Env::manual(Timestamp::parse_rfc3339("2026-01-27T09:30:00Z").unwrap());
    Home {
        fs: Arc::new(MemoryFs::new(env.clone(), garth_agent::registry())),
        env,
        clock,
        sink: Notes::default(),
    }
}

fn uri(slug: &str) -> Uri {
    format!("ctx://{ACCOUNT}/users/alice/memories/events/{slug}").parse().unwrap()
}

fn edge(from: &Uri, to: &Uri) -> Edge {
    let text = format!(
        r#"[{{"from_uri":"{from}","to_uri":"{to}","relation_type":"about","weight":0.5,"reason":"r"}}]"#
    );
    edge::parse(text.as_bytes()).unwrap().remove(0)
}

impl Home {
    fn worker(&self) -> Worker {
        Worker::new(self.env.clone(), ACCOUNT, Options::default())
    }

    /// Writes a memory's files in one commit, as a put does.
    async fn put(&self, slug: &str, text: &str, version: u64, edges: &[Edge]) -> Vec<Event> {
        let uri = uri(slug);
        let mut meta = Meta::new(&uri, self.env.now());
        meta.version = version;
        let mut events = vec![upsert(&self.env, &uri, &meta, ["brief", "overview", text]).unwrap()];
        if !edges.is_empty() {
            events.push(upsert_relation(&self.env, &uri, edges).unwrap());
        }
        let write = |name: &str, text: String| Op::write(uri.file(name), text).with_parents();
        let mut ops = vec![
            write("content.md", text.to_owned()),
            write(".relations.json", edge::to_json(edges).unwrap()),
            write(".abstract.md", "brief\n".to_owned()),
            write(".overview.md", "overview\n".to_owned()),
            write(".meta.json", meta.to_json().unwrap()),
        ];
        for event in &events {
            ops.push(write(&format!(".outbox/{}.json", event.event_id), event.to_json().unwrap()));
        }
        self.fs.commit(Batch::new(ops)).await.unwrap();
        events
    }

    /// Deletes a memory's directory, with the event.
    async fn delete(&self, slug: &str) -> Event {
        let uri = uri(slug);
        let payload = Payload::default();
        let event = Event::new(&self.env, EventType::DeleteContext, &uri.to_string(), payload).unwrap();
        let at = path(&format!("/.outbox/{}.json", event.event_id));
        let ops = [Op::remove_tree(uri.dir()), Op::write(at, event.to_json().unwrap()).with_parents()];
        self.fs.commit(Batch::new(ops)).await.unwrap();
        event
    }

    /// Moves a memory, with the event.
    async fn move_to(&self, from: &str, to: &str, version: u64) -> Event {
        let (from, to) = (uri(from), uri(to));
        let payload = Payload { new_uri: Some(to.to_string()), ..Payload::default() };
        let event = Event::new(&self.env, EventType::MoveContext, &from.to_string(), payload).unwrap();
        let mut meta = Meta::new(&to, self.env.now());
        meta.version = version;
        let at = to.file(&format!(".outbox/{}.json", event.event_id));
        let ops = [
            Op::rename(from.dir(), to.dir()).with_parents(),
            Op::write(to.file(".meta.json"), meta.to_json().unwrap()),
            Op::write(at, event.to_json().unwrap()).with_parents(),
        ];
        self.fs.commit(Batch::new(ops)).await.unwrap();
        event
    }

    async fn run(&self) -> Progress {
        self.worker().run_out(&*self.fs, Some(&self.sink)).await.unwrap()
    }

    /// Returns the files of all outboxes.
    async fn left(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let mut walk = self.fs.walk_all("/");
        while let Some(item) = futures::TryStreamExt::try_next(&mut walk).await.unwrap() {
            if item.path.as_str().ends_with(".json") && item.path.as_str().contains("/.outbox/") {
                paths.push(item.path.to_string());
            }
        }
        paths
    }

    async fn done(&self, slug: &str) -> String {
        self.fs.read_to_string(uri(slug).file(".outbox/.done")).await.unwrap()
    }

    async fn event(&self, at: &str) -> Event {
        Event::parse(&self.fs.read_file(at).await.unwrap()).unwrap()
    }
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

use EventType::{DeleteContext, MoveContext, UpsertContext, UpsertRelation};

fn told(events: &[(EventType, &str)]) -> Vec<(EventType, String)> {
    events.iter().map(|(kind, slug)| (*kind, (*slug).to_owned())).collect()
}

#[tokio::test]
async fn delivered_event_is_removed_and_noted() {
    let home = home();
    let events = home.put("a", "text", 3, &[]).await;
    let progress = home.run().await;
    assert_eq!((progress.finished, progress.more, progress.next), (1, false, None));
    let got = home.sink.got.lock().unwrap().clone();
    assert_eq!((&got[0].event_id, got[0].status), (&events[0].event_id, EventStatus::Processing));
    assert_eq!(got[0].payload, events[0].payload);
    assert!(home.left().await.is_empty());
    assert_eq!(home.done("a").await, "3\n");
    home.sink.taken();
    assert_eq!(home.run().await, Progress::default());
    assert!(home.sink.taken().is_empty());
}

#[tokio::test]
async fn worker_without_sink_finishes_events() {
    let home = home();
    for slug in 0..200 {
        home.put(&slug.to_string(), "text", 1, &[]).await;
    }
    let progress = home.worker().run_out(&*home.fs, None).await.unwrap();
    assert_eq!((progress.finished, progress.next), (200, None));
    assert!(home.left().await.is_empty());
    assert_eq!(home.done("199").await, "1\n");
}

#[tokio::test]
async fn worker_delivers_in_order_without_superseded() {
    let home = home();
    home.put("a", "one", 1, &[]).await;
    home.put("a", "two", 2, &[]).await;
    home.put("b", "x", 1, &[]).await;
    home.move_to("a", "c", 3).await;
    home.put("a", "three", 1, &[]).await;
    home.delete("a").await;
    home.put("a", "four", 1, &[edge(&uri("a"), &uri("b"))]).await;
    let progress = home.run().await;
    assert_eq!(progress.superseded, 1, "{progress:?}");
    let got = home.sink.got.lock().unwrap().clone();
    let of_a: Vec<_> = got.iter().filter(|event| last(&event.uri) != "b").collect();
    let kinds: Vec<EventType> = of_a.iter().map(|event| event.event_type).collect();
    assert_eq!(kinds, [UpsertContext, MoveContext, DeleteContext, UpsertContext, UpsertRelation]);
    let text = |event: &Event| event.payload.records.as_ref().unwrap()[2].text.clone().unwrap();
    assert_eq!((text(of_a[0]), text(of_a[3])), ("two".to_owned(), "four".to_owned()));
    assert!(home.left().await.is_empty());
    assert_eq!((home.done("a").await, home.done("c").await), ("1\n".to_owned(), "3\n".to_owned()));
}

#[tokio::test]
async fn failed_event_is_dead_after_five_retries() {
    let home = home();
    let event = home.put("a", "text", 1, &[]).await.remove(0);
    let at = uri("a").file(&format!(".outbox/{}.json", event.event_id)).to_string();
    home.sink.fail(Some(SinkError::new("500 from the\nsink")));
    for (failures, wait) in [(1, 1), (2, 4), (3, 16), (4, 64), (5, 256)] {
        let progress = home.run().await;
        assert_eq!((progress.put_off, progress.finished), (1, 0));
        let next = home.env.now().plus_seconds(wait);
        assert_eq!(progress.next, Some(next));
        let event = home.event(&at).await;
        assert_eq!((event.status, event.retry_count), (EventStatus::Pending, failures));
        assert_eq!(event.next_attempt_at, Some(next.to_rfc3339()));
        assert_eq!(event.last_error.as_deref(), Some("500 from the sink"));
        assert_eq!(home.run().await.put_off, 0, "not before its time");
        home.clock.set(next);
    }
    assert_eq!(home.run().await.given_up, 1);
    let dlq = at.replace(".outbox/", ".outbox/dlq/");
    assert_eq!(home.left().await, std::slice::from_ref(&dlq));
    let failed = home.event(&dlq).await;
    assert_eq!((failed.status, failed.retry_count), (EventStatus::Failed, 6));
    let count = counters(&*home.fs).await.unwrap();
    assert_eq!((count.waiting.events, count.failed.events, count.oldest), (0, 1, None));
    assert!(home.fs.lookup(uri("a").file(".outbox/.done")).await.unwrap().is_none());

    // A newer event is not blocked by it, and supersedes it.
    home.sink.fail(None);
    home.put("a", "new", 2, &[]).await;
    home.run().await;
    assert!(home.left().await.is_empty());
    assert_eq!(home.done("a").await, "2\n");
}

#[tokio::test]
async fn sink_may_ask_for_longer_delay() {
    let home = home();
    home.put("a", "text", 1, &[]).await;
    for (asked, wait) in [(30, 30), (2, 4), (999_999, 3600)] {
        home.sink.fail(Some(SinkError::new("429").retry_after(Duration::from_secs(asked))));
        assert_eq!(home.run().await.next, Some(home.env.now().plus_seconds(wait)));
        home.clock.advance(Duration::from_secs(3600));
    }
}

#[tokio::test]
async fn failed_event_blocks_only_its_own_memory() {
    let home = home();
    home.put("a", "text", 1, &[]).await;
    home.move_to("a", "b", 2).await;
    home.run().await;
    home.sink.taken();
    home.sink.fail(Some(SinkError::new("down")));
    home.put("b", "text", 3, &[edge(&uri("b"), &uri("c"))]).await;
    home.delete("b").await;
    assert_eq!(home.run().await.put_off, 1);
    home.sink.fail(None);
    home.put("b", "anew", 1, &[]).await;
    home.put("c", "text", 1, &[]).await;
    home.run().await;
    assert_eq!(home.sink.taken(), told(&[(UpsertContext, "c")]), "the deletion of b waits for its next try");
    home.clock.advance(Duration::from_secs(1));
    home.run().await;
    assert_eq!(home.sink.taken(), told(&[(DeleteContext, "b"), (UpsertContext, "b")]));
}

#[tokio::test]
async fn lease_excludes_other_workers_until_it_ends() {
    let home = home();
    let mut event = home.put("a", "text", 1, &[]).await.remove(0);
    event.status = EventStatus::Processing;
    event.seq = Some(1);
    event.lease_until = Some(home.env.now().plus_seconds(60).to_rfc3339());
    let at = uri("a").file(&format!(".outbox/{}.json", event.event_id));
    home.fs.write(&at, event.to_json().unwrap()).await.unwrap();
    home.put("a", "newer", 2, &[]).await;
    let progress = home.run().await;
    assert_eq!((progress.finished, home.left().await.len()), (0, 2));
    assert_eq!(progress.next, Some(home.env.now().plus_seconds(60)));
    assert!(retry(&*home.fs, &home.env, ACCOUNT, &event.event_id).await.unwrap_err().is(ErrorKind::Busy));
    home.clock.advance(Duration::from_secs(60));
    let progress = home.run().await;
    assert_eq!((progress.finished, progress.superseded), (1, 1));
    assert_eq!(home.done("a").await, "2\n");
}

/// Sink during whose call the tree changes.
#[derive(Debug)]
struct Meddling<'a> {
    home: &'a Home,
    what: &'static str,
}

#[async_trait]
impl Sink for Meddling<'_> {
    fn timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn deliver(&self, event: &Event) -> Result<(), SinkError> {
        let at = uri("a").file(&format!(".outbox/{}.json", event.event_id));
        match self.what {
            "put" => drop(self.home.put("a", "newer", 2, &[]).await),
            "move" => drop(self.home.move_to("a", "b", 1).await),
            "steal" => {
                drop(
                    self.home.fs.write(&at, event.to_json().unwrap().replace("PROCESSING", "PENDING")).await,
                );
            }
            "delete" => drop(self.home.delete("a").await),
            _ => unreachable!(),
        }
        Ok(())
    }
}

impl std::fmt::Debug for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Home")
    }
}

#[tokio::test]
async fn changes_during_delivery_are_kept() {
    let first = async |what| {
        let home = home();
        home.put("a", "text", 1, &[]).await;
        let sink = Meddling { home: &home, what };
        let progress = home.worker().run_once(&*home.fs, Some(&sink)).await.unwrap();
        (home, progress)
    };
    let (home, progress) = first("put").await;
    assert_eq!((progress.finished, home.left().await.len()), (1, 1));
    assert_eq!(home.done("a").await, "1\n", "the version that is there now is not told yet");

    let (home, progress) = first("move").await;
    assert_eq!(progress.finished, 1, "its file is found where it is now");
    assert_eq!(home.left().await.len(), 1);

    let (home, progress) = first("steal").await;
    assert_eq!((progress.finished, home.left().await.len()), (0, 1), "it is another's now");

    let (home, progress) = first("delete").await;
    assert_eq!((progress.finished, home.left().await.len()), (0, 1));
    assert!(!home.fs.exists(uri("a").dir()).await.unwrap(), "no directory for `.done` is made");
}

#[tokio::test]
async fn invalid_events_move_to_dlq_unchanged() {
    let home = home();
    home.put("a", "text", 1, &[]).await;
    let outbox = uri("a").file(".outbox");
    let forged = |slug: &str, account: &str, user: &str| {
        let of = format!("ctx://{account}/users/{user}/memories/events/{slug}");
        Event::new(&home.env, DeleteContext, &of, Payload::default()).unwrap()
    };
    let (of_bob, of_other) = (forged("x", ACCOUNT, "bob"), forged("x", "other", "alice"));
    let mut moved = forged("x", ACCOUNT, "alice");
    (moved.event_type, moved.payload.new_uri) = (MoveContext, Some(of_bob.uri.clone()));
    let misnamed = forged("x", ACCOUNT, "alice");
    let mut bad = vec![
        (format!("{outbox}/junk.json"), "{\u{0}".to_owned()),
        (format!("{outbox}/empty.json"), String::new()),
        (format!("{outbox}/name.json"), misnamed.to_json().unwrap()),
    ];
    for event in [&of_bob, &of_other, &moved] {
        bad.push((format!("{outbox}/{}.json", event.event_id), event.to_json().unwrap()));
    }
    for (at, text) in &bad {
        home.fs.write(at, text.clone()).await.unwrap();
    }
    let progress = home.run().await;
    assert_eq!((progress.finished, progress.given_up, progress.next), (1, 6, None));
    assert_eq!(home.sink.taken(), told(&[(UpsertContext, "a")]));
    let left = home.left().await;
    assert_eq!(left.len(), 6);
    let mut kept = Vec::new();
    for at in left {
        assert!(at.starts_with(&format!("{outbox}/dlq/")), "{at}");
        kept.push(home.fs.read_to_string(at).await.unwrap());
    }
    let mut texts: Vec<String> = bad.into_iter().map(|(_, text)| text).collect();
    texts.sort();
    kept.sort();
    assert_eq!(kept, texts);
    let count = counters(&*home.fs).await.unwrap();
    assert_eq!((count.waiting.events, count.failed.events), (0, 6));
    assert_eq!(home.run().await, Progress::default(), "they are not looked at again and again");
}

#[tokio::test]
async fn long_text_is_delivered_if_unchanged() {
    let home = home();
    let long = "word ".repeat(20_000);
    home.put("a", &long, 1, &[]).await;
    home.move_to("a", "b", 2).await;
    home.run().await;
    let got = home.sink.got.lock().unwrap()[0].clone();
    let record = got.payload.records.unwrap().pop().unwrap();
    assert_eq!(record.text.as_deref(), Some(&*long), "found where the memory is now");
    assert_eq!(record.text_ref.unwrap().sha256, sha256(long.as_bytes()));
    home.sink.taken();

    home.put("a", &long, 1, &[]).await;
    home.fs.write(uri("a").file("content.md"), "by hand").await.unwrap();
    assert_eq!((home.run().await.finished, home.sink.taken()), (1, vec![]), "repair is to tell of it");
    assert!(!home.fs.exists(uri("a").file(".outbox/.done")).await.unwrap());
    home.put("a", "by hand", 2, &[]).await;
    assert_eq!(home.run().await.finished, 1);
    home.sink.taken();

    // An event can only refer to the text of its memory.
    home.fs.write("/users/alice/secret", long.clone()).await.unwrap();
    let mut event = home.put("a", &long, 3, &[]).await.remove(0);
    let at = uri("a").file(&format!(".outbox/{}.json", event.event_id));
    let records = event.payload.records.as_mut().unwrap();
    let sha256 = sha256(long.as_bytes());
    records[2].text_ref = Some(TextRef { path: "/users/alice/secret".to_owned(), version: 3, sha256 });
    home.fs.write(&at, event.to_json().unwrap()).await.unwrap();
    home.sink.taken();
    assert_eq!((home.run().await.finished, home.sink.taken()), (1, vec![]));
}

#[tokio::test]
async fn delivery_masks_secrets() {
    let home = home();
    let key = format!("AKIA{}", "IOSFODNN7EXAMPL2");
    let reason = Edge { reason: format!("uses {key}"), ..edge(&uri("a"), &uri("b")) };
    home.put("a", &format!("The key is {key} of old.\n"), 1, std::slice::from_ref(&reason)).await;
    home.put("b", &format!("{}{key}\n", "word ".repeat(20_000)), 1, &[]).await;
    home.run().await;
    let got = home.sink.got.lock().unwrap().clone();
    assert_eq!(got.len(), 3);
    for event in got {
        let told = event.to_json().unwrap();
        assert!(!told.contains(&key) && told.contains("secret"), "{}", &told[..told.len().min(2000)]);
    }
}

#[tokio::test]
async fn inactive_memories_are_not_delivered() {
    let home = home();
    home.put("a", "text", 1, &[edge(&uri("a"), &uri("b"))]).await;
    let mut meta = Meta::new(&uri("a"), home.env.now());
    meta.status = Status::Broken;
    home.fs.write(uri("a").file(".meta.json"), meta.to_json().unwrap()).await.unwrap();
    assert_eq!(home.run().await.finished, 2);
    assert!(home.sink.taken().is_empty() && home.left().await.is_empty());
    assert!(!home.fs.exists(uri("a").file(".outbox/.done")).await.unwrap());
}

#[tokio::test]
async fn dangling_edges_are_rewritten_before_delivery() {
    let home = home();
    for slug in 0..60 {
        let from = uri(&format!("n{slug}"));
        home.put(&format!("n{slug}"), "text", 1, &[edge(&from, &uri("a")), edge(&from, &uri("z"))]).await;
    }
    home.put("a", "text", 1, &[]).await;
    home.put("z", "text", 1, &[]).await;
    home.run().await;
    home.sink.taken();
    home.move_to("a", "b", 2).await;
    home.run().await;
    let got = std::mem::take(&mut *home.sink.got.lock().unwrap());
    assert_eq!(got.len(), 61);
    let edges = |event: &Event| event.payload.edges.clone().unwrap_or_default();
    for event in got.iter().filter(|event| event.event_type == UpsertRelation) {
        let to: Vec<String> = edges(event).iter().map(|edge| last(&edge.to_uri)).collect();
        assert_eq!(to, ["b", "z"]);
    }
    home.delete("b").await;
    home.run().await;
    let kept = home.fs.read_file(uri("n7").file(".relations.json")).await.unwrap();
    let kept = edge::parse(&kept).unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(last(&kept[0].to_uri), "z");

    // Edges to another memory of that URI stay.
    home.delete("z").await;
    home.put("z", "another", 1, &[]).await;
    home.put("late", "text", 1, &[edge(&uri("late"), &uri("z"))]).await;
    home.run().await;
    let edges_of = async |slug: &str| {
        edge::parse(&home.fs.read_file(uri(slug).file(".relations.json")).await.unwrap()).unwrap().len()
    };
    assert_eq!((edges_of("n7").await, edges_of("late").await), (0, 1));
}

#[tokio::test]
async fn retry_delivers_current_state_if_outdated() {
    let home = home();
    let give_up = async || {
        home.sink.fail(Some(SinkError::new("down")));
        for _ in 0..6 {
            home.run().await;
            home.clock.advance(Duration::from_secs(256));
        }
        home.sink.fail(None);
        let failed = list(&*home.fs, ACCOUNT, true, None).await.unwrap().items;
        failed.into_iter().map(|listed| listed.event.unwrap().event_id).collect::<Vec<_>>()
    };
    home.put("a", "text", 1, &[]).await;
    let again = async |id: &str| retry(&*home.fs, &home.env, ACCOUNT, id).await;
    let failed = give_up().await;
    assert_eq!(again(&failed[0]).await.unwrap(), Retried::Again);
    home.run().await;
    let event = home.sink.got.lock().unwrap().remove(0);
    assert_eq!((event.event_id, event.retry_count), (failed[0].clone(), 0));
    assert_eq!(home.done("a").await, "1\n");

    // A dead move, after which the memory was changed.
    home.move_to("a", "b", 2).await;
    let failed = give_up().await;
    home.put("b", "changed", 3, &[]).await;
    home.run().await;
    home.sink.taken();
    assert_eq!(again(&failed[0]).await.unwrap(), Retried::Anew);
    home.run().await;
    let mut told_now = home.sink.taken();
    told_now.sort_by_key(|(_, slug)| slug.clone());
    assert_eq!(told_now, told(&[(DeleteContext, "a"), (UpsertContext, "b")]));

    // A dead deletion, after which the memory was created again.
    home.delete("b").await;
    let failed = give_up().await;
    home.put("b", "back", 1, &[]).await;
    home.run().await;
    home.sink.taken();
    assert_eq!(again(&failed[0]).await.unwrap(), Retried::Anew);
    home.run().await;
    assert_eq!(home.sink.taken(), told(&[(UpsertContext, "b")]));
    assert!(again("none").await.unwrap_err().is(ErrorKind::NotFound));
    assert!(home.left().await.is_empty());
}

#[tokio::test]
async fn dropped_event_counts_as_delivered() {
    let home = home();
    let event = home.put("a", "text", 4, &[]).await.remove(0);
    home.fs.write(uri("a").file(".outbox/junk.json"), "x").await.unwrap();
    drop_event(&*home.fs, &home.env, ACCOUNT, &event.event_id).await.unwrap();
    drop_event(&*home.fs, &home.env, ACCOUNT, "junk").await.unwrap();
    assert!(home.left().await.is_empty());
    assert_eq!(home.done("a").await, "4\n");
}

#[tokio::test]
async fn resend_covers_every_memory_below_a_prefix() {
    let home = home();
    for slug in 0..40 {
        let from = uri(&format!("n{slug}"));
        home.put(&format!("n{slug}"), "text", 1, &[edge(&from, &uri("z"))]).await;
    }
    home.worker().run_out(&*home.fs, None).await.unwrap();
    let (mut told, mut after) = (0, None);
    loop {
        let (some, next) = resend(&*home.fs, &home.env, ACCOUNT, &path("/users/alice"), after).await.unwrap();
        assert!(some <= 16);
        (told, after) = (told + some, next);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(told, 40);
    home.run().await;
    assert_eq!(home.sink.taken().len(), 80);
    let none = resend(&*home.fs, &home.env, ACCOUNT, &path("/users/bob"), None).await.unwrap();
    assert_eq!(none.0, 0);
}

#[tokio::test]
async fn waiting_events_are_counted_and_listed() {
    let home = home();
    home.put("a", "text", 1, &[]).await;
    let first = home.env.now();
    home.clock.advance(Duration::from_secs(5));
    home.put("b", "text", 1, &[]).await;
    let count = counters(&*home.fs).await.unwrap();
    assert_eq!((count.waiting.events, count.waiting.more, count.oldest), (2, false, Some(first)));
    let listed = list(&*home.fs, ACCOUNT, false, None).await.unwrap();
    let uris: Vec<String> = listed.items.into_iter().map(|item| last(&item.event.unwrap().uri)).collect();
    assert_eq!(uris, ["a", "b"]);
    assert!(list(&*home.fs, ACCOUNT, true, None).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn host_folder_has_no_worker() {
    let folder = tempfile::tempdir().unwrap();
    let fs = garth_engine::engine::host::HostFs::open(
        folder.path(),
        garth_engine::engine::host::Mode::Writable,
        Env::system(),
    )
    .unwrap();
    let mut worker = Worker::new(Env::system(), ACCOUNT, Options::default());
    let error: Error = worker.run_once(&*fs, None).await.unwrap_err();
    assert!(error.is(ErrorKind::Unsupported));
    assert_eq!(outbox::delay(1), 1);
}
