//! Counts of the work of an open home, for metrics: what [`Home::stats`](crate::Home::stats) returns, and the
//! recorders behind it. Recording is an atomic addition or two, without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Classes of a distribution. The last one has no upper bound.
const CLASSES: usize = 16;

/// Upper bounds of the classes of times, in nanoseconds: 100 µs to 10 s.
static TIMES: [u64; CLASSES - 1] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
];

/// Upper bounds of the classes of counts. A group has at most 512 commits.
static SIZES: [u64; CLASSES - 1] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 96, 128, 256, 512];

/// Counts of the work of an open home since it was opened, and its present state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HomeStats {
    /// Queues of the threads, by kind of work: `writer`, `reader`, `blocking`, `upload`, `maintainer` and
    /// `deleter`; `commit`, the commits and tasks that wait for the writer of their account; `compute`.
    pub queues: Vec<QueueStats>,
    /// Commits of accounts.
    pub commits: CommitStats,
    /// Work on search indexes.
    pub index: IndexStats,
    /// Checkpoints of databases.
    pub checkpoints: CheckpointStats,
    /// Uploads.
    pub uploads: UploadStats,
    /// Accounts whose tree is open.
    pub open_accounts: u64,
    /// Stored bytes of these accounts, as of the last minute. Accounts that are closed do not count.
    pub stored_bytes: u64,
    /// Open connections to databases, and pack files open for reading.
    pub connections: u64,
    /// Idle ones among them.
    pub idle_connections: u64,
    /// Input of the work that is computed or waits for it, in bytes.
    pub compute_bytes: u64,
    /// Work that was refused because too much was queued.
    pub compute_refused: u64,
}

/// Queue of one kind of work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Kind of work.
    pub name: &'static str,
    /// Pieces of work that wait.
    pub waiting: u64,
    /// Times in nanoseconds that pieces of work waited until they began.
    pub waits: Distribution,
}

/// Commits of accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitStats {
    /// Commits that succeeded, including repeats of earlier ones.
    pub committed: u64,
    /// Commits that were refused, for example by a precondition or a rule.
    pub refused: u64,
    /// Commits that failed with their group.
    pub failed: u64,
    /// Number of commits of each group. A group is one transaction.
    pub group_sizes: Distribution,
    /// Times in nanoseconds of the durable end of a transaction: its write to the log and the sync.
    pub syncs: Distribution,
}

/// Work on search indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexStats {
    /// Open accounts whose index is behind their files, or has segments to merge.
    pub behind: u64,
    /// Steps of work that succeeded.
    pub steps: u64,
    /// Steps that failed. The account's index is then left as it is until the account is opened again.
    pub failures: u64,
}

/// Checkpoints of databases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointStats {
    /// Checkpoints beside commits.
    pub passive: u64,
    /// Checkpoints for which commits waited, including the one before the first commit of an open account.
    pub restart: u64,
    /// Checkpoints that failed.
    pub failures: u64,
    /// Times of checkpoints in nanoseconds.
    pub times: Distribution,
}

/// Uploads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploadStats {
    /// Uploads in progress.
    pub open: u64,
    /// Uploads that were finished.
    pub finished: u64,
    /// Bytes of the finished ones.
    pub bytes: u64,
}

/// Distribution of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Distribution {
    /// Upper bounds of the classes, inclusive.
    pub bounds: &'static [u64],
    /// Values in each class. The last class, of the values beyond all bounds, has no bound.
    pub counts: Vec<u64>,
    /// Sum of the values.
    pub sum: u64,
}

