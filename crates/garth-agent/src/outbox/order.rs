//! Delivery order of the outbox: which event of a memory comes next, and which events a newer one replaces.
//!
//! A sink gets the events of a memory in the order of commits. An upsert carries the complete state of the
//! memory, or all of its edges, so of several in a row only the newest is delivered. Events belong to one
//! memory if they share a URI; a move has two, and so orders the events under both. Everything here is pure:
//! `claim` reads the events, and the tests below cover the cases.

use super::queued::Queued;
use crate::memory::EventType;
use garth_engine::model::Timestamp;

/// Decision on an event that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Deliver it: no unfinished event of its memory comes before it.
    Claim,
    /// Delete it: a newer event delivers the same state or a later one.
    Superseded,
    /// Leave it: an earlier event of its memory is not finished.
    Wait,
}

/// Decides on a due event. `all` are the events that share a URI with it, dead ones included; it may be one
/// of them.
pub(super) fn verdict(event: &Queued, all: &[&Queued], now: Timestamp) -> Verdict {
    if is_superseded(event, all) {
        return Verdict::Superseded;
    }
    let place = event.place();
    // An earlier event blocks, due or not: one that failed and waits for its next attempt must not be
    // overtaken by its successors. A dead one waits for an operator; if it blocked, one event that the sink
    // cannot take would stop its memory for good.
    let mut before = all.iter().filter(|other| !other.is_dead && other.place() < place);
    // A superseded event does not block, because the claim deletes it in its own commit (`claim::choose`). It
    // does block while a worker holds it: the sink may be receiving it right now, and could apply its older
    // state last.
    if before.any(|other| other.is_held(now) || !is_superseded(other, all)) {
        return Verdict::Wait;
    }
    Verdict::Claim
}

/// Returns true if a newer upsert of the same type, URI and directory makes the event unnecessary. An upsert
/// after a move or a deletion does not. A dead event replaces nothing, because it may never be delivered, but
/// it can be replaced.
pub(super) fn is_superseded(event: &Queued, all: &[&Queued]) -> bool {
    if !event.is_upsert() {
        return false;
    }
    let place = event.place();
    let shares = |other: &Queued| other.uris.contains(&event.event.uri);
    let later = || all.iter().filter(|other| !other.is_dead && other.place() > place && shares(other));
    // A move is a barrier: the sink has to have a memory before it can move it, and a newer upsert comes
    // after the move. So is a deletion: later events under the URI are those of another memory.
    let barrier = later().filter(|other| !other.is_upsert()).map(|other| other.place()).min();
    later().any(|other| {
        stands_for(other, event) && barrier.as_ref().is_none_or(|barrier| other.place() < *barrier)
    })
}

/// Returns true if `newer` delivers the same state as `older`, or a later one.
fn stands_for(newer: &Queued, older: &Queued) -> bool {
    newer.event.event_type == older.event.event_type
        && newer.event.uri == older.event.uri
        // Two directories with one URI are two memories: one was moved or removed, and the other created
        // later.
        && newer.dir == older.dir
        && newer.is_upsert()
}

