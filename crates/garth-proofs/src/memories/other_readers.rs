//! Other readers of a folder agree on the existing memories: the program in the description of the layout,
//! run on a host folder and on the export of an account.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use garth_agent::memory::{Memories, Put, Uri};
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::view::Scope;
use garth_engine::{Env, FileSystem, FileSystemExt, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold, run};

use super::{ACCOUNT, files, uri};

/// Program of the description of the layout, except that metadata that are not a JSON object mean no memory.
const READER: &str = r#"
import json, pathlib, sys
root = pathlib.Path(sys.argv[1])

def uri_to_path(uri):
    return root / "accounts" / uri[len("ctx://"):]

def exists(uri):
    meta_path = uri_to_path(uri) / ".meta.json"
    if not meta_path.exists():
        return False
    meta = json.loads(meta_path.read_text())
    return meta.get("status") == "ACTIVE"

for uri in sys.stdin.read().split():
    try:
        print(int(exists(uri)))
    except (ValueError, AttributeError):
        print(0)
"#;

/// Other programs that read the layout of a folder. The size is the number of memories.
#[derive(Clone, Copy, Debug)]
pub struct OtherReaders;

impl Proof for OtherReaders {
    fn about(&self) -> About {
        About {
            name: "memory-readers",
            claim: "Other readers of a folder agree on which memories exist.",
            full: 10_000,
            ci: 400,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        agree(setting.folder, setting.size, setting.seed)
    }
}

/// Creates `count` memories in all states, on a folder and in an account, and compares.
///
/// # Errors
/// A memory that exists for one reader and not for another.
fn agree(folder: &Path, count: u64, seed: u64) -> Proven<Report> {
    let [plain, account, export] = ["plain", "account", "export"].map(|name| folder.join(name));
    for dir in [&plain.join("accounts").join(ACCOUNT), &account, &export] {
        std::fs::create_dir_all(dir)?;
    }
    run(async {
        let host = HostFs::open(&plain, Mode::Writable, Env::system())?;
        let root = TreePath::parse(&format!("/accounts/{ACCOUNT}"))?;
        let on_host = Scope::open(&*host, &root).await?;
        let on_sqlite: Arc<dyn FileSystem> =
            SqliteFs::open(&account, Env::system(), garth_agent::registry())?;
        let mut all = Vec::new();
        for n in 0..count {
            all.push(uri(&format!("users/u{}/memories/events/e{n}", n % 7))?);
        }
        let mut there = Vec::new();
        for fs in [&on_host, &on_sqlite] {
            // The same seed gives both filesystems the same memories.
            let mut random = Random::new(seed);
            for memory in &all {
                make(&**fs, memory, &mut random).await?;
            }
            there.push(ours(&**fs, &all).await?);
        }
        for (path, bytes) in files(&*on_sqlite).await? {
            let to = export.join("accounts").join(ACCOUNT).join(&path.as_str()[1..]);
            std::fs::create_dir_all(to.parent().unwrap_or(&export))?;
            std::fs::write(to, bytes)?;
        }
        for (ours, folder) in there.iter().zip([&plain, &export]) {
            let theirs = theirs(folder, &all)?;
            for ((memory, ours), theirs) in all.iter().zip(ours).zip(theirs) {
                hold(*ours == theirs, || format!("{memory}: {ours} for us, {theirs} for others"))?;
            }
        }
        let there = there[0].iter().filter(|there| **there).count() as u64;
        Ok(Report::of(["memories", "memories that exist"])
            .with("memories", count)
            .with("memories that exist", there))
    })
}

/// Creates a memory in some state.
async fn make(fs: &dyn FileSystem, memory: &Uri, random: &mut Random) -> Proven<()> {
    let state = random.below(12);
    if state == 0 {
        return Ok(());
    }
    let file = memory.file(".meta.json");
    Memories::new(fs, ACCOUNT).put(memory, &Put::new("Black.")).await?;
    let meta = fs.read_to_string(&file).await?;
    let meta = match state {
        1 => meta.replace("ACTIVE", "PENDING"),
        2 => meta.replace("ACTIVE", "BROKEN"),
        3 => meta.replace("\"status\": \"ACTIVE\",", ""),
        4 => meta[..meta.len() / 2].to_owned(),
        5 => random.pick(&["", "[]", "null", "7", "\"ACTIVE\"", "[{\"status\": \"ACTIVE\"}]"]).to_owned(),
        6 => meta.replace("\"version\": 1", "\"version\": \"1\""),
        7 => "{\"status\": \"ACTIVE\"}".to_owned(),
        8 => {
            fs.remove(&file).await?;
            return Ok(());
        }
        9 => meta.replace("ACTIVE", "active"),
        _ => return Ok(()),
    };
    fs.write(&file, meta).await?;
    Ok(())
}

async fn ours(fs: &dyn FileSystem, all: &[Uri]) -> Proven<Vec<bool>> {
    let memories = Memories::new(fs, ACCOUNT);
    let mut there = Vec::new();
    for memory in all {
        there.push(memories.exists(memory).await?);
    }
    Ok(there)
}

fn theirs(folder: &Path, all: &[Uri]) -> Proven<Vec<bool>> {
    let started = Command::new("python3")
        .args(["-c", READER])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = started.map_err(|error| {
        Broken::because(format!("python3 does not run ({error}): apt-get install python3"))
    })?;
    let lines: String = all.iter().map(|uri| format!("{uri}\n")).collect();
    let mut input = child.stdin.take().ok_or_else(|| Broken::because("python3 reads nothing"))?;
    // Written by a thread: with full pipes in both directions neither process would continue.
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output()?;
    let _ = writer.join();
    let answers: Vec<bool> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line == "1").collect();
    hold(output.status.success() && answers.len() == all.len(), || "python3 gave up".to_owned())?;
    Ok(answers)
}
