//! Calls every open account once a minute: one thread for all accounts of a data folder, started with the
//! first.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Interval, in real time whatever the clock of [`crate::Env`] says: leases protect from other processes.
const EVERY: Duration = Duration::from_secs(60);

/// Something to do once a minute, as long as it exists.
pub(crate) trait Tick: Send + Sync {
    fn tick(self: Arc<Self>);
}

#[derive(Default)]
struct State {
    watched: Vec<Weak<dyn Tick>>,
    thread: Option<JoinHandle<()>>,
    stopping: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    stop: Condvar,
}

/// See the module. Its thread ends when it is dropped.
pub(crate) struct Timer(Arc<Shared>);

impl Timer {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// Has `watched` called once a minute.
    pub(crate) fn watch(&self, watched: &Arc<impl Tick + 'static>) {
        let mut state = self.0.lock();
        let weak: Weak<dyn Tick> = Arc::downgrade(watched) as _;
        state.watched.push(weak);
        if state.thread.is_none() {
            let shared = Arc::clone(&self.0);
            match thread::Builder::new().name("garth-timer".to_owned()).spawn(move || shared.run()) {
                Ok(thread) => state.thread = Some(thread),
                Err(error) => {
                    tracing::warn!(%error, "no thread renews leases; the next account opened tries again");
                }
            }
        }
    }

    #[cfg(feature = "faults")]
    pub(crate) fn tick(&self) {
        self.0.tick();
    }
}

impl Drop for Timer {
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
            let (state, _) = self
                .stop
                .wait_timeout_while(state, EVERY, |state| !state.stopping)
                .unwrap_or_else(PoisonError::into_inner);
            if state.stopping {
                return;
            }
            drop(state);
            self.tick();
        }
    }

    fn tick(&self) {
        let watched: Vec<_> = {
            let mut state = self.lock();
            state.watched.retain(|watched| watched.strong_count() > 0);
            state.watched.iter().filter_map(Weak::upgrade).collect()
        };
        watched.into_iter().for_each(Tick::tick);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Tick for Count {
        fn tick(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_thread_ends_with_its_owner() {
        let timer = Timer::new();
        let shared = Arc::downgrade(&timer.0);
        let watched = Arc::new(Count::default());
        timer.watch(&watched);
        assert_eq!(shared.strong_count(), 2, "the timer and its thread");
        drop(timer);
        assert_eq!(shared.strong_count(), 0);
    }

    #[test]
    fn what_is_watched_is_called_as_long_as_it_exists() {
        let timer = Timer::new();
        let [first, second] = [(); 2].map(|()| Arc::new(Count::default()));
        timer.watch(&first);
        timer.watch(&second);
        timer.0.tick();
        drop(second);
        timer.0.tick();
        assert_eq!(first.0.load(Ordering::SeqCst), 2);
        assert_eq!(timer.0.lock().watched.len(), 1, "what is gone is forgotten");
    }
}
