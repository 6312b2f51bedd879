//! Model test: random operations on an engine and on [`MemoryFs`](garth_engine::engine::memory::MemoryFs) side by
//! side, with every result compared. A failing run is shrunk to a short list of steps that still fails, and
//! printed with its seed.
//!
//! Steps are drawn from the seed alone, without a look at either side, so that a list of them keeps its
//! meaning after any were removed. Values that depend on the state (a matching version, a past sequence
//! number) are derived from the model when a step is played. Therefore this is a loop of its own and not
//! `proptest-state-machine`, whose bookkeeping per transition would also make a million operations take
//! hours.

mod comparisons;
pub mod overlayfs;
mod part_of_tree;
mod player;
mod posix_folder;
mod proofs;
mod quotas;
mod retention;
mod rules;
mod steps;

use std::fmt;
use std::future::Future;

use garth_engine::model::SetAttrs;

pub use self::posix_folder::on_host;
pub use self::proofs::{BesideKernel, BesideMemory, Through, report};
use crate::subject::Subject;
use crate::tools::in_memory;

use self::player::{Tally, play};
use self::steps::{Step, episode_of};

/// Size and seed of a run.
#[derive(Clone, Copy, Debug)]
pub struct ModelConfig {
    /// Operations to apply at least, over all episodes.
    pub ops: u64,
    /// Seed of the random numbers. The same seed gives the same run.
    pub seed: u64,
}

/// Steps played on one subject before the next fresh one: enough for long histories, few enough to shrink.
const EPISODE: usize = 2_000;
/// Limit on the replays that shrink a failure.
const MAX_REPLAYS: usize = 600;

impl ModelConfig {
    /// Returns the configuration of the environment: `GARTH_MODEL_OPS` (default `ops`) and `GARTH_MODEL_SEED`
    /// (default 1).
    ///
    /// # Panics
    /// If a variable is set but is not a number.
    pub fn from_env(ops: u64) -> Self {
        let number = |name: &str, default| match std::env::var(name) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")),
            Err(_) => default,
        };
        Self { ops: number("GARTH_MODEL_OPS", ops), seed: number("GARTH_MODEL_SEED", 1) }
    }
}

/// Returns a subject on SQLite, in a folder in memory where one exists: the test is about meaning, not about
/// disks.
pub async fn sqlite() -> Subject {
    Subject::sqlite(&in_memory())
}

/// Returns a subject as [`sqlite`], on which the retention of the past is drawn.
pub async fn retained() -> Subject {
    Subject { retained: true, ..sqlite().await }
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Fresh subjects.
    pub episodes: u64,
    /// Operations in batches that were applied or rejected.
    pub ops: u64,
    /// Batches applied.
    pub commits: u64,
    /// Rejected batches.
    pub refused: u64,
    /// Batches rejected by a rule.
    pub ruled: u64,
    /// Batches rejected by a quota.
    pub full: u64,
    /// Steps on rules and quotas that were omitted, because the subject has no account on which to set them.
    pub omitted: u64,
    /// Comparisons other than those of batches: trees, contents, histories, the past.
    pub checks: u64,
    /// Reopenings of the subject.
    pub reopened: u64,
    /// Garbage collections by another instance.
    pub collected: u64,
    /// Commits that retention removed from the log of the subject.
    pub folded: u64,
    /// Old contents of path classes that became unreadable on the subject.
    pub contents: u64,
    /// States and contents of the past for which both sides failed with `Gone`.
    pub gone: u64,
}

/// A difference between the subject and the model.
#[derive(Debug)]
pub struct Failure {
    /// Seed of the run.
    pub seed: u64,
    /// Failing episode, counted from 0.
    pub episode: u64,
    /// Description of the difference, after shrinking.
    pub message: String,
    /// Steps that reproduce it, after shrinking.
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
            // All steps are drawn in advance, so that shrinking can remove any of them.
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
        self.omitted += tally.omitted;
        self.checks += tally.checks;
        self.reopened += tally.reopened;
        self.collected += tally.collected;
        self.folded += tally.folded;
        self.contents += tally.contents;
        self.gone += tally.gone;
    }
}

/// Returns a step as text, without default attributes.
fn brief(step: &Step) -> String {
    format!("{step:?}").replace(&format!("{:?}", SetAttrs::default()), "-")
}

/// Removes steps that the failure does not need: first runs of steps, halving their length, then parts of
/// single steps.
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
                    // The failure may come earlier now; the steps after it are not needed.
                    fewer.truncate(index + 1);
                    (steps, message) = (fewer, why);
                }
                Ok(_) => start += length,
            }
        }
        // At length 1 the pass is repeated while it removes anything: each removal may make others possible.
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

    use super::*;
    use crate::fs::planted::{Bug, Planted};
    use crate::subject::Store;

    async fn memory() -> Subject {
        Subject::memory()
    }

    #[test]
    fn memory_engine_matches_itself() {
        let config = ModelConfig::from_env(10_000);
        let stats = run(config, memory).unwrap_or_else(|failure| panic!("{failure}"));
        // If most batches were rejected, the run would prove little.
        assert!(stats.ops >= config.ops && stats.commits * 4 > stats.ops && stats.checks > 0, "{stats:?}");
    }

    #[test]
    fn retention_without_an_account_is_a_failure() {
        let subject = || async { Subject { store: Store::Absent, retained: true, ..memory().await } };
        let failure = run(ModelConfig { ops: 100, seed: 1 }, subject).expect_err("nothing can be set");
        assert!(failure.message.contains("the subject has no account"), "{failure}");
    }

    #[test]
    fn model_catches_and_shrinks_planted_faults() {
        let plain = Bug::SEQUENTIAL.map(|bug| (bug, false));
        for (bug, retained) in plain.into_iter().chain(Bug::RETAINED.map(|bug| (bug, true))) {
            let planted = || async move {
                let subject = Subject::memory();
                Subject { fs: Arc::new(Planted::new(subject.fs, bug)), retained, ..subject }
            };
            let failure = match run(ModelConfig { ops: 20_000, seed: 7 }, planted) {
                Ok(stats) => panic!("{bug:?} was not caught: {stats:?}"),
                Err(failure) => failure,
            };
            // A bug that depends on the number of commits needs more of the steps before it.
            assert!(failure.steps.len() <= 20, "{bug:?} was not shrunk: {failure}");
        }
    }
}
