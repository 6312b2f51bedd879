//! Checks of the sink, the log and the tree after all deliveries.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::TryStreamExt as _;
use garth_agent::memory::{Event, EventStatus, EventType, Meta, Status, edge};
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{ChangeKind, ChangesQuery, Ino, LogPosition, Timestamp, VersionId};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt};
use garth_testkit::proof::{Broken, Proven, Report, hold};

use super::bad_sink::Journal;

/// Position of an event in the order: commit, rank of its type, id.
type Place = (u64, u8, String);

/// Returns the memories that an event is about.
fn about(event: &Event) -> Vec<String> {
    std::iter::once(event.uri.clone()).chain(event.payload.new_uri.clone()).collect()
}

fn place(event: &Event, made: u64) -> Place {
    let rank = match event.event_type {
        // A memory may be moved or deleted and created again in one commit.
        EventType::MoveContext | EventType::DeleteContext => 0,
        EventType::UpsertContext => 1,
        EventType::UpsertRelation => 2,
    };
    (made, rank, event.event_id.clone())
}

/// An event as recorded in the log.
struct Made {
    event: Event,
    /// Commit that created it.
    seq: u64,
    /// Start and latest end of each lease.
    leases: Vec<(Timestamp, Timestamp)>,
}

impl Made {
    /// Ends its last lease.
    fn end(&mut self, time: Timestamp) {
        if let Some((_, until)) = self.leases.last_mut() {
            // A lease may also have ended by itself before.
            *until = time.min(*until);
        }
    }
}

/// Runs all checks.
pub(super) async fn all(fs: &SqliteFs, journal: &Journal, report: &mut Report) -> Proven<()> {
    if let Some(wrong) = journal.wrong.first() {
        return Err(Broken::because(format!("the sink got what is no event: {wrong}")));
    }
    let made = made(fs).await?;
    report.set("events", made.len());
    report.set("leases", made.values().map(|made| made.leases.len()).sum::<usize>());
    report.set("requests", journal.requests);
    held_once(&made)?;
    let told = in_order(journal, &made)?;
    report.set("events delivered in order", told.len());
    report.set("requests repeated", journal.told.len() - told.len());
    report.set("events superseded", stood_for(journal, &made, &told)?);
    report.set("memories with their versions", same_index(fs, journal).await?);
    Ok(())
}

/// Returns every event of the log.
async fn made(fs: &SqliteFs) -> Proven<BTreeMap<String, Made>> {
    let (mut by_ino, mut since): (HashMap<Ino, Made>, LogPosition) = (HashMap::new(), LogPosition::default());
    loop {
        let page = fs.changes(&ChangesQuery::since(since)).await?;
        for commit in &page.commits {
            for change in &commit.changes {
                let is_event = change.path().is_some_and(|path| {
                    path.as_str().contains("/.outbox/") && path.as_str().ends_with(".json")
                });
                let time = commit.commit.time;
                if !is_event || !matches!(change.kind, ChangeKind::Created | ChangeKind::Modified) {
                    // A rename of a directory above does not end a lease.
                    if !matches!(change.kind, ChangeKind::Renamed { .. }) {
                        by_ino.entry(change.ino).and_modify(|made| made.end(time));
                    }
                    continue;
                }
                let version = VersionId { seq: commit.commit.seq, ino: change.ino };
                let bytes = fs.open_version(version).await?.read_at(0, 1 << 20).await?;
                let event = Event::parse(&bytes)?;
                let lease = event.lease_until.as_deref().filter(|_| event.status == EventStatus::Processing);
                let lease = lease.map(Timestamp::parse_rfc3339).transpose()?;
                let made = by_ino.entry(change.ino).or_insert_with(|| Made {
                    event,
                    seq: commit.commit.seq.0,
                    leases: Vec::new(),
                });
                // A claim of another worker does not end a lease: it may have come too early.
                match lease {
                    Some(until) => made.leases.push((time, until)),
                    None => made.end(time),
                }
            }
        }
        since = page.until;
        if page.until.seq >= page.head {
            break;
        }
    }
    Ok(by_ino.into_values().map(|made| (made.event.event_id.clone(), made)).collect())
}

/// Checks that no two events of a memory were leased at the same time.
fn held_once(made: &BTreeMap<String, Made>) -> Proven<()> {
    let mut by_memory: BTreeMap<String, Vec<(Timestamp, Timestamp, &str)>> = BTreeMap::new();
    for (id, made) in made {
        for uri in about(&made.event) {
            let leases = made.leases.iter().map(|(from, until)| (*from, *until, &**id));
            by_memory.entry(uri).or_default().extend(leases);
        }
    }
    for (uri, mut leases) in by_memory {
        // By start, so that only neighbours need to be compared.
        leases.sort();
        for pair in leases.windows(2) {
            let ((_, until, first), (from, _, second)) = (pair[0], pair[1]);
            hold(until <= from, || {
                format!("{uri}: {first} was held until {} and {second} from {} on", until.0, from.0)
            })?;
        }
    }
    Ok(())
}