/// Returns true if edges of other memories have to be rewritten before the event is delivered.
pub(super) fn ends_edges(event: &Queued) -> bool {
    matches!(event.event.event_type, EventType::MoveContext | EventType::DeleteContext)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::event::Payload;
    use crate::memory::{Event, EventStatus};
    use garth_engine::env::Env;
    use garth_engine::model::{Ino, Seq, VersionId};
    use garth_engine::path::TreePath;

    const A: &str = "ctx://a/users/u/memories/events/a";
    const B: &str = "ctx://a/users/u/memories/events/b";
    const NOW: Timestamp = Timestamp(1_000_000_000_000);

    /// Returns an event of commit `seq`: `C` upserts the memory, `R` its edges, `D` deletes it, `M` moves it
    /// to B.
    fn event(seq: u64, what: char, uri: &str) -> Queued {
        let (env, _) = Env::manual(NOW);
        let event_type = match what {
            'C' => EventType::UpsertContext,
            'R' => EventType::UpsertRelation,
            'D' => EventType::DeleteContext,
            _ => EventType::MoveContext,
        };
        let new_uri = (what == 'M').then(|| B.to_owned());
        let payload = Payload { new_uri: new_uri.clone(), ..Payload::default() };
        let version = VersionId { seq: Seq(seq), ino: Ino(seq) };
        Queued {
            path: TreePath::root(),
            dir: TreePath::parse("/users/u").unwrap(),
            ino: Ino(seq),
            etag: version,
            size: 1,
            is_dead: false,
            uris: std::iter::once(uri.to_owned()).chain(new_uri).collect(),
            event: Event::new(&env, event_type, uri, payload).unwrap(),
        }
    }

    fn failed(event: Queued) -> Queued {
        let mut event = event;
        event.event.next_attempt_at = Some(NOW.plus_seconds(60).to_rfc3339());
        event
    }

    fn held(event: Queued) -> Queued {
        let mut event = event;
        event.event.status = EventStatus::Processing;
        event.event.lease_until = Some(NOW.plus_seconds(60).to_rfc3339());
        event
    }

    fn dead(event: Queued) -> Queued {
        Queued { is_dead: true, ..event }
    }

    /// Returns the verdict on each event.
    fn verdicts(events: &[Queued]) -> Vec<Verdict> {
        let all: Vec<&Queued> = events.iter().collect();
        events.iter().map(|event| verdict(event, &all, NOW)).collect()
    }

    use Verdict::{Claim, Superseded, Wait};

    #[test]
    fn first_event_blocks_later_ones_of_its_memory() {
        let events = [event(1, 'C', A), event(2, 'R', A), event(3, 'D', A), event(4, 'C', A)];
        assert_eq!(verdicts(&events), [Claim, Wait, Wait, Wait]);
        assert_eq!(verdicts(&events[1..]), [Claim, Wait, Wait]);
    }

    #[test]
    fn newer_upsert_supersedes_older_ones_until_a_barrier() {
        let events = [event(1, 'C', A), event(2, 'C', A), event(3, 'R', A), event(4, 'C', A)];
        assert_eq!(verdicts(&events), [Superseded, Superseded, Claim, Wait]);
        assert_eq!(verdicts(&[failed(event(1, 'C', A)), event(2, 'C', A)]), [Superseded, Claim]);
        assert_eq!(
            verdicts(&[event(1, 'C', A), event(2, 'M', A), event(3, 'C', A)]),
            [Claim, Wait, Wait],
            "the index has to have what is moved"
        );
        let elsewhere = Queued { dir: TreePath::root(), ..event(2, 'C', A) };
        assert_eq!(verdicts(&[event(1, 'C', A), elsewhere]), [Claim, Wait], "another memory of that URI");
    }

    #[test]
    fn event_waits_for_claimed_and_failed_ones() {
        assert_eq!(verdicts(&[held(event(1, 'C', A)), event(2, 'C', A)])[1], Wait);
        assert_eq!(verdicts(&[failed(event(1, 'D', A)), event(2, 'C', A)])[1], Wait);
        assert_eq!(verdicts(&[failed(event(1, 'R', A)), event(2, 'C', A)])[1], Wait);
        assert_eq!(verdicts(&[failed(event(1, 'M', A)), event(2, 'C', B)])[1], Wait, "the move made B");
    }

    #[test]
    fn dead_event_neither_blocks_nor_supersedes() {
        assert_eq!(verdicts(&[dead(event(1, 'M', A)), event(2, 'C', A)])[1], Claim);
        assert_eq!(verdicts(&[event(1, 'C', A), dead(event(2, 'C', A))])[0], Claim);
        assert_eq!(verdicts(&[dead(event(1, 'C', A)), event(2, 'C', A)]), [Superseded, Claim]);
    }

    #[test]
    fn events_of_one_commit_are_ordered_by_id() {
        let mut events = [event(1, 'C', A), event(1, 'R', A)];
        events.sort_by_key(Queued::place);
        assert_eq!(verdicts(&events), [Claim, Wait]);
    }
}
