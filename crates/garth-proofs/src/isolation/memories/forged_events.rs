//! Events that an agent writes into the directories of its own memories in the name of others, and the sink
//! that must not receive them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use garth_agent::memory::event::{Payload, Record, TextRef};
use garth_agent::memory::write_ops::{upsert, upsert_relation};
use garth_agent::memory::{Event, EventType, Meta, Uri};
use garth_agent::outbox::{Options, Sink, SinkError, Worker};
use garth_engine::model::{Op, Seq};
use garth_engine::{AccountStore, Env, FileSystem, FileSystemExt};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{Proven, hold};

use super::hidden_memories::{CANARY, OWN, edge};

/// Text in every forged event.
const FORGED: &str = "forged-by-alice";
/// Owners of the memories of the attempts.
const OWNERS: [&str; 2] = ["ctx://own/users/alice/", "ctx://own/agents/bot/"];

/// Writes an event next to `uri` that is about `other`, or contains something of it.
pub(super) async fn write(
    fs: &dyn FileSystem,
    random: &mut Random,
    uri: &Uri,
    other: &Uri,
) -> garth_engine::Result<Seq> {
    let event = event(random, uri, other)?;
    let at = uri.file(&format!(".outbox/{}.json", event.event_id));
    let written = fs.apply(Op::write(at, event.to_json()?).with_parents()).await?;
    Ok(written.0.seq)
}

fn event(random: &mut Random, uri: &Uri, other: &Uri) -> garth_engine::Result<Event> {
    let env = Env::system();
    let new = |kind, about: &Uri, payload| Event::new(&env, kind, &about.to_string(), payload);
    let meta = |of: &Uri| Meta::new(of, env.now());
    let moved = |to: &Uri| Payload { new_uri: Some(to.to_string()), ..Payload::default() };
    match random.below(7) {
        0 => upsert(&env, other, &meta(other), [FORGED; 3]),
        1 => {
            // An own event, with a record of the other memory.
            let mut event = upsert(&env, uri, &meta(uri), [FORGED; 3])?;
            let of_other = upsert(&env, other, &meta(other), [FORGED; 3])?;
            event.payload.records = of_other.payload.records;
            Ok(event)
        }
        2 => {
            // An own event, with the text of the other memory.
            let mut event = upsert(&env, uri, &meta(uri), [FORGED; 3])?;
            let text = format!("The garden of Alice is a {CANARY}.");
            let path = other.file("content.md").to_string();
            let sha256 = garth_agent::memory::sha256(text.as_bytes());
            for record in event.payload.records.iter_mut().flatten() {
                let text_ref = TextRef { path: path.clone(), version: 1, sha256: sha256.clone() };
                *record = Record { text: None, text_ref: Some(text_ref), ..record.clone() };
            }
            Ok(event)
        }
        3 => new(EventType::DeleteContext, other, Payload::default()),
        4 => new(EventType::MoveContext, other, moved(uri)),
        5 => new(EventType::MoveContext, uri, moved(other)),
        _ => upsert_relation(&env, uri, &[edge(other, uri, FORGED), edge(uri, other, FORGED)]),
    }
    .map(|mut event| {
        event.other.insert("by".to_owned(), FORGED.into());
        event
    })
}

/// Sink that checks the delivered events.
#[derive(Debug, Default)]
pub(super) struct Told {
    wrong: Mutex<Vec<String>>,
    count: Mutex<usize>,
}

impl Told {
    /// Returns the number of events delivered.
    pub(super) fn count(&self) -> usize {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers all waiting events; without a seed, discards them.
    pub(super) async fn drain(&self, own: &dyn AccountStore, seed: Option<u64>) -> Proven<()> {
        let mut worker = Worker::new(Env::system(), OWN, Options::default());
        let sink: Option<&dyn Sink> = seed.is_some().then_some(self);
        worker.run_out(own, sink).await?;
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        hold(wrong.is_empty(), || format!("before seed {}: told: {}", seed.unwrap_or_default(), wrong[0]))
    }
}

#[async_trait]
impl Sink for Told {
    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn deliver(&self, event: &Event) -> Result<(), SinkError> {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let uris = std::iter::once(&event.uri).chain(&event.payload.new_uri);
        let records = event.payload.records.iter().flatten().map(|record| &record.uri);
        let edges = event.payload.edges.iter().flatten().map(|edge| &edge.from_uri);
        let is_own = |uri: &String| OWNERS.iter().any(|owner| uri.starts_with(owner));
        let about = uris.chain(records).chain(edges);
        let (own, others): (Vec<&String>, Vec<&String>) = about.partition(|uri| is_own(uri));
        let text = event.to_json().unwrap_or_else(|error| error.to_string());
        // An own event must not contain anything of others, and one about others must not be forged.
        let is_wrong = match (own.is_empty(), others.is_empty()) {
            (_, true) => text.contains(CANARY),
            (true, false) => text.contains(FORGED),
            (false, false) => true,
        };
        if is_wrong {
            self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
        Ok(())
    }
}