/// Checks that the events of each memory were delivered in order. Returns the ids of all delivered events.
fn in_order(journal: &Journal, made: &BTreeMap<String, Made>) -> Proven<BTreeSet<String>> {
    let (mut last, mut told): (BTreeMap<String, Place>, BTreeSet<String>) = Default::default();
    for one in &journal.told {
        let id = &one.event.event_id;
        let of = made.get(id).ok_or_else(|| Broken::because(format!("nobody made the event {id}")))?;
        let place = place(&one.event, of.seq);
        for uri in about(&one.event) {
            if let Some(before) = last.insert(uri.clone(), place.clone()) {
                // Equal places are repeated deliveries of one event.
                hold(before <= place, || {
                    format!("{uri}: {} of commit {} came after that of {}", place.2, place.0, before.0)
                })?;
            }
        }
        told.insert(id.clone());
    }
    Ok(told)
}

/// Checks that each event that was not delivered was superseded by a delivered one. Returns their number.
fn stood_for(journal: &Journal, made: &BTreeMap<String, Made>, told: &BTreeSet<String>) -> Proven<usize> {
    let mut newest: BTreeMap<String, u64> = BTreeMap::new();
    for one in &journal.told {
        let seq = made.get(&one.event.event_id).map_or(0, |made| made.seq);
        for uri in about(&one.event) {
            newest.entry(uri).and_modify(|newest| *newest = seq.max(*newest)).or_insert(seq);
        }
    }
    let untold = made.iter().filter(|(id, _)| !told.contains(*id));
    let mut count = 0;
    for (id, made) in untold {
        // Only upserts are superseded: a later one has the state of the memory, too.
        let is_upsert = matches!(made.event.event_type, EventType::UpsertContext | EventType::UpsertRelation);
        let is_later = newest.get(&made.event.uri).is_some_and(|newest| *newest >= made.seq);
        hold(is_upsert && is_later, || {
            format!(
                "{:?} {id} of {} was lost: the sink never heard of it",
                made.event.event_type, made.event.uri
            )
        })?;
        count += 1;
    }
    Ok(count)
}

/// An index: texts and edges by URI.
type Index = BTreeMap<String, (Option<String>, Vec<String>)>;

/// Checks that the index of the sink equals the tree, that each memory has its version in `.done`, and that
/// no outbox has an event left. Returns the number of memories.
async fn same_index(fs: &SqliteFs, journal: &Journal) -> Proven<usize> {
    let mut index = Index::new();
    for one in &journal.told {
        let event = &one.event;
        match event.event_type {
            EventType::UpsertContext => {
                let content = event.payload.records.as_ref().and_then(|records| records.last()?.text.clone());
                index.entry(event.uri.clone()).or_default().0 = content;
            }
            EventType::UpsertRelation => {
                let edges = event.payload.edges.iter().flatten().map(|edge| edge.to_uri.clone());
                index.entry(event.uri.clone()).or_default().1 = edges.collect();
            }
            EventType::DeleteContext => drop(index.remove(&event.uri)),
            EventType::MoveContext => {
                let moved = index.remove(&event.uri);
                if let (Some(moved), Some(new)) = (moved, &event.payload.new_uri) {
                    index.insert(new.clone(), moved);
                }
            }
        }
    }
    // An upsert of no edges may leave an empty entry.
    index.retain(|_, (text, edges)| text.is_some() || !edges.is_empty());
    let mut walk = fs.walk_all("/");
    let (mut there, mut memories) = (Index::new(), 0);
    while let Some(item) = walk.try_next().await? {
        let path = item.path.as_str();
        if path.contains("/.outbox/") {
            hold(!path.ends_with(".json"), || format!("{path} is left"))?;
        }
        let Some(dir) = path.strip_suffix("/.meta.json") else { continue };
        let meta = Meta::parse(&fs.read_file(path).await?)?;
        if meta.status != Status::Active {
            continue;
        }
        memories += 1;
        let done = match fs.read_to_string(format!("{dir}/.outbox/.done")).await {
            Err(error) if error.is(ErrorKind::NotFound) => String::new(),
            done => done?,
        };
        hold(done == format!("{}\n", meta.version), || {
            format!("{dir} has version {} and `.done` says `{}`", meta.version, done.trim())
        })?;
        let text = fs.read_to_string(format!("{dir}/content.md")).await?;
        let edges = edge::parse(&fs.read_file(format!("{dir}/.relations.json")).await?)?;
        there.insert(meta.uri, (Some(text), edges.into_iter().map(|edge| edge.to_uri).collect()));
    }
    let differs = there.iter().find(|(uri, memory)| index.get(*uri) != Some(memory));
    if let Some((uri, _)) = differs {
        return Err(Broken::because(format!(
            "the sink has another text or other edges of {uri}: something was lost"
        )));
    }
    let extra = index.keys().find(|uri| !there.contains_key(*uri));
    hold(extra.is_none(), || format!("the sink still has {extra:?}, which is gone: something was lost"))?;
    Ok(memories)
}
