//! Interrupted changes of memories. On a host folder a batch is applied operation by operation: after an
//! interruption behind any of them, repair restores a consistent state. On SQLite a kill leaves nothing to
//! repair.

pub mod damaged;
pub mod other_readers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use garth_agent::memory::{
    Edge, Event, EventType, FindingReport, LayerText, Level, Memories, Meta, Origin, Put, Repair,
    Report as Repaired, Uri, sha256,
};
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::WalkPage;
use garth_engine::{Env, FileSystem, FileSystemExt, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::fs::cut_short::CutShort;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, Worker, hold, run, say};

use crate::worker_binary::agent_worker;

const ACCOUNT: &str = "default";

/// Limit on the operations of one change.
const MOST_OPS: usize = 40;

/// A change of memories that is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Make,
    MakeSkill,
    Update,
    UpdateGiven,
    Tag,
    Move,
    Delete,
}

const CHANGES: [Change; 7] = [
    Change::Make,
    Change::MakeSkill,
    Change::Update,
    Change::UpdateGiven,
    Change::Tag,
    Change::Move,
    Change::Delete,
];

fn uri(below: &str) -> Proven<Uri> {
    Ok(format!("ctx://{ACCOUNT}/{below}").parse()?)
}

fn coffee() -> Proven<Uri> {
    uri("users/alice/memories/preferences/coffee")
}

fn tea() -> Proven<Uri> {
    uri("users/alice/memories/preferences/tea")
}

fn moved() -> Proven<Uri> {
    uri("users/bob/memories/events/coffee")
}

fn edge(from: &Uri, to: &Uri) -> Edge {
    Edge {
        from_uri: from.to_string(),
        to_uri: to.to_string(),
        relation_type: "related_to".to_owned(),
        weight: 0.5,
        reason: String::new(),
        other: serde_json::Map::default(),
    }
}

fn memories(fs: &dyn FileSystem) -> Memories<'_> {
    Memories::new(fs, ACCOUNT)
}

/// Repairs everything, and checks that a second run has nothing to do.
async fn repaired(fs: &dyn FileSystem) -> Proven<Repaired> {
    let report = Repair::new(memories(fs)).at_once(true).scan(|_| ()).await?;
    hold(report.failed == 0, || format!("not repaired: {:?}", report.failures))?;
    let before = files(fs).await?;
    let mut more = Vec::new();
    let tell = |told: &FindingReport<'_>| more.push(format!("{} {}", told.finding.as_str(), told.memory));
    let again = Repair::new(memories(fs)).at_once(true).scan(tell).await?;
    let after = files(fs).await?;
    let changed = before.iter().filter(|(path, bytes)| after.get(*path) != Some(bytes)).map(|(path, _)| path);
    let changed: Vec<_> = changed.chain(after.keys().filter(|path| !before.contains_key(*path))).collect();
    // Broken memories stay broken, so their number is compared instead of being 0.
    let same = more.is_empty() && again.broken == report.broken && changed.is_empty();
    hold(same, || {
        let (first, then) = (report.broken, again.broken);
        format!("a second run finds {more:?}, changes {changed:?}; {first} were broken, then {then}")
    })?;
    Ok(report)
}

/// Returns all files with their contents.
async fn files(fs: &dyn FileSystem) -> Proven<BTreeMap<TreePath, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut page = WalkPage::default().limit(10_000);
    loop {
        let walk = fs.walk(&(&TreePath::root()).into(), &page).await?;
        for item in &walk.items {
            if let Ok(bytes) = fs.read_file(&item.path).await {
                files.insert(item.path.clone(), bytes.to_vec());
            }
        }
        match walk.items.into_iter().next_back().filter(|_| walk.more) {
            Some(last) => page = page.after(last.path),
            None => return Ok(files),
        }
    }
}

async fn events(fs: &dyn FileSystem) -> Proven<Vec<Event>> {
    let all = files(fs).await?.into_iter();
    let of_outbox = all.filter(|(path, _)| path.as_str().contains("/.outbox/"));
    Ok(of_outbox.filter_map(|(_, bytes)| Event::parse(&bytes).ok()).collect())
}

/// Removes all events, as if they were delivered.
async fn drain(fs: &dyn FileSystem, of: &[Uri]) -> Proven<()> {
    for path in files(fs).await?.into_keys().filter(|path| path.as_str().contains("/.outbox/")) {
        fs.remove(&path).await?;
    }
    for uri in of {
        let meta = Meta::parse(&fs.read_file(uri.file(".meta.json")).await?)?;
        fs.write(uri.file(".outbox/.done"), format!("{}\n", meta.version)).await?;
    }
    Ok(())
}

