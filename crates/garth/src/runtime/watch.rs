//! Looks many times a second at what other processes may have changed: one thread for all accounts, which is
//! there only as long as anybody waits for that.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Interval. A look is one row read.
const EVERY: Duration = Duration::from_millis(100);

/// Something to look at.
pub(crate) trait Look: Send + Sync {
    /// Looks once; whether to look again.
    fn look(&self) -> bool;
}

#[derive(Default)]
struct State {
    watched: Vec<Weak<dyn Look>>,
    /// The thread, also one that is about to end.
    thread: Option<JoinHandle<()>>,
    running: bool,
    stopping: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    stop: Condvar,
}

/// See the module. Its thread ends when it is dropped, or nothing is left to look at.
pub(crate) struct Watch(Arc<Shared>);

impl Watch {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// Looks at `watched` until it says that it need not be; `false` if the system gives no thread for that.
    pub(crate) fn add(&self, watched: &Arc<impl Look + 'static>) -> bool {
        let mut state = self.0.lock();
        if !state.running {
            let shared = Arc::clone(&self.0);
            match thread::Builder::new().name("garth-watch".to_owned()).spawn(move || shared.run()) {
                // the one before has ended, or is about to
                Ok(thread) => state.thread = Some(thread),
                Err(error) => {
                    tracing::warn!(%error, "no thread looks for commits of other processes");
                    return false;
                }
            }
            state.running = true;
        }
        let weak: Weak<dyn Look> = Arc::downgrade(watched) as _;
        state.watched.push(weak);
        true
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let thread = {
            let mut state = self.0.lock();
            state.stopping = true;
            state.thread.take()
        };
        self.0.stop.notify_all();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // `Err` is a panic, which the panic hook has reported
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let state = self.lock();
            let (mut state, _) = self
                .stop
                .wait_timeout_while(state, EVERY, |state| !state.stopping)
                .unwrap_or_else(PoisonError::into_inner);
            if state.stopping {
                return;
            }
            let mut watched = std::mem::take(&mut state.watched);
            drop(state);
            watched.retain(|watched| watched.upgrade().is_some_and(|watched| watched.look()));
            let mut state = self.lock();
            state.watched.append(&mut watched);
            if state.watched.is_empty() {
                state.running = false;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Wants to be looked at so many times.
    struct Times(AtomicUsize);

    impl Look for Times {
        fn look(&self) -> bool {
            self.0.fetch_sub(1, Ordering::SeqCst) > 1
        }
    }

    fn times(count: usize) -> Arc<Times> {
        Arc::new(Times(AtomicUsize::new(count)))
    }

    /// Waits for the thread to end by itself.
    fn ended(watch: &Watch) {
        let thread = watch.0.lock().thread.take().expect("it was started");
        thread.join().unwrap();
        assert!(!watch.0.lock().running);
    }

    #[test]
    fn the_thread_is_there_only_while_there_is_something_to_look_at() {
        let watch = Watch::new();
        assert!(watch.0.lock().thread.is_none());
        for _ in 0..2 {
            let [once, twice] = [1, 2].map(times);
            watch.add(&once);
            watch.add(&twice);
            ended(&watch);
            assert_eq!([&once, &twice].map(|times| times.0.load(Ordering::SeqCst)), [0, 0]);
        }
    }

    #[test]
    fn the_thread_ends_with_its_owner_and_with_what_it_looks_at() {
        let watch = Watch::new();
        let lasting = times(usize::MAX);
        watch.add(&lasting);
        let shared = Arc::downgrade(&watch.0);
        drop(watch);
        assert_eq!(shared.strong_count(), 0);
        let watch = Watch::new();
        watch.add(&lasting);
        drop(lasting);
        ended(&watch);
    }
}
