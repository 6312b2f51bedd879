//! Attempts of a tree of views, like that of an agent, to reach the surroundings of its parts, their
//! exclusions, and another account. It is on SQLite, while others swap directories for links.

mod host_trees;
mod parts;
mod stored_trees;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use garth_engine::FileSystem;
use garth_engine::model::{Batch, Op};

pub use self::host_trees::HostViews;
use self::parts::{SWAPPED, is_inside, is_inside_memory};
pub use self::stored_trees::Place;
use self::stored_trees::{Made, made};
use super::around::Tries;
use super::around::outside::outside;
use super::scopes::shuttle;
use crate::data::random::Random;
use crate::fs::leaky::Leak;
use crate::proof::{About, Broken, Proof, Proven, Report, Setting, hold, path, run, sound};

/// Attempts between two swaps of a directory.
const TRIES_A_SWAP: u64 = 5;

/// Attempts of a tree of views to reach the surroundings of its parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Views {
    /// Leak of one of its filesystems: a negative control.
    pub leak: Option<(Place, Leak)>,
}

impl Proof for Views {
    fn about(&self) -> About {
        About {
            name: "views",
            claim: "Nothing leads out of a tree of views while its directories are swapped for links.",
            full: 1_000_000,
            ci: 5_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        views(setting, self.leak)
    }
}

/// Makes attempts from a tree of views on an account, while a file moves in and out, and directories
/// and files of every part are swapped for links to the outside.
///
/// # Errors
/// A canary or inode that was seen, or one that is missing afterwards; with the seed of the attempt.
fn views(setting: &Setting<'_>, leak: Option<(Place, Leak)>) -> Proven<Report> {
    let fs = setting.account("account")?;
    let other = setting.account("other")?;
    run(async {
        let Made { tree, hidden, memory } = made(&fs, &*other, leak).await?;
        let before = state(&*fs, &*other, &*memory).await?;
        let (stop, tried) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let shuttle = tokio::spawn(shuttle(fs.clone(), Arc::clone(&stop), Arc::clone(&tried)));
        let swapper = tokio::spawn(swapper(fs.clone(), Arc::clone(&stop), Arc::clone(&tried)));
        let mut report = Report::of(["tries", "answered", "swaps"]);
        let mut outcome = Ok(());
        for n in 0..setting.size {
            let seed = setting.seed.wrapping_add(n);
            let mut tries = Tries { random: Random::new(seed), fs: &*tree, hidden: &hidden };
            match tries.one().await {
                Ok(answered) => report.add("answered", answered),
                Err(error) => {
                    outcome = Err(Broken::because(format!("seed {seed}: {error}")));
                    break;
                }
            }
            report.add("tries", 1);
            tried.store(n + 1, Ordering::Relaxed);
        }
        // Also after a failure, so that the tasks end before the folder is removed.
        stop.store(true, Ordering::Relaxed);
        shuttle.await??;
        report.set("swaps", swapper.await??);
        outcome?;
        let after = state(&*fs, &*other, &*memory).await?;
        hold(after == before, || format!("what lies outside was changed: {}", difference(&before, &after)))?;
        sound(&*fs)?;
        sound(&*other)?;
        Ok(report)
    })
}

async fn state(fs: &dyn FileSystem, other: &dyn FileSystem, memory: &dyn FileSystem) -> Proven<Vec<String>> {
    let mut state = outside(fs, is_inside).await?;
    state.extend(outside(other, |_| false).await?);
    state.extend(outside(memory, is_inside_memory).await?);
    Ok(state)
}

/// Describes the first difference.
fn difference(before: &[String], after: &[String]) -> String {
    let differs = before.iter().zip(after).find(|(before, after)| before != after);
    differs.map_or_else(
        || format!("{} lines, {} before", after.len(), before.len()),
        |(one, other)| format!("`{one}` is `{other}`"),
    )
}

/// Swaps directories and files for links to the outside, back and forth. Returns the number of swaps.
async fn swapper(fs: Arc<dyn FileSystem>, stop: Arc<AtomicBool>, tried: Arc<AtomicU64>) -> Proven<u64> {
    let pairs = SWAPPED.map(|[one, other]| Ok::<_, Broken>((path(one)?, path(other)?)));
    let (mut swaps, mut due) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        for pair in &pairs {
            let Ok((one, other)) = pair else { continue };
            for _ in 0..2 {
                let swap = Batch::new([Op::exchange(one, other)]).visible();
                if fs.commit(swap).await.is_ok() {
                    swaps += 1;
                } else {
                    // An attempt has moved or removed one of them.
                    stored_trees::remake(&*fs, one, other).await;
                }
                due += TRIES_A_SWAP;
                while tried.load(Ordering::Relaxed) < due && !stop.load(Ordering::Relaxed) {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            }
        }
    }
    Ok(swaps)
}
