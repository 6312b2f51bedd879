//! Tickers: call registered objects at an interval, on one thread for all accounts of a data folder. The
//! thread exists only while something is registered.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::threads::lock::lock;

/// Object that is called at an interval, as long as it exists.
pub(crate) trait Tick: Send + Sync {
    /// Runs once. Returns true to be called again.
    fn tick(self: Arc<Self>) -> bool;
}

#[derive(Default)]
struct State {
    watched: Vec<Weak<dyn Tick>>,
    /// Thread, which may be about to end.
    thread: Option<JoinHandle<()>>,
    running: bool,
    stopping: bool,
}

struct Shared {
    name: &'static str,
    every: Duration,
    state: Mutex<State>,
    stop: Condvar,
    /// Held during a round: the objects being called are in no list then.
    turn: Mutex<()>,
}

/// Ticker whose thread ends when it is dropped, or when no object is left.
pub(crate) struct Ticker(Arc<Shared>);

impl Ticker {
    /// Returns a ticker. The interval is in real time, whatever the clock of [`crate::Env`] says: it is about
    /// other processes.
    pub(crate) fn new(name: &'static str, every: Duration) -> Self {
        let (state, stop, turn) = Default::default();
        Self(Arc::new(Shared { name, every, state, stop, turn }))
    }

    /// Registers `watched` until it returns false. Returns `false` if the system provides no thread now:
    /// calls start once a later `add` gets one.
    pub(crate) fn add(&self, watched: &Arc<impl Tick + 'static>) -> bool {
        let mut state = self.0.lock();
        let weak: Weak<dyn Tick> = Arc::downgrade(watched) as _;
        state.watched.push(weak);
        if !state.running {
            let shared = Arc::clone(&self.0);
            match thread::Builder::new().name(self.0.name.to_owned()).spawn(move || shared.run()) {
                // The previous thread has ended, or is about to: `running` is false, so it does not touch the
                // state again.
                Ok(thread) => state.thread = Some(thread),
                Err(error) => {
                    tracing::warn!(%error, thread = self.0.name, "a thread could not be started");
                    return false;
                }
            }
            state.running = true;
        }
        true
    }

    /// Calls every object now.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn tick(&self) {
        let turn = lock(&self.0.turn);
        drop(self.0.round());
        drop(turn);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        let thread = {
            let mut state = self.0.lock();
            state.stopping = true;
            state.thread.take()
        };
        self.0.stop.notify_all();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // `Err` is a panic, which the panic hook has reported.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn run(&self) {
        loop {
            let state = self.lock();
            let (state, _) = self
                .stop
                .wait_timeout_while(state, self.every, |state| !state.stopping)
                .unwrap_or_else(PoisonError::into_inner);
            if state.stopping {
                return;
            }
            drop(state);
            // Taken before the list is emptied, so that `tick` finds all objects in it.
            let _turn = lock(&self.turn);
            let mut state = self.round();
            // Under the lock that `round` returned: an `add` in between would rely on a thread that ends.
            if state.watched.is_empty() {
                state.running = false;
                return;
            }
        }
    }

    /// Calls every object once, without the lock: an object may register another one.
    fn round(&self) -> MutexGuard<'_, State> {
        let mut watched = std::mem::take(&mut self.lock().watched);
        // A panic of one, which the panic hook reports, must not end the calls of the others.
        watched.retain(|watched| {
            watched.upgrade().is_some_and(|watched| {
                panic::catch_unwind(AssertUnwindSafe(|| watched.tick())).unwrap_or(true)
            })
        });
        let mut state = self.lock();
        state.watched.append(&mut watched);
        state
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Returns true until it was called as often as its count says.
    struct Times(AtomicUsize);

    impl Tick for Times {
        fn tick(self: Arc<Self>) -> bool {
            self.0.fetch_sub(1, Ordering::SeqCst) > 1
        }
    }

    fn times(count: usize) -> Arc<Times> {
        Arc::new(Times(AtomicUsize::new(count)))
    }

    fn often() -> Ticker {
        Ticker::new("often", Duration::from_millis(1))
    }

    /// Returns a ticker whose thread sleeps for as long as the test lasts.
    fn seldom() -> Ticker {
        Ticker::new("seldom", Duration::from_secs(3600))
    }

    /// Waits for the thread to end by itself.
    fn ended(ticker: &Ticker) {
        let thread = ticker.0.lock().thread.take().expect("it was started");
        thread.join().unwrap();
        assert!(!ticker.0.lock().running);
    }

    #[test]
    fn ticker_thread_runs_only_while_needed() {
        let ticker = often();
        assert!(ticker.0.lock().thread.is_none());
        for _ in 0..2 {
            let [once, twice] = [1, 2].map(times);
            // Both before the first round.
            let turn = lock(&ticker.0.turn);
            assert!(ticker.add(&once) && ticker.add(&twice));
            drop(turn);
            ended(&ticker);
            assert_eq!([&once, &twice].map(|times| times.0.load(Ordering::SeqCst)), [0, 0]);
        }
    }

    #[test]
    fn ticker_thread_ends_with_owner_and_watched() {
        let ticker = seldom();
        let lasting = times(usize::MAX);
        ticker.add(&lasting);
        let shared = Arc::downgrade(&ticker.0);
        assert_eq!(shared.strong_count(), 2, "the ticker and its thread");
        drop(ticker);
        assert_eq!(shared.strong_count(), 0);
        let ticker = often();
        ticker.add(&lasting);
        drop(lasting);
        ended(&ticker);
    }

    #[test]
    fn ticker_calls_watched_objects_while_alive() {
        let ticker = seldom();
        let [first, second] = [9, 9].map(times);
        ticker.add(&first);
        ticker.add(&second);
        ticker.tick();
        drop(second);
        ticker.tick();
        assert_eq!(first.0.load(Ordering::SeqCst), 7);
        assert_eq!(ticker.0.lock().watched.len(), 1, "what is gone is forgotten");
    }

    /// Panics once.
    struct Panics(AtomicUsize);

    impl Tick for Panics {
        fn tick(self: Arc<Self>) -> bool {
            assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "planted");
            true
        }
    }

    #[test]
    fn a_panic_ends_no_other_call() {
        let ticker = seldom();
        let panics = Arc::new(Panics(AtomicUsize::new(0)));
        let lasting = times(9);
        ticker.add(&panics);
        ticker.add(&lasting);
        ticker.tick();
        ticker.tick();
        assert_eq!(lasting.0.load(Ordering::SeqCst), 7);
        assert_eq!(panics.0.load(Ordering::SeqCst), 2);
    }
}