/// Memories on a host folder, with changes interrupted after each operation. It has no size.
#[derive(Clone, Copy, Debug)]
pub struct Cuts;

impl Proof for Cuts {
    fn about(&self) -> About {
        About {
            name: "memory-cuts",
            claim: "Memories whose change is interrupted after any operation are repaired.",
            full: 1,
            ci: 1,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        cuts(setting.folder)
    }
}

/// Kills of a process that changes memories on SQLite. The size is the number of kills.
#[derive(Clone, Copy, Debug)]
pub struct Kills;

impl Proof for Kills {
    fn about(&self) -> About {
        About { name: "memory-kills", claim: "A kill leaves nothing of memories to repair.", full: 50, ci: 5 }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        kills(setting.folder, &agent_worker(setting), setting.size, setting.seed)
    }
}

/// Interrupts each change after each of its operations, and repairs the result.
///
/// # Errors
/// Damage that was not repaired.
fn cuts(folder: &Path) -> Proven<Report> {
    let mut report = Report::of(["cuts"]);
    for change in CHANGES {
        for with_parents in [false, true] {
            for ops in 0..MOST_OPS {
                let told = |why: Broken| Broken::because(format!("{change:?} cut behind {ops}: {why}"));
                let name = format!("{change:?}-{ops}-{with_parents}");
                let own = folder.join(name);
                std::fs::create_dir(&own)?;
                let is_cut = run(cut(&own, change, ops, with_parents, &mut report)).map_err(told)?;
                std::fs::remove_dir_all(&own)?;
                // The change has fewer operations than that, so later interruptions would not happen either.
                if !is_cut {
                    break;
                }
            }
        }
    }
    Ok(report)
}

/// Interrupts a change after `ops` operations, repairs, and checks the result. Returns true if the change was
/// interrupted.
async fn cut(
    folder: &Path,
    change: Change,
    ops: usize,
    with_parents: bool,
    report: &mut Report,
) -> Proven<bool> {
    let fs: Arc<dyn FileSystem> = HostFs::open(folder, Mode::Writable, Env::system())?;
    let is_there = !matches!(change, Change::Make | Change::MakeSkill);
    let mut there = vec![tea()?];
    memories(&*fs).put(&tea()?, &Put::new("Green.")).await?;
    if is_there {
        let mut put = Put::new("# Coffee\n\nBlack.\n");
        put.brief = LayerText::Given("Her coffee".to_owned());
        memories(&*fs).put(&coffee()?, &put).await?;
        memories(&*fs).relate(&edge(&tea()?, &coffee()?)).await?;
        memories(&*fs).relate(&edge(&coffee()?, &tea()?)).await?;
        there.push(coffee()?);
    }
    drain(&*fs, &there).await?;
    // Times of a folder show the order of changes, so they must differ.
    Env::system().sleep(Duration::from_millis(20));
    let short = CutShort::new(&fs, ops, with_parents);
    let done = changed(&memories(&short), change).await;
    // Only an interruption makes this change fail.
    let is_cut = done.is_err();
    hold(is_cut || short.left() < ops || ops == 0, || "nothing was done".to_owned())?;
    let fs = HostFs::open(folder, Mode::Writable, Env::system())?;
    let found = repaired(&*fs).await?;
    hold(found.broken == 0, || format!("broken: {:?}", found.broken_memories))?;
    // After a complete change repair has nothing to do.
    hold(is_cut || found.found.is_empty(), || format!("whole, and yet {:?}", found.found))?;
    for (name, count) in found.found {
        report.add_in("found and repaired", name, count);
    }
    report.add("cuts", is_cut);
    settled(&*fs, change, ops).await?;
    Ok(is_cut)
}

async fn changed(memories: &Memories<'_>, change: Change) -> Proven<()> {
    let mut put = Put::new("# Coffee\n\nWith milk. And sugar.\n");
    match change {
        Change::Make | Change::Update => drop(memories.put(&coffee()?, &put).await?),
        Change::MakeSkill => drop(memories.put(&uri("agents/scout/skills/brew")?, &put).await?),
        Change::UpdateGiven => {
            put.brief = LayerText::Given("With milk".to_owned());
            put.overview = LayerText::Given("Milk, sugar".to_owned());
            memories.put(&coffee()?, &put).await?;
        }
        Change::Tag => drop(memories.tag(&coffee()?, &["drink".to_owned()], &[]).await?),
        Change::Move => drop(memories.move_to(&coffee()?, &moved()?).await?),
        Change::Delete => drop(memories.delete(&coffee()?).await?),
    }
    Ok(())
}

/// Fails unless the memory is in a state before or after the change, completely, and its event exists.
async fn settled(fs: &dyn FileSystem, change: Change, ops: usize) -> Proven<()> {
    let memories = memories(fs);
    let told = events(fs).await?;
    let of = |kind: EventType, uri: &Uri| {
        told.iter().any(|event| event.event_type == kind && event.uri == uri.to_string())
    };
    let led_to = String::from_utf8_lossy(&fs.read_file(tea()?.file(".relations.json")).await?).into_owned();
    let place = match change {
        Change::MakeSkill => uri("agents/scout/skills/brew")?,
        Change::Move if memories.exists(&moved()?).await? => moved()?,
        _ => coffee()?,
    };
    let there = memories.exists(&place).await?;
    let leads = led_to.contains(&format!("\"to_uri\": \"{place}\""));
    match change {
        Change::Make | Change::MakeSkill if !there => {
            let only_text = change == Change::MakeSkill && ops <= 1;
            return hold(ops == 0 || only_text, || "its text is there and no memory".to_owned());
        }
        Change::Delete if !there => {
            let left = files(fs).await?.into_keys().find(|path| path.as_str().contains("coffee"));
            hold(left.is_none() && !leads, || format!("deleted, and yet there is {left:?}, {led_to}"))?;
            return hold(of(EventType::DeleteContext, &place), || "nobody is told of the end".to_owned());
        }
        Change::Make | Change::MakeSkill => {}
        _ => hold(leads, || format!("{place} is there, and an edge leads to another: {led_to}"))?,
    }
    if place == moved()? {
        let old = fs.exists(&coffee()?.dir()).await?;
        hold(!old && of(EventType::MoveContext, &coffee()?), || "there is no event of the move".to_owned())?;
    }
    let content = memories.get(&place, Level::Content).await?;
    let layers = content.meta.layers.clone().ok_or_else(|| Broken::because("it has no layers"))?;
    let sha = sha256(content.text.as_bytes());
    // An overview that belongs to an earlier text must be marked as stale.
    let is_of_text = layers.overview.content_sha256 == sha || layers.overview.origin == Origin::Stale;
    hold(is_of_text, || format!("its overview is of another text: {:?}", content.meta))?;
    // An event may have been delivered before: then `.done` names its version.
    let done = fs.read_file(place.file(".outbox/.done")).await.ok();
    let done = done.and_then(|bytes| String::from_utf8(bytes.into()).ok()?.trim().parse().ok());
    let is_told = done >= Some(content.meta.version)
        || of(EventType::UpsertContext, &place)
        || of(EventType::MoveContext, &coffee()?);
    hold(is_told, || "nobody is told of the memory".to_owned())
}

/// Changes memories until it is killed.
///
/// # Errors
/// Errors of the account.
pub(crate) fn change_until_killed(folder: &Path, seed: u64) -> Proven<()> {
    run(async {
        let fs = SqliteFs::open(folder, Env::system(), garth_agent::registry())?;
        let (memories, mut random) = (memories(&*fs), Random::new(seed));
        say("ready")?;
        loop {
            let draw = |random: &mut Random| uri(&format!("users/u/memories/events/e{}", random.below(8)));
            let (memory, other) = (draw(&mut random)?, draw(&mut random)?);
            // Changes of missing memories fail.
            let _ = match random.below(6) {
                0..=2 => memories.put(&memory, &Put::new(format!("Text {}.", random.next()))).await.map(drop),
                3 if memory != other => memories.relate(&edge(&memory, &other)).await.map(drop),
                4 if memory != other => memories.move_to(&memory, &other).await.map(drop),
                _ => memories.delete(&memory).await.map(drop),
            };
            say("done")?;
        }
    })
}

/// Kills a process that changes memories on SQLite `kills` times, and checks that nothing is to be repaired.
///
/// # Errors
/// Damage that a kill left.
fn kills(folder: &Path, worker: &Path, kills: u64, seed: u64) -> Proven<Report> {
    let text = folder.to_str().ok_or_else(|| Broken::because("the folder's path is no text"))?;
    let (mut random, mut report) = (Random::new(seed), Report::of(["kills", "changes answered"]));
    for round in 0..kills {
        let mut child = Worker::start(worker, &["memories", text, &(seed + round).to_string()])?;
        for _ in 0..1 + random.below(30) {
            child.hear()?;
            report.add("changes answered", 1);
        }
        Env::system().sleep(Duration::from_micros(random.below(3_000)));
        drop(child);
        report.add("kills", 1);
        run(async {
            let fs = SqliteFs::open(folder, Env::system(), garth_agent::registry())?;
            let found = repaired(&*fs).await?;
            hold(found.is_sound(), || format!("after kill {round} there was to repair: {found:?}"))
        })?;
    }
    Ok(report)
}
