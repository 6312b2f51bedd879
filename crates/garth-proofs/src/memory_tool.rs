//! Random commands of the memory tool on the tree of an agent, and on a plain folder: answers and files are
//! equal, and no spelling of a path leads out of `/memories`.

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt as _;
use garth_agent::memory_tool::{Command, MemoryTool};
use garth_agent::{Access, Caller, Class, Request};
use garth_engine::model::{Kind, WalkItem};
use garth_engine::{Env, FileSystem, FileSystemExt as _};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Proof, Proven, Report, Setting, hold, run};

use crate::reference::plain_folder::{PlainFolder, Told};
use crate::support::opened;

/// Commands after which the files are compared.
const BETWEEN: u64 = 200;
/// Directory of the tool in the tree.
const TOP: &str = "/.user/memory";
/// File next to `/memories`, and a word that is only in it.
const SECRET: &str = "/.user/secret";
const CANARY: &str = "canarybird";
/// Names in paths. Listings leave out the last ones.
const NAMES: [&str; 9] = ["a", "b.md", "a-b", "c", "d.txt", "e", "f...", ".hidden", "node_modules"];
/// Texts of which contents are made. None has a letter of several code points.
const PIECES: [&str; 8] = ["a", "b", "ab", "\n", "\n\n", "été\n", "a b\n", "x"];
/// Paths that lead out of `/memories`, in the spellings of several programs.
const OUTSIDE: [&str; 18] = [
    "/memories/../secret",
    "/memories/a/../../secret",
    "/memories/./../secret",
    "/memories/..",
    "/memories/..\\secret",
    "/memories\\..\\secret",
    "/memories/%2e%2e/secret",
    "/memories/%2E%2E%2Fsecret",
    "/memories/..%2fsecret",
    "/memories/..%5csecret",
    "/memories/%252e%252e%252fsecret",
    "/memories/%c0%ae%c0%ae%c0%afsecret",
    "/memories/\u{ff0e}\u{ff0e}/secret",
    "/memories/\u{2025}\u{2215}secret",
    "/.user/secret",
    "/.user/memory/a",
    "memories/a",
    "/memoriesx",
];

/// Fault to plant: a negative control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A change is answered and not made.
    Lost,
    /// A path that leads out is taken for one in `/memories`.
    Outside,
}

/// Random commands of the memory tool. The size is the number of commands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Commands {
    /// Fault to plant.
    pub fault: Option<Fault>,
}

