//! Directories of memories with random damage: repair never panics, a second run changes nothing, and no data
//! of the user is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use garth_agent::memory::{LayerText, Memories, Put, Uri};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{Batch, Op};
use garth_engine::{Env, FileSystem, FileSystemExt, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold, run};

use super::{ACCOUNT, files, repaired, uri};

/// Directories of one account.
const AT_ONCE: u64 = 200;

/// Damaged directories of memories. The size is their number.
#[derive(Clone, Copy, Debug)]
pub struct DamagedMemories;

impl Proof for DamagedMemories {
    fn about(&self) -> About {
        About {
            name: "memory-damage",
            claim: "Of damaged directories nothing of the user is lost.",
            full: 10_000,
            ci: 600,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        damaged(setting.size, setting.seed)
    }
}

/// Counts of a run.
const COUNTS: [&str; 4] = ["damaged directories", "repaired", "broken", "texts of the user kept"];

/// Damages `directories` directories.
///
/// # Errors
/// Text of the user that was lost.
fn damaged(directories: u64, seed: u64) -> Proven<Report> {
    let (mut report, mut left, mut round) = (Report::of(COUNTS), directories, 0);
    while left > 0 {
        let many = left.min(AT_ONCE);
        let told = |why: Broken| Broken::because(format!("seed {seed}, round {round}: {why}"));
        run(damage(many, &mut Random::new(seed ^ (round << 32)), &mut report)).map_err(told)?;
        (left, round) = (left - many, round + 1);
    }
    Ok(report)
}

async fn damage(many: u64, random: &mut Random, report: &mut Report) -> Proven<()> {
    let fs: Arc<dyn FileSystem> = Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()));
    let memories = Memories::new(&*fs, ACCOUNT);
    let mut kept: Vec<(Uri, Vec<u8>)> = Vec::new();
    for n in 0..many {
        let memory = match random.one_in(4) {
            true => uri(&format!("agents/scout/skills/s{n}"))?,
            false => uri(&format!("users/alice/memories/events/e{n}"))?,
        };
        let mut put = Put::new(format!("# Text {n}\n\nFirst {}. Second.\n", random.next()));
        if random.one_in(2) {
            put.brief = LayerText::Given(format!("Given {}", random.next()));
        }
        if random.one_in(2) {
            put.overview = LayerText::Given(format!("Given outline {}", random.next()));
        }
        memories.put(&memory, &put).await?;
        if random.one_in(3) {
            memories.put(&memory, &Put::new(format!("Later {}.", random.next()))).await?;
        }
        break_some(&*fs, &memory, random).await?;
        // Taken after the damage: what the damage itself destroyed cannot be restored.
        kept.extend(texts(&*fs, &memory).await?.into_iter().map(|text| (memory.clone(), text)));
    }
    let found = repaired(&*fs).await?;
    let mut left: BTreeMap<TreePath, Vec<Vec<u8>>> = BTreeMap::new();
    for (path, bytes) in files(&*fs).await? {
        // Repair may move a text to another name, but not out of the directory.
        for dir in path.ancestors() {
            left.entry(dir).or_default().push(bytes.clone());
        }
    }
    for (memory, text) in &kept {
        let is_kept = left.get(&memory.dir()).is_some_and(|texts| texts.contains(text));
        hold(is_kept, || format!("{memory}: lost {:?}", String::from_utf8_lossy(text)))?;
    }
    report.add("damaged directories", many);
    report.add("texts of the user kept", kept.len());
    report.add("repaired", found.repaired());
    report.add("broken", found.broken);
    for (name, count) in found.found {
        report.add_in("found", name, count);
    }
    Ok(())
}

/// Damages some files of a memory.
async fn break_some(fs: &dyn FileSystem, memory: &Uri, random: &mut Random) -> Proven<()> {
    let names = [
        "content.md",
        "SKILL.md",
        ".meta.json",
        ".relations.json",
        ".abstract.md",
        ".overview.md",
        ".outbox",
        ".outbox/.done",
        "mine.txt",
    ];
    for _ in 0..random.below(6) {
        let path = memory.file(random.pick(&names));
        let before = fs.read_file(&path).await.ok();
        let there = fs.lookup(&path).await?.is_some();
        let remove = there.then(|| Op::remove_tree(path.clone()));
        let make: Vec<Op> = match random.below(9) {
            0 | 1 => Vec::new(),
            2 => vec![Op::write(path.clone(), random.next().to_le_bytes().to_vec())],
            3 => {
                let bytes = before.unwrap_or_default();
                vec![Op::write(path.clone(), bytes.slice(..bytes.len() / 2))]
            }
            4 => {
                let inside = format!("{path}/inside {}", random.next());
                vec![Op::mkdir_all(path.clone()), Op::write(TreePath::parse(&inside)?, "deep")]
            }
            5 => vec![Op::symlink(path.clone(), "/nowhere")],
            6 => vec![Op::write(path.clone(), format!("Other {}.\n", random.next()))],
            7 => {
                let value =
                    random.pick(&["{}", "[]", "null", "{\"status\":\"ACTIVE\"}", "{\"version\":-1}", "7"]);
                vec![Op::write(path.clone(), value)]
            }
            _ => {
                let text = String::from_utf8_lossy(&before.unwrap_or_default()).into_owned();
                let status = random.pick(&["PENDING", "BROKEN", "GONE"]);
                vec![Op::write(path.clone(), text.replace("ACTIVE", status))]
            }
        };
        // Fails if its directory is no longer a directory.
        let _ = fs.commit(Batch::new(remove.into_iter().chain(make).collect::<Vec<_>>())).await;
    }
    Ok(())
}

/// Returns the data of the user: the text, given layers, and files that do not belong to a memory.
async fn texts(fs: &dyn FileSystem, memory: &Uri) -> Proven<Vec<Vec<u8>>> {
    let dir = memory.dir();
    let mut own = Vec::new();
    let read = async |name: &str| fs.read_file(memory.file(name)).await.ok().map(|bytes| bytes.to_vec());
    let has_text = read(if memory.is_skill() { "SKILL.md" } else { "content.md" }).await.is_some()
        || read("content.md").await.is_some();
    let meta = read(".meta.json").await;
    let meta = meta.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
    let is_given = |layer: &str| {
        let origin = meta.as_ref().map(|meta| meta["layers"][layer]["origin"].clone());
        origin.is_some_and(|origin| origin == "given" || origin == "stale")
    };
    let has_meta = fs.lookup(memory.file(".meta.json")).await?.is_some();
    let known = |meta: &serde_json::Value| {
        meta["status"].as_str().is_some_and(|status| ["PENDING", "ACTIVE", "BROKEN"].contains(&status))
    };
    let is_unknown = meta.as_ref().is_some_and(|meta| meta.is_object() && !known(meta));
    let is_left_alone = is_unknown || !has_meta && !has_text;
    for (path, bytes) in files(fs).await?.into_iter().filter(|(path, _)| path.is_within(&dir)) {
        let below = path.as_str()[dir.as_str().len() + 1..].to_owned();
        let is_own = match below.as_str() {
            _ if is_left_alone => true,
            "content.md" | "SKILL.md" | "mine.txt" => true,
            ".abstract.md" => has_text && is_given("abstract"),
            ".overview.md" => has_text && is_given("overview"),
            other => other.contains("/inside") && !other.starts_with(".outbox"),
        };
        if is_own {
            own.push(bytes);
        }
    }
    Ok(own)
}
