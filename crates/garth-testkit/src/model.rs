//! The model test: random operations on an engine and on [`MemoryFs`](garth_engine::engine::memory::MemoryFs) side by
//! side, every answer compared. A failing run is cut down to a short list of steps that still fails, and
//! printed with its seed.
//!
//! Steps are made from the seed alone, without looking at either side, so that a list of them means the same
//! after any were left out; what depends on the state (a right version, a past sequence) is worked out from
//! the model as a step is played. That is why this is an own loop and not `proptest-state-machine`, whose
//! bookkeeping per transition would also make a million operations take hours.

mod comparisons;
pub mod overlayfs;
mod part_of_tree;
mod player;
mod posix_folder;
mod proofs;
mod quotas;
mod rules;
mod steps;

use std::fmt;
use std::future::Future;
use std::path::Path;

use garth_engine::model::SetAttrs;

pub use self::posix_folder::on_host;
pub use self::proofs::{BesideKernel, BesideMemory, Through};
use crate::subject::Subject;

use self::player::{Tally, play};
use self::steps::{Step, episode_of};

/// Size and seed of a run.
#[derive(Clone, Copy, Debug)]
pub struct ModelConfig {
    /// Operations to apply at least, over all episodes.
    pub ops: u64,
    /// Where the random numbers start. The same seed gives the same run.
    pub seed: u64,
}

/// Steps played on one subject before a fresh one is taken: enough for long histories, few enough to shrink.
const EPISODE: usize = 2_000;
/// Most replays spent on shrinking a failure.
const MAX_REPLAYS: usize = 600;

impl ModelConfig {
    /// As the environment says: `GARTH_MODEL_OPS` (else `ops`) and `GARTH_MODEL_SEED` (else 1).
    ///
    /// # Panics
    /// If a variable is set to something else than a number.
    pub fn from_env(ops: u64) -> Self {
        let number = |name: &str, default| match std::env::var(name) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")),
            Err(_) => default,
        };
        Self { ops: number("GARTH_MODEL_OPS", ops), seed: number("GARTH_MODEL_SEED", 1) }
    }
}

/// The subject to compare: SQLite on a folder in memory where there is one, as this is
/// about meaning, not about disks.
pub async fn sqlite() -> Subject {
    let memory = Path::new("/dev/shm");
    Subject::sqlite(if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }.as_path())
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Fresh subjects.
    pub episodes: u64,
    /// Operations in batches that were applied or refused.
    pub ops: u64,
    /// Batches applied.
    pub commits: u64,
    /// Batches refused.
    pub refused: u64,
    /// Refused batches that broke a rule.
    pub ruled: u64,
    /// Refused batches that a quota did not allow.
    pub full: u64,
    /// Comparisons besides those of batches: trees, contents, histories, the past.
    pub checks: u64,
    /// Times that the subject was opened again.
    pub reopened: u64,
    /// Times that another instance collected what the subject does not need.
    pub collected: u64,
}

/// A difference between the subject and the model.
#[derive(Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The episode that failed, from 0.
    pub episode: u64,
    /// Description of the difference, after shrinking.
    pub message: String,
    /// The steps that lead there, after shrinking.
    pub steps: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, episode {}: {}", self.seed, self.episode, self.message)?;
        writeln!(f, "{} steps lead there:", self.steps.len())?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}

impl std::error::Error for Failure {}

/// Plays random steps on fresh subjects until `config.ops` operations were applied.
///
/// # Errors
/// The first difference, with a short list of steps that shows it.
///
/// # Panics
/// If called inside an async runtime: it brings its own.
pub fn run<F, S>(config: ModelConfig, make_subject: F) -> Result<Stats, Failure>
where
    F: Fn() -> S,
    S: Future<Output = Subject>,
{
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let mut stats = Stats::default();
        while stats.ops < config.ops {
            let mut rng = episode_of(config.seed, stats.episodes);
            let mut steps: Vec<Step> = (1..EPISODE).map(|_| steps::random(&mut rng)).collect();
            steps.insert(0, steps::first());
            match play(&steps, make_subject().await, config.ops - stats.ops).await {
                Ok(tally) => stats.add(&tally),
                Err((index, message)) => {
                    let (steps, message) = shrink(steps[..=index].to_vec(), message, &make_subject).await;
                    let steps = steps.iter().map(brief).collect();
                    return Err(Failure { seed: config.seed, episode: stats.episodes, message, steps });
                }
            }
        }
        Ok(stats)
    })
}

