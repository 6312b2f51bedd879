//! Sink that is slow to accept the events of one memory.

use std::time::Duration;

use async_trait::async_trait;
use garth_agent::memory::Event;
use garth_agent::memory::EventType::{UpsertContext, UpsertRelation};
use garth_agent::outbox::{AGAIN, AT_ONCE, Room, Sink, SinkError};

use super::{Notes, edge, home, last, told, uri};

/// Sink that accepts the events of one memory only after a number of others.
#[derive(Debug)]
struct Hangs {
    notes: Notes,
    slow: &'static str,
    others: usize,
    have_come: tokio::sync::Notify,
}

#[async_trait]
impl Sink for Hangs {
    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn deliver(&self, event: &Event) -> Result<(), SinkError> {
        if last(&event.uri) == self.slow {
            self.have_come.notified().await;
            self.have_come.notify_one();
        }
        self.notes.deliver(event).await?;
        if self.notes.got.lock().unwrap().len() == self.others {
            self.have_come.notify_one();
        }
        Ok(())
    }
}

#[tokio::test]
async fn slow_delivery_delays_only_its_memory() {
    let home = home();
    let edges = [edge(&uri("slow"), &uri("0"))];
    home.put("slow", "text", 1, &edges).await;
    let memories = 3 * AT_ONCE;
    for memory in 0..memories {
        let slug = memory.to_string();
        home.put(&slug, "text", 1, &[edge(&uri(&slug), &uri("slow"))]).await;
    }
    let sink =
        Hangs { notes: Notes::default(), slow: "slow", others: 2 * memories, have_come: <_>::default() };
    let progress = home.worker().run_out(&*home.fs, Some(&sink)).await.unwrap();
    assert_eq!((progress.finished, progress.more), (2 * memories + 2, false));
    let taken = sink.notes.taken();
    assert_eq!(taken[2 * memories..], told(&[(UpsertContext, "slow"), (UpsertRelation, "slow")]));
    for memory in 0..memories {
        let of_memory: Vec<_> = taken.iter().filter(|(_, slug)| *slug == memory.to_string()).collect();
        assert_eq!(of_memory.iter().map(|one| one.0).collect::<Vec<_>>(), [UpsertContext, UpsertRelation]);
    }
    assert!(home.left().await.is_empty());
}

#[tokio::test]
async fn failed_events_leave_room_for_others() {
    let home = home();
    for memory in 0..AT_ONCE {
        home.put(&format!("bad-{memory}"), "text", 1, &[]).await;
    }
    let bad = Notes::default();
    bad.fail(Some(SinkError::new("no")));
    home.worker().run_once(&*home.fs, Some(&bad)).await.unwrap();
    home.clock.advance(Duration::from_secs(2));
    home.put("good", "text", 1, &[]).await;
    let room = Room { all: AT_ONCE, again: AGAIN };
    let (_, claimed) = home.worker().claim(&*home.fs, room).await.unwrap();
    let failed = claimed.iter().filter(|event| event.failed_before()).count();
    assert_eq!((claimed.len(), failed), (AGAIN + 1, AGAIN));
}
