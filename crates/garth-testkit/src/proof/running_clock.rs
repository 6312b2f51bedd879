//! Clock that runs in real time and can be put forward, so that grace periods pass in seconds. A clock that
//! stands still would not do: steps of maintenance end by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use garth_engine::Env;
use garth_engine::env::ManualClock;

/// Interval at which the clock is set: less than the shortest step of maintenance.
const INTERVAL: Duration = Duration::from_millis(1);

/// Clock whose thread ends when it is dropped.
#[derive(Debug)]
pub(super) struct RunningClock {
    clock: ManualClock,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RunningClock {
    /// Starts a clock at the time of the machine. Returns it with its environment.
    pub(super) fn start() -> (Env, Self) {
        let real = Env::system();
        let (env, clock) = Env::manual(real.now());
        let done = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (clock, done) = (clock.clone(), Arc::clone(&done));
            move || {
                let mut before = real.instant();
                while !done.load(Ordering::Relaxed) {
                    real.sleep(INTERVAL);
                    let now = real.instant();
                    clock.advance(now - before);
                    before = now;
                }
            }
        });
        (env, Self { clock, done, thread: Some(thread) })
    }

    /// Puts the clock forward.
    pub(super) fn skip(&self, time: Duration) {
        self.clock.advance(time);
    }
}

impl Drop for RunningClock {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        // `Err` is a panic, which the panic hook has reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
