//! Which events of a node go first, and which are not needed any more: pure.

use super::queued::Queued;
use crate::node::EventType;
use garth_engine::model::Timestamp;

/// What becomes of an event that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the first of its node.
    Claim,
    /// A newer one stands for it.
    Superseded,
    /// Another of its node comes first.
    Wait,
}

/// Judges an event that is due by all events that share a URI with it, itself among them or not.
pub(super) fn verdict(event: &Queued, all: &[&Queued], now: Timestamp) -> Verdict {
    if is_superseded(event, all) {
        return Verdict::Superseded;
    }
    let place = event.place();
    let mut before = all.iter().filter(|other| !other.is_dead && other.place() < place);
    if before.any(|other| other.is_held(now) || !is_superseded(other, all)) {
        return Verdict::Wait;
    }
    Verdict::Claim
}

/// Whether a newer event says the same anew: of the same type, URI and directory, with neither a move nor a
/// deletion between them. What was given up stands for nothing, and is stood for alike.
pub(super) fn is_superseded(event: &Queued, all: &[&Queued]) -> bool {
    if !event.is_upsert() {
        return false;
    }
    let place = event.place();
    let shares = |other: &Queued| other.uris.contains(&event.event.uri);
    let later = || all.iter().filter(|other| !other.is_dead && other.place() > place && shares(other));
    let barrier = later().filter(|other| !other.is_upsert()).map(|other| other.place()).min();
    later().any(|other| {
        stands_for(other, event) && barrier.as_ref().is_none_or(|barrier| other.place() < *barrier)
    })
}

/// Whether one is of the kind that the other is.
fn stands_for(newer: &Queued, older: &Queued) -> bool {
    newer.event.event_type == older.event.event_type
        && newer.event.uri == older.event.uri
        && newer.dir == older.dir
        && newer.is_upsert()
}

/// Whether its effect reaches edges of other nodes.
pub(super) fn ends_edges(event: &Queued) -> bool {
    matches!(event.event.event_type, EventType::MoveContext | EventType::DeleteContext)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::event::Payload;
    use crate::node::{Event, EventStatus};
    use garth_engine::env::Env;
    use garth_engine::model::{Ino, Seq, VersionId};
    use garth_engine::path::TreePath;

    const A: &str = "ctx://a/users/u/memories/events/a";
    const B: &str = "ctx://a/users/u/memories/events/b";
    const NOW: Timestamp = Timestamp(1_000_000_000_000);

    /// An event made by commit `seq`: `C` or `R` upserts, `D` deletes, `M` moves to B.
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

    /// The verdicts on all events, in their order.
    fn verdicts(events: &[Queued]) -> Vec<Verdict> {
        let all: Vec<&Queued> = events.iter().collect();
        events.iter().map(|event| verdict(event, &all, NOW)).collect()
    }

    use Verdict::{Claim, Superseded, Wait};

    #[test]
    fn the_first_event_of_a_node_goes_and_the_others_wait() {
        let events = [event(1, 'C', A), event(2, 'R', A), event(3, 'D', A), event(4, 'C', A)];
        assert_eq!(verdicts(&events), [Claim, Wait, Wait, Wait]);
        assert_eq!(verdicts(&events[1..]), [Claim, Wait, Wait]);
    }

    #[test]
    fn a_newer_upsert_stands_for_older_ones_unless_a_move_or_delete_is_between() {
        let events = [event(1, 'C', A), event(2, 'C', A), event(3, 'R', A), event(4, 'C', A)];
        assert_eq!(verdicts(&events), [Superseded, Superseded, Claim, Wait]);
        assert_eq!(verdicts(&[failed(event(1, 'C', A)), event(2, 'C', A)]), [Superseded, Claim]);
        assert_eq!(
            verdicts(&[event(1, 'C', A), event(2, 'M', A), event(3, 'C', A)]),
            [Claim, Wait, Wait],
            "the index has to have what is moved"
        );
        let elsewhere = Queued { dir: TreePath::root(), ..event(2, 'C', A) };
        assert_eq!(verdicts(&[event(1, 'C', A), elsewhere]), [Claim, Wait], "another node of that URI");
    }

    #[test]
    fn an_event_waits_for_one_that_is_held_or_failed_even_if_it_is_superseded() {
        assert_eq!(verdicts(&[held(event(1, 'C', A)), event(2, 'C', A)])[1], Wait);
        assert_eq!(verdicts(&[failed(event(1, 'D', A)), event(2, 'C', A)])[1], Wait);
        assert_eq!(verdicts(&[failed(event(1, 'R', A)), event(2, 'C', A)])[1], Wait);
        assert_eq!(verdicts(&[failed(event(1, 'M', A)), event(2, 'C', B)])[1], Wait, "the move made B");
    }

    #[test]
    fn what_was_given_up_holds_up_nobody_and_stands_for_nothing() {
        assert_eq!(verdicts(&[dead(event(1, 'M', A)), event(2, 'C', A)])[1], Claim);
        assert_eq!(verdicts(&[event(1, 'C', A), dead(event(2, 'C', A))])[0], Claim);
        assert_eq!(verdicts(&[dead(event(1, 'C', A)), event(2, 'C', A)]), [Superseded, Claim]);
    }

    #[test]
    fn events_of_one_commit_go_by_their_ids() {
        let mut events = [event(1, 'C', A), event(1, 'R', A)];
        events.sort_by_key(Queued::place);
        assert_eq!(verdicts(&events), [Claim, Wait]);
    }
}
