//! Readiness of a server: whether a load balancer should send it requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use garth_engine::Home;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// Time limit of a check.
const CHECK_TIME: Duration = Duration::from_secs(2);

/// Age up to which a check is used again. Anybody may ask, so the number of asks must not set that of checks.
const FRESH: Duration = Duration::from_millis(200);

/// Readiness of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// The server stops.
    Stopping,
    /// The storage fails, or does not answer in time.
    Storage,
    /// The disk has too little free space.
    Disk,
}

impl State {
    /// Returns the reason why the server is not ready; `None` if it is.
    pub(crate) const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Ready => None,
            Self::Stopping => Some("the server stops"),
            Self::Storage => Some("the storage of the server does not answer"),
            Self::Disk => Some("the disk of the server has too little free space"),
        }
    }
}

/// Checks of the readiness of one server.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    stopping: AtomicBool,
    checks: Mutex<Checks>,
}

#[derive(Debug, Default)]
struct Checks {
    last: Option<(Instant, State)>,
    /// Check that has not ended, perhaps one that exceeded its time: no other one begins before its end, or
    /// a disk that hangs would collect them.
    running: Option<JoinHandle<State>>,
}

impl Readiness {
    /// Makes the server unready for good.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Returns the present state. The storage is asked unless that was done a moment ago.
    pub(crate) async fn state(&self, home: &Arc<dyn Home>, min_free: u64) -> State {
        if self.stopping.load(Ordering::Acquire) {
            return State::Stopping;
        }
        let mut checks = self.checks.lock().await;
        if let Some((at, state)) = checks.last
            && at.elapsed() < FRESH
        {
            return state;
        }
        let running = checks.running.get_or_insert_with(|| tokio::spawn(check(Arc::clone(home), min_free)));
        let state = match timeout(CHECK_TIME, running).await {
            Ok(checked) => {
                checks.running = None;
                checked.unwrap_or(State::Storage)
            }
            Err(_) => State::Storage,
        };
        let before = checks.last.replace((Instant::now(), state)).map(|(_, state)| state);
        match state.reason() {
            Some(reason) if before != Some(state) => tracing::warn!(reason, "not ready"),
            None if before.is_some_and(|before| before != State::Ready) => tracing::info!("ready again"),
            _ => {}
        }
        state
    }
}

async fn check(home: Arc<dyn Home>, min_free: u64) -> State {
    // Reads one row of the control data, which every request needs.
    if let Err(error) = home.accounts("", 1).await {
        tracing::warn!(%error, "the accounts cannot be listed");
        return State::Storage;
    }
    match home.free_space().await {
        Ok(Some(free)) if free < min_free => State::Disk,
        Ok(_) => State::Ready,
        Err(_) => State::Storage,
    }
}

#[cfg(test)]
mod tests {
    use garth_engine::{DataDir, Env};

    use super::*;

    fn home(folder: &tempfile::TempDir) -> Arc<dyn Home> {
        Arc::new(DataDir::open(folder.path(), Env::system(), garth_agent::registry()).unwrap())
    }

    #[tokio::test]
    async fn little_free_space_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        assert_eq!(Readiness::default().state(&home, 1).await, State::Ready);
        assert_eq!(Readiness::default().state(&home, u64::MAX).await, State::Disk);
    }

    #[tokio::test]
    async fn stopping_server_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let (home, readiness) = (home(&folder), Readiness::default());
        assert_eq!(readiness.state(&home, 0).await, State::Ready);
        readiness.stop();
        assert_eq!(readiness.state(&home, 0).await, State::Stopping);
    }

    #[tokio::test(start_paused = true)]
    async fn check_that_hangs_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let (home, readiness) = (home(&folder), Readiness::default());
        readiness.checks.lock().await.running = Some(tokio::spawn(std::future::pending()));
        let begun = Instant::now();
        assert_eq!(readiness.state(&home, 0).await, State::Storage);
        assert_eq!(begun.elapsed(), CHECK_TIME);
        // The answer is used again for a moment.
        assert_eq!(readiness.state(&home, 0).await, State::Storage);
        assert_eq!(begun.elapsed(), CHECK_TIME);
        tokio::time::advance(FRESH).await;
        assert_eq!(readiness.state(&home, 0).await, State::Storage);
        assert!(readiness.checks.lock().await.running.is_some(), "the same check");
    }
}
