//! The threads that write, shared by all accounts of the process: ten thousand open accounts do not mean ten thousand
//! threads, and a few accounts still reach the disk side by side.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;

/// Most threads. They mostly wait for fsync, so there are more of them than cores.
const THREADS: usize = 8;

/// A piece of work for the pool.
pub(crate) trait Work: Send + Sync {
    /// Does some of it; gives itself back if there may be more, which then waits in line behind other accounts.
    fn run(self: Arc<Self>) -> Option<Arc<dyn Work>>;
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<dyn Work>>,
    threads: usize,
    idle: usize,
}

#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    more: Condvar,
}

static POOL: OnceLock<Pool> = OnceLock::new();

/// Has `work` done soon by some thread; `false` if the system gives no thread to do it.
pub(crate) fn submit(work: Arc<dyn Work>) -> bool {
    let pool = POOL.get_or_init(Pool::default);
    let mut queue = pool.queue.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.idle <= queue.waiting.len() && queue.threads < THREADS {
        let started = thread::Builder::new().name("garth-writer".to_owned()).spawn(move || work_off(pool));
        match started {
            Ok(_) => queue.threads += 1,
            Err(_) if queue.threads == 0 => return false,
            Err(_) => {}
        }
    }
    queue.waiting.push_back(work);
    drop(queue);
    pool.more.notify_one();
    true
}

/// Whether no work waits for a thread.
pub(crate) fn is_free() -> bool {
    let queue = |pool: &'static Pool| pool.queue.lock().unwrap_or_else(PoisonError::into_inner);
    POOL.get().is_none_or(|pool| queue(pool).waiting.is_empty())
}

fn work_off(pool: &'static Pool) {
    let mut more = None;
    loop {
        let mut queue = pool.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // nobody need be woken for it: this thread takes the first in line itself
        queue.waiting.extend(more.take());
        queue.idle += 1;
        let work = loop {
            match queue.waiting.pop_front() {
                Some(work) => break work,
                None => queue = pool.more.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        };
        queue.idle -= 1;
        drop(queue);
        // the panic hook has told of it; the thread goes on for the other accounts
        more = catch_unwind(AssertUnwindSafe(|| work.run())).unwrap_or_default();
    }
}
