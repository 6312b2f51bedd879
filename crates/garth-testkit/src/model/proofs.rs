//! Model tests as proofs: random operations have the same results on two filesystems.

use super::overlayfs::{self, Lower};
use super::{ModelConfig, Stats, on_host, retained, run, sqlite};
use crate::proof::{About, Broken, Proof, Proven, Report, Setting};
use crate::subject::mounted::Part;
use crate::subject::stacked::{View, drawn};

/// Random operations on SQLite, or on a host folder, compared with the memory engine. The size is the number
/// of operations.
#[derive(Clone, Copy, Debug)]
pub struct BesideMemory {
    /// View through which the operations go.
    pub through: Through,
}

/// View of a filesystem for random operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// No view.
    Nothing,
    /// No view, with limits on the past that are drawn, set and collected.
    Retention,
    /// No view, with every batch planned as if rows were a round trip away.
    Rounds,
    /// Nested scopes, of this depth.
    Scopes(usize),
    /// A part of a mount.
    Mount(Part),
    /// Ten random stacks of views.
    Stacks,
    /// No view, on a host folder instead of SQLite, within the limits of POSIX.
    Folder,
}

impl Proof for BesideMemory {
    fn about(&self) -> About {
        let full = if self.through == Through::Folder { 300_000 } else { 1_000_000 };
        let name = match self.through {
            Through::Nothing => "model",
            Through::Retention => "model-retention",
            Through::Rounds => "model-rounds",
            Through::Scopes(1) => "model-scope",
            Through::Scopes(_) => "model-scope-of-scope",
            Through::Mount(Part::Root) => "model-mount",
            Through::Mount(_) => "model-mounted-directory",
            Through::Stacks => "model-stacks",
            Through::Folder => "model-host",
        };
        About {
            name,
            claim: "Random operations have the results of the memory engine, also after a restart.",
            full,
            ci: 5_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let config = ModelConfig { ops: setting.size, seed: setting.seed };
        let stats = match self.through {
            Through::Nothing => run(config, sqlite),
            Through::Retention => run(config, retained),
            Through::Rounds => {
                // Holds for the process from here on.
                garth_engine::engine::planner::fetched::require_fetched_rows();
                run(config, sqlite)
            }
            Through::Scopes(depth) => {
                run(config, || async move { sqlite().await.scoped(depth).await.counted_anew().await })
            }
            Through::Mount(part) => {
                run(config, || async move { sqlite().await.mounted(part).await.counted_anew().await })
            }
            Through::Stacks => return stacks(config),
            Through::Folder => on_host(config).map_err(|failure| *failure),
        };
        Ok(report(&[stats.map_err(|failure| Broken::because(failure.to_string()))?]))
    }
}

/// Runs a tenth of the operations through each of ten stacks.
fn stacks(config: ModelConfig) -> Proven<Report> {
    let mut all = Vec::new();
    for seed in config.seed..config.seed + 10 {
        let views = drawn(seed, View::EQUAL);
        let subject = || async { sqlite().await.stacked(&views).await.counted_anew().await };
        let stats = run(ModelConfig { ops: config.ops.div_ceil(10), seed }, subject);
        all.push(stats.map_err(|failure| Broken::because(format!("{views:?}: {failure}")))?);
    }
    Ok(report(&all))
}

/// Returns the sum of runs as the report of a proof.
///
/// # Panics
/// Never: it counts what it lists.
pub fn report(all: &[Stats]) -> Report {
    let counts = [
        "operations",
        "episodes",
        "commits",
        "refused",
        "of these by a rule",
        "of these by a quota",
        "steps omitted without an account",
        "other comparisons",
        "times opened again",
        "collections",
        "commits folded",
        "old contents ended",
        "comparisons of what is gone",
    ];
    let mut report = Report::of(counts);
    for stats in all {
        let Stats { episodes, ops, commits, refused, ruled, full, checks, reopened, .. } = *stats;
        let Stats { omitted, collected, folded, contents, gone, .. } = *stats;
        let seen = [
            ops, episodes, commits, refused, ruled, full, omitted, checks, reopened, collected, folded,
            contents, gone,
        ];
        counts.into_iter().zip(seen).for_each(|(name, n)| report.add(name, n));
    }
    report
}

/// Random operations on an overlay, compared with overlayfs of the kernel. Needs root. The size is the number
/// of operations.
#[derive(Clone, Copy, Debug)]
pub struct BesideKernel {
    /// Lower layer of the overlay.
    pub lower: Lower,
}

impl Proof for BesideKernel {
    fn about(&self) -> About {
        let name = match self.lower {
            Lower::SameStore => "overlay-of-one-store",
            Lower::OtherStore => "overlay-over-another-store",
            Lower::Folder => "overlay-over-a-folder",
        };
        About {
            name,
            claim: "An overlay does what the union mount of the kernel does.",
            full: 300_000,
            ci: 5_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let config = ModelConfig { ops: setting.size, seed: setting.seed };
        let stats = overlayfs::run(config, self.lower);
        let stats = stats.map_err(|failure| Broken::because(failure.to_string()))?;
        let counts = ["operations", "trees", "refused", "renames refused across stores", "trees compared"];
        Ok(Report::of(counts)
            .with("operations", stats.ops)
            .with("trees", stats.episodes)
            .with("refused", stats.refused)
            .with("renames refused across stores", stats.crossed)
            .with("trees compared", stats.compared))
    }
}