impl Stats {
    fn add(&mut self, tally: &Tally) {
        self.episodes += 1;
        self.ops += tally.ops;
        self.commits += tally.commits;
        self.refused += tally.refused;
        self.ruled += tally.ruled;
        self.full += tally.full;
        self.checks += tally.checks;
        self.reopened += tally.reopened;
        self.collected += tally.collected;
    }
}

/// A step as text, without attributes that say nothing.
fn brief(step: &Step) -> String {
    format!("{step:?}").replace(&format!("{:?}", SetAttrs::default()), "-")
}

/// Leaves out what the failure does not need: runs of steps, halving their length, then single operations.
async fn shrink<F, S>(mut steps: Vec<Step>, mut message: String, make_subject: &F) -> (Vec<Step>, String)
where
    F: Fn() -> S,
    S: Future<Output = Subject>,
{
    let mut replays = 0;
    let mut length = steps.len() / 2;
    while length > 0 && replays < MAX_REPLAYS {
        let before = steps.len();
        let mut start = 0;
        while start < steps.len() && replays < MAX_REPLAYS {
            let mut fewer = steps.clone();
            fewer.drain(start..(start + length).min(steps.len()));
            replays += 1;
            match play(&fewer, make_subject().await, u64::MAX).await {
                Err((index, why)) => {
                    fewer.truncate(index + 1);
                    (steps, message) = (fewer, why);
                }
                Ok(_) => start += length,
            }
        }
        if length > 1 || steps.len() == before {
            length /= 2;
        }
    }
    let mut index = 0;
    while index < steps.len() && replays < MAX_REPLAYS {
        let simpler = steps[index].simpler().into_iter();
        let mut found = None;
        for step in simpler {
            let mut changed = steps.clone();
            changed[index] = step;
            replays += 1;
            if let Err((at, why)) = play(&changed, make_subject().await, u64::MAX).await {
                changed.truncate(at + 1);
                found = Some((changed, why));
                break;
            }
        }
        match found {
            Some(better) => (steps, message) = better,
            None => index += 1,
        }
    }
    (steps, message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use garth_engine::engine::memory::MemoryFs;

    use super::*;
    use crate::fs::planted::{Bug, Planted};

    async fn memory() -> Subject {
        let (env, clock) = Subject::clock();
        Subject::new(Arc::new(MemoryFs::new(env, garth_engine::rule::sample::registry())), clock)
    }

    #[test]
    fn the_memory_engine_equals_itself() {
        let config = ModelConfig::from_env(10_000);
        let stats = run(config, memory).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(stats.ops >= config.ops && stats.commits * 4 > stats.ops && stats.checks > 0, "{stats:?}");
    }

    #[test]
    fn planted_faults_are_caught_and_shrunk() {
        for bug in Bug::SEQUENTIAL {
            let planted = || async move {
                let (env, clock) = Subject::clock();
                Subject::new(
                    Arc::new(Planted::new(
                        Arc::new(MemoryFs::new(env, garth_engine::rule::sample::registry())),
                        bug,
                    )),
                    clock,
                )
            };
            let failure = match run(ModelConfig { ops: 20_000, seed: 7 }, planted) {
                Ok(stats) => panic!("{bug:?} was not caught: {stats:?}"),
                Err(failure) => failure,
            };
            // a bug that depends on the number of commits keeps more of the steps before it
            assert!(failure.steps.len() <= 20, "{bug:?} was not shrunk: {failure}");
        }
    }
}
