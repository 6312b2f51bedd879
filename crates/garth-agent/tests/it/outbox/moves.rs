//! Events of memories that move while the events wait or are being delivered.

use garth_agent::memory::{Memories, Put};

use super::*;

#[tokio::test]
async fn replaced_long_text_does_not_block() {
    let home = home();
    home.put("a", &"word ".repeat(20_000), 1, &[]).await;
    home.move_to("a", "b", 2).await;
    home.put("b", "short", 3, &[]).await;
    assert_eq!(home.run().await.finished, 3);
    let due = [(EventType::MoveContext, "a"), (EventType::UpsertContext, "b")];
    assert_eq!(home.sink.taken(), told(&due));
    assert!(home.left().await.is_empty());
    assert_eq!(home.fs.read_to_string(uri("b").file(".outbox/.done")).await.unwrap(), "3\n");
}

/// Sink that moves a memory when it receives an event about another.
#[derive(Debug)]
struct Mover<'a>(&'a Home, std::sync::atomic::AtomicBool);

#[async_trait]
impl Sink for Mover<'_> {
    fn timeout(&self) -> Duration {
        self.0.sink.timeout()
    }

    async fn deliver(&self, event: &Event) -> Result<(), SinkError> {
        if !self.1.swap(true, std::sync::atomic::Ordering::SeqCst) {
            assert_eq!(last(&event.uri), "a");
            self.0.move_to("b", "c", 2).await;
        }
        self.0.sink.deliver(event).await
    }
}

#[tokio::test]
async fn memory_moved_after_claim_is_delivered() {
    let home = home();
    home.put("a", "one", 1, &[]).await;
    home.put("b", "two", 1, &[]).await;
    let (mover, mut worker) = (Mover(&home, false.into()), home.worker());
    worker.run_out(&*home.fs, Some(&mover)).await.unwrap();
    let due =
        [(EventType::UpsertContext, "a"), (EventType::UpsertContext, "b"), (EventType::MoveContext, "b")];
    assert_eq!(home.sink.taken(), told(&due));
    assert_eq!(home.fs.read_to_string(uri("c").file(".outbox/.done")).await.unwrap(), "2\n");
}

#[tokio::test]
async fn owner_change_delivers_earlier_events() {
    let home = home();
    let memories = Memories::new(&*home.fs, ACCOUNT).env(home.env.clone());
    let to: Uri = format!("ctx://{ACCOUNT}/users/bob/memories/events/b").parse().unwrap();
    memories.put(&uri("a"), &Put::new("one")).await.unwrap();
    memories.put(&uri("x"), &Put::new("x")).await.unwrap();
    home.run().await;
    memories.put(&uri("a"), &Put::new("two")).await.unwrap();
    memories.relate(&edge(&uri("x"), &uri("a"))).await.unwrap();
    memories.relate(&edge(&uri("a"), &uri("x"))).await.unwrap();
    memories.move_to(&uri("a"), &uri("m")).await.unwrap();
    memories.move_to(&uri("m"), &to).await.unwrap();
    home.sink.taken();
    home.run().await;
    assert_eq!((home.left().await, counters(&*home.fs).await.unwrap().failed.events), (vec![], 0));
    let got = home.sink.got.lock().unwrap().clone();
    let of_memory = got.iter().filter(|event| !event.uri.ends_with("/x"));
    let told: Vec<_> = of_memory.map(|event| (event.event_type, last(&event.uri))).collect();
    let due = [
        (EventType::MoveContext, "a"),
        (EventType::MoveContext, "m"),
        (EventType::UpsertContext, "b"),
        (EventType::UpsertRelation, "b"),
    ];
    assert_eq!(told, super::told(&due));
    let upsert = got.iter().find(|event| event.uri == to.to_string() && event.payload.records.is_some());
    let records = upsert.unwrap().payload.records.clone().unwrap();
    assert!(records.iter().all(|record| record.filters.owner_space == "user:bob"));
    assert_eq!(records[2].text.as_deref(), Some("two"));
    assert_eq!(home.fs.read_to_string(to.file(".outbox/.done")).await.unwrap(), "4\n");
    let edges = edge::parse(&home.fs.read_file(uri("x").file(".relations.json")).await.unwrap()).unwrap();
    assert_eq!(edges[0].to_uri, to.to_string());
}

#[tokio::test]
async fn delivery_in_flight_precedes_owner_change() {
    let home = home();
    let memories = Memories::new(&*home.fs, ACCOUNT).env(home.env.clone());
    let to: Uri = format!("ctx://{ACCOUNT}/agents/bot/memories/cases/b").parse().unwrap();
    memories.put(&uri("a"), &Put::new("one")).await.unwrap();
    // As a dead worker leaves it.
    let mut walk = home.left().await;
    let at = walk.remove(0);
    let mut event = Event::parse(&home.fs.read_file(&at).await.unwrap()).unwrap();
    event.status = EventStatus::Processing;
    event.lease_until = Some(home.env.now().plus_seconds(60).to_rfc3339());
    home.fs.write(&at, event.to_json().unwrap()).await.unwrap();
    memories.move_to(&uri("a"), &to).await.unwrap();
    assert_eq!((home.run().await.finished, home.sink.taken()), (0, vec![]), "it is held");
    home.clock.advance(Duration::from_secs(61));
    home.run().await;
    let due = [(EventType::MoveContext, "a"), (EventType::UpsertContext, "b")];
    assert_eq!((home.sink.taken(), home.left().await), (told(&due), vec![]));
}

#[tokio::test]
async fn foreign_event_stays_in_its_directory() {
    let home = home();
    let memories = Memories::new(&*home.fs, ACCOUNT).env(home.env.clone());
    let of_bob: Uri = format!("ctx://{ACCOUNT}/users/bob/memories/events/b").parse().unwrap();
    memories.put(&of_bob, &Put::new("Bob's.")).await.unwrap();
    memories.put(&uri("x"), &Put::new("x")).await.unwrap();
    memories.relate(&edge(&uri("x"), &of_bob)).await.unwrap();
    for slug in ["a", "m"] {
        memories.put(&uri(slug), &Put::new("Alice's.")).await.unwrap();
    }
    home.run().await;
    home.sink.taken();
    let forge = async |slug: &str| {
        let moved = Payload { new_uri: Some(uri(slug).to_string()), ..Payload::default() };
        for (kind, payload, status) in [
            (EventType::MoveContext, moved, EventStatus::Pending),
            (EventType::DeleteContext, Payload::default(), EventStatus::Processing),
        ] {
            let event = Event::new(&home.env, kind, &of_bob.to_string(), payload).unwrap();
            let event = Event { status, ..event };
            let at = uri(slug).file(&format!(".outbox/{}.json", event.event_id));
            home.fs.write(at, event.to_json().unwrap()).await.unwrap();
        }
    };
    forge("a").await;
    memories.delete(&uri("a")).await.unwrap();
    forge("m").await;
    let to: Uri = format!("ctx://{ACCOUNT}/agents/bot/memories/cases/m").parse().unwrap();
    memories.move_to(&uri("m"), &to).await.unwrap();
    home.run().await;
    let due =
        [(EventType::DeleteContext, "a"), (EventType::MoveContext, "m"), (EventType::UpsertContext, "m")];
    assert_eq!(home.sink.taken(), told(&due));
    let edges = edge::parse(&home.fs.read_file(uri("x").file(".relations.json")).await.unwrap()).unwrap();
    assert_eq!(edges[0].to_uri, of_bob.to_string());
}
