//! Rename and removal of a tree with very many names: memory does not grow with it, and another account
//! commits in the meantime. The process is a separate one, whose peak memory the kernel reports.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Op, WalkPage};
use garth_engine::runtime::Runtime;
use garth_engine::{Env, FileSystem};

use super::waits::{Waits, commit_beside};
use super::{About, Broken, Proof, Proven, Report, Setting, at, hold, path, peak_memory, run, sound};

/// Limit on the peak memory of the process during rename and removal, in bytes.
pub const MOST_MEMORY: u64 = 100 << 20;
/// Names in one directory, and in one commit that creates them.
pub(super) const TOGETHER: u64 = 1000;
/// Time during which the other account commits alone, for comparison.
const QUIET: Duration = Duration::from_secs(5);
/// Pause between two of its commits.
const PAUSE: Duration = Duration::from_millis(2);

/// Large tree that is renamed and removed while another account commits. The size is the number of its names.
#[derive(Clone, Copy, Debug)]
pub struct Subtrees;

impl Proof for Subtrees {
    fn about(&self) -> About {
        About {
            name: "subtrees",
            claim: "A large tree is renamed and removed in little memory and holds up no other account.",
            full: 1_000_000,
            ci: 20_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        subtrees(setting.folder, &setting.worker(), setting.size)
    }
}

/// Has a worker (`binary` is `proof-worker`) rename and remove a tree of `names` names in `folder`.
///
/// # Errors
/// A name too many or too few, or more memory than [`MOST_MEMORY`].
fn subtrees(folder: &Path, binary: &Path, names: u64) -> Proven<Report> {
    let out =
        Command::new(binary).args([Path::new("subtrees"), Path::new(&names.to_string()), folder]).output()?;
    let said = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    let told = said.split_once(' ').and_then(|(peak, told)| Some((peak.parse().ok()?, told.to_owned())));
    let Some((peak, told)): Option<(u64, String)> = told else {
        return Err(Broken::because(format!("{said}{}", String::from_utf8_lossy(&out.stderr))));
    };
    let mut report =
        Report::of(["names", "bytes of peak memory"]).with("names", names).with("bytes of peak memory", peak);
    report.note(told);
    hold(peak < MOST_MEMORY, || format!("too much memory: {report}"))?;
    Ok(report)
}

/// Renames and removes the tree, in the worker. Returns the line to print: the peak memory, then the times.
pub(crate) fn rename_and_remove(folder: &Path, names: u64) -> Proven<String> {
    let runtime = Runtime::new(Env::system());
    let open = |name: &str| -> Proven<Arc<SqliteFs>> {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(SqliteFs::open_on(&folder, &runtime, garth_engine::rule::sample::registry())?)
    };
    let (large, other) = (open("large")?, open("other")?);
    fill(&large, names)?;
    // The waits of commits on this machine without other work, for comparison in the report.
    let quiet = commit_beside(&*other, PAUSE, &mut || {
        runtime.env().sleep(QUIET);
        Ok(())
    })?
    .1;
    // Resets the peak, so that filling the tree does not count.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let timed = |op: Op| -> Proven<(Duration, Waits)> {
        let commit = &mut || Ok(block_on(large.commit(op.clone().into())).map(drop)?);
        commit_beside(&*other, PAUSE, commit)
    };
    let (rename, beside_rename) = timed(Op::rename(path("/d")?, path("/moved")?))?;
    let moved = block_on(large.walk(&at("/moved")?, &WalkPage::default().limit(2)))?;
    hold(moved.items.len() == 2, || "the tree is not where it was moved to".into())?;
    let (remove, beside_remove) = timed(Op::remove_tree(path("/moved")?))?;
    let peak = peak_memory()?;
    let left = block_on(large.walk(&at("/")?, &WalkPage::default()))?;
    hold(left.items.is_empty(), || "a name was left".into())?;
    if names <= 100_000 {
        sound(&*large)?;
    }
    Ok(format!(
        "{peak} renamed in {:.1} s, removed in {:.1} s; another account: quiet {quiet}; beside the rename \
         {beside_rename}; beside the removal {beside_remove}",
        rename.as_secs_f64(),
        remove.as_secs_f64()
    ))
}

/// Creates a tree of `names` files `/d/DIRECTORY/file-NUMBER`.
///
/// # Errors
/// Errors of the storage.
pub(super) fn fill(fs: &SqliteFs, names: u64) -> Proven<()> {
    run(async {
        for dir in 0..names.div_ceil(TOGETHER) {
            let files = (0..TOGETHER.min(names - dir * TOGETHER)).map(|file| {
                Ok(Op::write(path(&format!("/d/{dir}/file-{file:04}"))?, "one word").with_parents())
            });
            fs.commit(Batch::new(files.collect::<Proven<Vec<_>>>()?).visible()).await?;
        }
        Ok(fs.sync().await.map(drop)?)
    })
}