impl Proof for Commands {
    fn about(&self) -> About {
        About {
            name: "memory tool",
            claim: "Commands of the memory tool equal those on a plain folder, and none leads out of it.",
            full: 100_000,
            ci: 2_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        compared(setting.folder, setting.size, setting.seed, self.fault)
    }
}

fn compared(folder: &Path, size: u64, seed: u64, fault: Option<Fault>) -> Proven<Report> {
    let account = opened(&folder.join("data"))?;
    let plain = PlainFolder::new(folder.join("plain"));
    run(async {
        let request = Request::new("scout").user("ann").chat("chat").class(Class::Main);
        let access = Access::open(&account, &Env::system(), Caller::Holder, &request).await?;
        access.make().await?;
        let tree = access.tree().open().await?;
        tree.write(SECRET, CANARY).await?;
        let random = &mut Random::new(seed);
        let mut report = Report::of(["commands", "refused", "paths out", "trees compared"]);
        let mut planted = fault;
        for number in 0..size {
            let command = any(random);
            let about = || format!("seed {seed}, command {number}: {command:?}");
            let due = plain.run(&command)?;
            let found = match planted {
                Some(fault) if plants(fault, &command, &due) => {
                    planted = None;
                    with(fault, &due)
                }
                _ => answered(&tree, &command).await?,
            };
            hold(found == due, || format!("{}: {found:?}, not {due:?}", about()))?;
            hold(!found.0.contains(CANARY), || format!("{}: {} is not hidden", about(), found.0))?;
            report.add("commands", 1);
            match due.1 {
                true => report.add("refused", 1),
                false => report.add_in("done", command.name(), 1),
            }
            report.add("paths out", u64::from(due.0.contains("is outside /memories")));
            if (number + 1) % BETWEEN == 0 || number + 1 == size {
                let (found, due) = (files(&tree).await?, plain.all()?);
                hold(found == due, || format!("{}: then the files are {found:?}, not {due:?}", about()))?;
                report.add("trees compared", 1);
            }
        }
        let secret = tree.read_to_string(SECRET).await?;
        hold(secret == CANARY, || format!("{SECRET} is not what it was: {secret}"))?;
        Ok(report)
    })
}

/// Returns true if a fault is planted in place of a command.
fn plants(fault: Fault, command: &Command, due: &Told) -> bool {
    match fault {
        Fault::Lost => matches!(command, Command::Create { .. }) && !due.1,
        Fault::Outside => due.0.contains("is outside /memories"),
    }
}

/// Returns the answer of a tool with a fault.
fn with(fault: Fault, due: &Told) -> Told {
    match fault {
        Fault::Lost => due.clone(),
        Fault::Outside => ("Here's the content".to_owned(), false),
    }
}

/// Runs a command of the tool.
async fn answered(tree: &Arc<dyn FileSystem>, command: &Command) -> Proven<Told> {
    let answer = MemoryTool::new(&**tree).run(command).await?;
    Ok((answer.text, answer.is_error))
}

/// Returns the paths of all files and directories of the tool, each file with its text.
async fn files(tree: &Arc<dyn FileSystem>) -> Proven<Vec<(String, Option<String>)>> {
    let mut files = Vec::new();
    if !tree.exists(TOP).await? {
        return Ok(files);
    }
    let items: Vec<WalkItem> = tree.walk_all(TOP).try_collect().await?;
    for item in items {
        let text = match item.kind {
            Kind::Directory => None,
            _ => Some(tree.read_to_string(&item.path).await?),
        };
        let path = item.path.as_str();
        files.push((path.strip_prefix(TOP).unwrap_or(path).to_owned(), text));
    }
    files.sort();
    Ok(files)
}

/// Returns a random command.
fn any(random: &mut Random) -> Command {
    match random.below(14) {
        0 | 1 => {
            let number = |random: &mut Random, least: i64| least + i64::from(random.below(8) as u8);
            let view_range = random.one_in(3).then(|| [number(random, -1), number(random, -2)]);
            Command::View { path: path(random), view_range }
        }
        2..=4 => Command::Create { path: path(random), file_text: text(random, 6) },
        5 | 6 | 12 | 13 => {
            let new_str = (!random.one_in(6)).then(|| text(random, 2));
            // One piece is often in a text once.
            let old_str = if random.one_in(4) { text(random, 2) } else { random.pick(&PIECES).to_owned() };
            Command::StrReplace { path: path(random), old_str, new_str }
        }
        7 | 8 => {
            let insert_line = i64::from(random.below(4) as u8) - 1;
            Command::Insert { path: path(random), insert_line, insert_text: text(random, 2) }
        }
        9 => Command::Delete { path: path(random) },
        _ => Command::Rename { old_path: path(random), new_path: path(random) },
    }
}

/// Returns a random path: one of few places, `/memories` itself, or one that leads out.
fn path(random: &mut Random) -> String {
    match random.below(30) {
        0 => "/memories".to_owned(),
        1 | 2 => random.pick(&OUTSIDE).to_owned(),
        _ => {
            let depth = if random.one_in(2) { 1 } else { 1 + random.below(2) + random.below(2) };
            (0..depth).fold("/memories".to_owned(), |path, _| path + "/" + random.pick(&NAMES))
        }
    }
}

/// Returns a text of at most some pieces.
fn text(random: &mut Random, most: u64) -> String {
    let pieces = random.below(most + 1);
    (0..pieces).map(|_| random.pick(&PIECES)).collect()
}
