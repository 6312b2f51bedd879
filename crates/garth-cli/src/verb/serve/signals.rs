//! Signals that stop a server.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::fail::{Failure, Result};
use crate::terminal;

/// Signals that stop a server.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).map_err(Failure::stdio)?;
        let terminate = signal(SignalKind::terminate()).map_err(Failure::stdio)?;
        Ok(Self { interrupt, terminate })
    }

    /// Waits for a signal. Returns the exit code of a process that it ends.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }

    /// Completes with the first signal. A second one ends the process at once: commits are whole or not
    /// there, whenever it ends.
    pub(super) async fn told_to_stop(mut self) {
        self.next().await;
        tracing::info!("stopping; requests in flight are finished, and a second signal stops at once");
        tokio::spawn(async move {
            let code = self.next().await;
            terminal::tell("stopped at once by a second signal; requests in flight were cut off");
            std::process::exit(code);
        });
    }
}
