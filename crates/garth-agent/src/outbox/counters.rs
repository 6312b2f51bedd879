//! Counts the events that wait and those that failed.

use super::queued::lies;
use crate::boxed;
use crate::registry::projections;
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{FindCursor, FindQuery, Timestamp};
use garth_engine::path::TreePath;

/// Limit up to which events are counted.
pub const MAX_COUNTED: usize = 10_000;

/// Number of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number counted.
    pub events: usize,
    /// True if more may exist than were counted.
    pub more: bool,
}

/// State of an account's outboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Unfinished events, claimed ones included.
    pub waiting: Count,
    /// Creation time of the oldest of these, from its id; for an event with another kind of id its due time.
    pub oldest: Option<Timestamp>,
    /// Events in `dlq`.
    pub failed: Count,
}

/// Counts the events of an account, up to [`MAX_COUNTED`] of each kind.
///
/// # Errors
/// `Unsupported` if the tree cannot find by key; from the storage.
#[boxed]
pub async fn counters(fs: &dyn FileSystem) -> Result<Counters> {
    let mut counters = Counters::default();
    for (from, to) in [("failed\0", "failed\u{1}"), ("waiting\0", "waiting\u{1}")] {
        let (mut after, mut counted): (Option<FindCursor>, usize) = (None, 0);
        loop {
            let query = FindQuery::new(projections::EVENT_DUE).from(from).to(to);
            let answer = fs.find(&query.after(after)).await?;
            for item in &answer.items {
                // The key of an unreadable file is `waiting`, due at once, even in `dlq`. Only its path shows
                // that it failed.
                let is_dead = from.starts_with('f') || lies(&item.path).is_some_and(|(_, is_dead)| is_dead);
                let count = if is_dead { &mut counters.failed } else { &mut counters.waiting };
                count.events += 1;
                if !is_dead {
                    let made = made(&item.path, &item.key);
                    counters.oldest = Some(counters.oldest.map_or(made, |oldest| oldest.min(made)));
                }
            }
            counted += answer.items.len();
            after = answer.next;
            if after.is_none() || counted >= MAX_COUNTED {
                break;
            }
        }
        let count = if from.starts_with('f') { &mut counters.failed } else { &mut counters.waiting };
        count.more = after.is_some();
    }
    Ok(counters)
}

/// Returns the creation time of an event: an id of version 7 begins with its milliseconds.
fn made(path: &TreePath, key: &str) -> Timestamp {
    let id: String = path.name().unwrap_or_default().chars().filter(|c| *c != '-').collect();
    let of_id = id.get(12..13).filter(|version| *version == "7").and_then(|_| id.get(..12));
    let of_key = || key.split('\0').nth(1)?.parse().ok();
    let millis = of_id.and_then(|hex| i64::from_str_radix(hex, 16).ok()).or_else(of_key);
    Timestamp(millis.unwrap_or(0).saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::event::Payload;
    use crate::memory::{Event, EventType};
    use garth_engine::env::Env;

    #[test]
    fn event_id_contains_the_creation_time() {
        let time = Timestamp::parse_rfc3339("2026-01-27T09:30:00.123Z").unwrap();
        let (env, _) = Env::manual(time);
        let event = Event::new(&env, EventType::DeleteContext, "ctx://a", Payload::default()).unwrap();
        let path = |id: &str| TreePath::parse(&format!("/.outbox/{id}.json")).unwrap();
        assert_eq!(made(&path(&event.event_id), "waiting\u{0}000000000000001"), time);
        let other = path("550e8400-e29b-41d4-a716-446655440000");
        assert_eq!(made(&other, "waiting\u{0}000000000001500"), Timestamp(1_500_000_000));
        assert_eq!(made(&path("ü"), "x"), Timestamp(0));
    }
}
