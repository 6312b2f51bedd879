//! Trees of which tests end the past: one of each engine, on a clock that the test moves.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::env::ManualClock;
use garth_engine::model::{Batch, ByteRange, HistoryPage, Moment, Seq, Timestamp, Version};
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, Retention};
use garth_engine::rule::sample::registry;
use garth_engine::{AccountStore, Env, Error, FileSystem};
use garth_testkit::tools::{at, write};

use super::stores::{self, Kept};

/// Time before the first commit of a [`Tree`].
pub(crate) const START: Timestamp = Timestamp(1_767_225_600_000_000_000);

/// Grace period of a collection.
pub(crate) const GRACE: Duration = Duration::from_secs(600);

/// Returns a retention that keeps the last commits.
pub(crate) fn keeping_commits(commits: u64) -> Retention {
    Retention { commits: Some(commits), ..Retention::default() }
}

/// Returns a retention that keeps old content for some time, given by path class, in seconds.
pub(crate) fn keeping_content(classes: &[(&str, u64)]) -> Retention {
    let limit = |(pattern, seconds): &(&str, u64)| ContentLimit {
        pattern: PathPattern::parse(pattern).unwrap(),
        keep: Duration::from_secs(*seconds),
    };
    Retention { content: classes.iter().map(limit).collect(), ..Retention::default() }
}

pub(crate) enum Engine {
    Memory(Arc<MemoryFs>),
    Stored(Arc<dyn AccountStore>),
}

/// A tree with one commit a second.
pub(crate) struct Tree {
    pub(crate) engine: Engine,
    pub(crate) clock: ManualClock,
    _kept: Option<Kept>,
}

impl Tree {
    /// Returns a tree of each engine.
    pub(crate) fn both() -> [Self; 2] {
        let [(one, clock), (other, beside)] = [Env::manual(START), Env::manual(START)];
        let memory = Arc::new(MemoryFs::new(one, registry()));
        let (stored, kept) = stores::account(other, &beside);
        [
            Self { engine: Engine::Memory(memory), clock, _kept: None },
            Self { engine: Engine::Stored(stored), clock: beside, _kept: Some(kept) },
        ]
    }

    pub(crate) fn fs(&self) -> &dyn FileSystem {
        match &self.engine {
            Engine::Memory(fs) => &**fs,
            Engine::Stored(fs) => &**fs,
        }
    }

    pub(crate) async fn commit(&self, batch: impl Into<Batch>) -> Seq {
        self.clock.advance(Duration::from_secs(1));
        self.fs().commit(batch.into()).await.unwrap().seq
    }

    /// Writes a file in each of these commits, their numbers.
    pub(crate) async fn fill(&self, path: &str, commits: RangeInclusive<u64>) {
        for number in commits {
            assert_eq!(self.commit(write(path, number.to_string())).await, Seq(number));
        }
    }

    /// Ends the past as a retention says. Returns the first readable commit.
    pub(crate) async fn retain(&self, retention: Retention) -> Seq {
        match &self.engine {
            Engine::Memory(fs) => {
                fs.set_retention(retention).unwrap();
                fs.collect_now();
                fs.retention().oldest
            }
            Engine::Stored(fs) => {
                fs.set_retention(retention).await.unwrap();
                fs.gc(Duration::ZERO).await.unwrap();
                fs.retention().await.unwrap().oldest
            }
        }
    }

    /// Ends the past before the last `commits` commits. Returns the first readable commit.
    pub(crate) async fn keep(&self, commits: u64) -> Seq {
        let head = self.fs().head().await.unwrap().seq;
        let oldest = self.retain(keeping_commits(commits)).await;
        assert_eq!(oldest, Seq(head.0 - commits));
        oldest
    }

    /// Checks the files of an account that has any.
    pub(crate) async fn assert_sound(&self) {
        if let Engine::Stored(fs) = &self.engine {
            assert_eq!(fs.fsck().await.unwrap().findings, []);
        }
    }
}

pub(crate) async fn text(fs: &dyn FileSystem, path: &str) -> String {
    String::from_utf8(fs.read(&at(path), ByteRange::ALL).await.unwrap().to_vec()).unwrap()
}

pub(crate) async fn past(fs: &dyn FileSystem, seq: u64) -> Result<Arc<dyn FileSystem>, Error> {
    fs.as_of(&Moment::Seq(Seq(seq))).await
}

pub(crate) async fn history(fs: &dyn FileSystem, path: &str) -> Result<Vec<Version>, Error> {
    let found = fs.history(&at(path), &HistoryPage::default()).await?;
    assert!(!found.more);
    Ok(found.items)
}

pub(crate) fn commits(versions: &[Version]) -> Vec<u64> {
    versions.iter().map(|version| version.id.seq.0).collect()
}