impl Distribution {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Returns a point in time, to measure how long something takes.
// Executors and compute threads measure waits, and `Env` is built on them.
#[allow(clippy::disallowed_methods)]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Number that is counted up, and down again if it is a state.
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the number.
    pub fn add(&self, number: u64) {
        // Relaxed: a count protects no other memory.
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// Subtracts from the number.
    pub fn sub(&self, number: u64) {
        self.0.fetch_sub(number, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Recorder of a distribution.
#[derive(Debug)]
#[doc(hidden)]
pub struct Recorder {
    bounds: &'static [u64; CLASSES - 1],
    counts: [Count; CLASSES],
    sum: Count,
}

impl Recorder {
    fn new(bounds: &'static [u64; CLASSES - 1]) -> Self {
        Self { bounds, counts: Default::default(), sum: Count::default() }
    }

    /// Returns a recorder of times.
    pub fn of_times() -> Self {
        Self::new(&TIMES)
    }

    /// Returns a recorder of sizes of groups.
    pub fn of_sizes() -> Self {
        Self::new(&SIZES)
    }

    /// Records a value.
    pub fn record(&self, value: u64) {
        let class = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(class) {
            count.add(1);
        }
        self.sum.add(value);
    }

    /// Records a time in nanoseconds.
    pub fn record_time(&self, time: Duration) {
        self.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the distribution of the values so far.
    pub fn read(&self) -> Distribution {
        let counts = self.counts.iter().map(Count::get).collect();
        Distribution { bounds: self.bounds, counts, sum: self.sum.get() }
    }
}

/// Recorder of a queue.
#[derive(Debug)]
#[doc(hidden)]
pub struct QueueRecorder {
    waiting: Count,
    waits: Recorder,
}

impl QueueRecorder {
    /// Returns the recorder of an empty queue.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { waiting: Count::default(), waits: Recorder::of_times() })
    }

    /// Counts a piece of work that begins to wait.
    pub fn enter(self: &Arc<Self>) -> Waiting {
        self.waiting.add(1);
        Waiting { queue: Arc::clone(self), since: instant() }
    }

    /// Returns the statistics of the queue under this name.
    pub fn read(&self, name: &'static str) -> QueueStats {
        QueueStats { name, waiting: self.waiting.get(), waits: self.waits.read() }
    }
}

/// Counts a piece of work as waiting until it is dropped.
#[derive(Debug)]
#[doc(hidden)]
pub struct Waiting {
    queue: Arc<QueueRecorder>,
    since: Instant,
}

impl Waiting {
    /// Ends the wait of work that begins. Work that is given up is dropped instead, and its time not counted.
    pub fn end(self) {
        self.queue.waits.record_time(self.since.elapsed());
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue.waiting.sub(1);
    }
}

/// Recorders of an open home.
#[derive(Debug)]
#[doc(hidden)]
pub struct Counters {
    /// Queue of the commits and tasks that wait for the writer of their account.
    pub commit_queue: Arc<QueueRecorder>,
    /// Recorder of [`CommitStats::committed`].
    pub committed: Count,
    /// Recorder of [`CommitStats::refused`].
    pub refused: Count,
    /// Recorder of [`CommitStats::failed`].
    pub failed: Count,
    /// Recorder of [`CommitStats::group_sizes`].
    pub group_sizes: Recorder,
    /// Recorder of [`CommitStats::syncs`].
    pub syncs: Recorder,
    /// Recorder of [`IndexStats::behind`].
    pub index_behind: Count,
    /// Recorder of [`IndexStats::steps`].
    pub index_steps: Count,
    /// Recorder of [`IndexStats::failures`].
    pub index_failures: Count,
    /// Recorder of [`CheckpointStats::passive`].
    pub passive: Count,
    /// Recorder of [`CheckpointStats::restart`].
    pub restart: Count,
    /// Recorder of [`CheckpointStats::failures`].
    pub checkpoint_failures: Count,
    /// Recorder of [`CheckpointStats::times`].
    pub checkpoint_times: Recorder,
    /// Recorder of [`UploadStats::open`].
    pub uploads_open: Count,
    /// Recorder of [`UploadStats::finished`].
    pub uploads_finished: Count,
    /// Recorder of [`UploadStats::bytes`].
    pub upload_bytes: Count,
    /// Recorder of [`HomeStats::open_accounts`].
    pub open_accounts: Count,
    /// Recorder of [`HomeStats::stored_bytes`].
    pub stored_bytes: Count,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            commit_queue: QueueRecorder::new(),
            committed: Count::default(),
            refused: Count::default(),
            failed: Count::default(),
            group_sizes: Recorder::of_sizes(),
            syncs: Recorder::of_times(),
            index_behind: Count::default(),
            index_steps: Count::default(),
            index_failures: Count::default(),
            passive: Count::default(),
            restart: Count::default(),
            checkpoint_failures: Count::default(),
            checkpoint_times: Recorder::of_times(),
            uploads_open: Count::default(),
            uploads_finished: Count::default(),
            upload_bytes: Count::default(),
            open_accounts: Count::default(),
            stored_bytes: Count::default(),
        }
    }
}

impl Counters {
    /// Adds the counts of these recorders to `stats`.
    pub fn read_into(&self, stats: &mut HomeStats) {
        stats.queues.push(self.commit_queue.read("commit"));
        stats.commits = CommitStats {
            committed: self.committed.get(),
            refused: self.refused.get(),
            failed: self.failed.get(),
            group_sizes: self.group_sizes.read(),
            syncs: self.syncs.read(),
        };
        stats.index = IndexStats {
            behind: self.index_behind.get(),
            steps: self.index_steps.get(),
            failures: self.index_failures.get(),
        };
        stats.checkpoints = CheckpointStats {
            passive: self.passive.get(),
            restart: self.restart.get(),
            failures: self.checkpoint_failures.get(),
            times: self.checkpoint_times.read(),
        };
        stats.uploads = UploadStats {
            open: self.uploads_open.get(),
            finished: self.uploads_finished.get(),
            bytes: self.upload_bytes.get(),
        };
        stats.open_accounts = self.open_accounts.get();
        stats.stored_bytes = self.stored_bytes.get();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_their_class() {
        let recorder = Recorder::of_sizes();
        for value in [0, 1, 2, 5, 512, 513] {
            recorder.record(value);
        }
        let read = recorder.read();
        assert_eq!((read.count(), read.sum), (6, 1033));
        let filled: Vec<(usize, u64)> = read.counts.into_iter().enumerate().filter(|(_, n)| *n > 0).collect();
        assert_eq!(filled, [(0, 2), (1, 1), (4, 1), (14, 1), (15, 1)]);
        for bounds in [&TIMES, &SIZES] {
            assert!(bounds.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn work_that_is_given_up_leaves_its_queue() {
        let queue = QueueRecorder::new();
        let (begun, dropped) = (queue.enter(), queue.enter());
        assert_eq!(queue.read("test").waiting, 2);
        begun.end();
        drop(dropped);
        let read = queue.read("test");
        assert_eq!((read.waiting, read.waits.count()), (0, 1));
    }
}
