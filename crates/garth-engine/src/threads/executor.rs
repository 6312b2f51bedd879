//! Executors: pools of threads for writes, long reads and other blocking work, shared by all accounts of a
//! data folder. Ten thousand open accounts do not mean ten thousand threads, and several accounts still reach
//! the disk in parallel.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures::channel::oneshot;
use tracing::Span;

use super::lock::lock;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::{QueueRecorder, QueueStats, Waiting};

/// Time after which an idle thread ends: longer than the pauses of a busy program.
const IDLE: Duration = Duration::from_secs(10);

/// A piece of work.
pub(crate) trait Work: Send + Sync {
    /// Does a part of the work. Returns itself if more may remain; it then queues again, after other
    /// accounts.
    fn run(self: Arc<Self>) -> Option<Arc<dyn Work>>;

    /// Returns true if the wait of this work counts as one of its executor. Turns count their pieces instead.
    fn counts(&self) -> bool {
        true
    }
}

/// Work that is done in one part.
struct Job(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Work for Job {
    fn run(self: Arc<Self>) -> Option<Arc<dyn Work>> {
        let job = lock(&self.0).take();
        if let Some(job) = job {
            job();
        }
        None
    }
}

/// Result of a job that runs on another thread.
pub(super) struct Answer<T>(oneshot::Receiver<Result<T>>);

/// Returns a job that runs in the caller's span, and its result.
pub(super) fn answering<T: Send + 'static>(
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> (Box<dyn FnOnce() + Send>, Answer<T>) {
    let (answer, wait) = oneshot::channel();
    let span = Span::current();
    // A failed send means that nobody waits for the result any more.
    (Box::new(move || drop(answer.send(span.in_scope(job)))), Answer(wait))
}

impl<T> Answer<T> {
    /// Waits for the result. `is_begun` is false if the system provides no thread for the job.
    pub(super) async fn wait(self, is_begun: bool) -> Result<T> {
        if !is_begun {
            let message = "the system provides no thread; try again";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        let lost = |_| Err(Error::new(ErrorKind::Io, "the work ended without a result"));
        self.0.await.unwrap_or_else(lost)
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Option<Waiting>, Arc<dyn Work>)>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    stopping: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
    /// Time after which an idle thread ends.
    idle: Duration,
    recorder: Arc<QueueRecorder>,
}

/// Bounded pool of threads, started on demand. A thread ends after [`IDLE`] without work. Dropping the pool
/// runs all submitted work, then ends the threads.
pub(crate) struct Executor {
    shared: Arc<Shared>,
    /// Name of its threads.
    name: &'static str,
    /// Limit on threads.
    limit: usize,
}

impl Executor {
    pub(crate) fn new(name: &'static str, limit: usize) -> Self {
        Self::with_idle(name, limit, IDLE)
    }

    fn with_idle(name: &'static str, limit: usize, idle: Duration) -> Self {
        let (queue, more) = Default::default();
        let shared = Shared { queue, more, idle, recorder: QueueRecorder::new() };
        Self { shared: Arc::new(shared), name, limit: limit.max(1) }
    }

    /// Queues `work`. Returns `false` if no thread runs and the system provides none.
    pub(crate) fn submit(&self, work: Arc<dyn Work>) -> bool {
        let mut queue = self.shared.lock();
        // An idle thread may be claimed by work that waits already, so a new one is due unless more are
        // idle than pieces wait.
        if queue.idle <= queue.waiting.len() && queue.threads.len() < self.limit {
            let shared = Arc::clone(&self.shared);
            match thread::Builder::new().name(self.name.to_owned()).spawn(move || shared.run()) {
                Ok(thread) => queue.threads.push(thread),
                Err(_) if queue.threads.is_empty() => return false,
                // Another thread exists and will run the work later.
                Err(_) => {}
            }
        }
        queue.waiting.push_back(self.shared.counted(work));
        drop(queue);
        self.shared.more.notify_one();
        true
    }

    /// Runs `job` in the caller's span while the caller waits without a thread. The job runs to its end even
    /// if the caller stops waiting.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (job, answer) = answering(job);
        let is_begun = self.submit(Arc::new(Job(Mutex::new(Some(job)))));
        answer.wait(is_begun).await
    }

    /// Runs `job` in the background. Without a thread the job is not done.
    pub(crate) fn run_later(&self, job: impl FnOnce() + Send + 'static) {
        if !self.submit(Arc::new(Job(Mutex::new(Some(Box::new(job)))))) {
            tracing::warn!(thread = self.name, "a thread could not be started; its work is left for later");
        }
    }

    /// Counts a piece of work that begins to wait for a turn on these threads.
    pub(crate) fn enter(&self) -> Waiting {
        self.shared.recorder.enter()
    }

    /// Returns the counts of the queue, under a name of its kind of work.
    pub(crate) fn stats(&self, name: &'static str) -> QueueStats {
        self.shared.recorder.read(name)
    }

    /// Returns true if no work waits for a thread.
    pub(crate) fn is_free(&self) -> bool {
        self.shared.lock().waiting.is_empty()
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        let threads = {
            let mut queue = self.shared.lock();
            // Taken out first: a thread that ends removes itself from this list and needs the lock.
            queue.stopping = true;
            std::mem::take(&mut queue.threads)
        };
        self.shared.more.notify_all();
        // A thread cannot join itself: the last owner may run on one, which then ends by itself.
        let others = threads.into_iter().filter(|thread| thread.thread().id() != thread::current().id());
        for thread in others {
            // `Err` is a panic, which the panic hook has reported.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted(&self, work: Arc<dyn Work>) -> (Option<Waiting>, Arc<dyn Work>) {
        (work.counts().then(|| self.recorder.enter()), work)
    }

    fn run(&self) {
        let mut more = None;
        loop {
            let mut queue = self.lock();
            // No notification: this thread takes the first in line itself.
            queue.waiting.extend(more.take().map(|work| self.counted(work)));
            queue.idle += 1;
            let (waiting, work) = loop {
                match queue.waiting.pop_front() {
                    Some(work) => break work,
                    None if queue.stopping => return,
                    None => {
                        let waited = self.more.wait_timeout(queue, self.idle);
                        let (locked, end) = waited.unwrap_or_else(PoisonError::into_inner);
                        queue = locked;
                        // Work submitted in the last moment has counted on this thread.
                        if end.timed_out() && queue.waiting.is_empty() && !queue.stopping {
                            queue.idle -= 1;
                            let this = thread::current().id();
                            queue.threads.retain(|thread| thread.thread().id() != this);
                            return;
                        }
                    }
                }
            };
            queue.idle -= 1;
            drop(queue);
            if let Some(waiting) = waiting {
                waiting.end();
            }
            // The panic hook has reported it; the thread continues for the other accounts.
            more = catch_unwind(AssertUnwindSafe(|| work.run())).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;
    use futures::executor::block_on;

    use super::*;

    struct Count(AtomicUsize, usize);

    impl Work for Count {
        fn run(self: Arc<Self>) -> Option<Arc<dyn Work>> {
            (self.0.fetch_add(1, Ordering::SeqCst) + 1 < self.1).then_some(self as Arc<dyn Work>)
        }
    }

    #[test]
    fn drop_finishes_submitted_work() {
        let executor = Executor::new("test", 2);
        let works: Vec<_> = (0..10).map(|_| Arc::new(Count(AtomicUsize::new(0), 5))).collect();
        for work in &works {
            assert!(executor.submit(work.clone()));
        }
        drop(executor);
        assert!(works.iter().all(|work| work.0.load(Ordering::SeqCst) == 5));
    }

    struct Panics;

    impl Work for Panics {
        fn run(self: Arc<Self>) -> Option<Arc<dyn Work>> {
            panic!("as the test asks");
        }
    }

    #[test]
    fn panicking_job_costs_no_thread() {
        let executor = Executor::new("test", 1);
        assert!(executor.submit(Arc::new(Panics)));
        let work = Arc::new(Count(AtomicUsize::new(0), 1));
        assert!(executor.submit(work.clone()));
        drop(executor);
        assert_eq!(work.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn job_returns_result_even_if_abandoned() {
        let executor = Executor::new("test", 1);
        assert_eq!(block_on(executor.run(|| Ok(7))).unwrap(), 7);
        let lost = block_on(executor.run(|| -> Result<()> { panic!("as the test asks") }));
        assert!(lost.unwrap_err().is(ErrorKind::Io));
        let (done, told) = std::sync::mpsc::channel();
        let (given_up, go_on) = std::sync::mpsc::channel();
        let job = executor.run(move || {
            go_on.recv().expect("nobody waits any more");
            done.send(()).map_err(|_| Error::invalid("no"))
        });
        assert!(job.now_or_never().is_none());
        given_up.send(()).unwrap();
        told.recv().expect("it goes on");
    }

    #[test]
    fn idle_thread_ends_and_work_restarts_it() {
        let executor = Executor::with_idle("test", 1, Duration::ZERO);
        for round in 1..=3 {
            assert_eq!(block_on(executor.run(move || Ok(round))).unwrap(), round);
            while !executor.shared.lock().threads.is_empty() {
                thread::yield_now();
            }
            assert_eq!(executor.shared.lock().idle, 0);
        }
    }

    /// Work that owns the executor: its last owner is then a thread of the executor.
    struct Owner(Mutex<Option<Arc<Executor>>>);

    impl Work for Owner {
        fn run(self: Arc<Self>) -> Option<Arc<dyn Work>> {
            self.0.lock().unwrap().take();
            None
        }
    }

    #[test]
    fn executor_may_drop_on_its_own_thread() {
        let executor = Arc::new(Executor::new("test", 1));
        let shared = Arc::downgrade(&executor.shared);
        let owner = Arc::new(Owner(Mutex::new(Some(executor.clone()))));
        assert!(executor.submit(owner));
        drop(executor);
        while shared.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
