//! Signal that the server stops, for calls that work for minutes: requests that have begun are finished, and
//! these would keep the server running.

use garth_engine::{Error, ErrorKind, Result};
use tokio::sync::watch;

/// Signal that the server stops. The default one never comes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopping(Option<watch::Receiver<bool>>);

impl Stopping {
    /// Returns the signal that comes when `stopping` is true, or its sender is dropped.
    pub(crate) fn new(stopping: watch::Receiver<bool>) -> Self {
        Self(Some(stopping))
    }

    /// Waits until the server stops.
    pub(crate) async fn stopped(&self) {
        match &self.0 {
            // An error means that the sender was dropped with the server, which has the same effect.
            Some(stopping) => drop(stopping.clone().wait_for(|stop| *stop).await),
            None => std::future::pending().await,
        }
    }

    /// Returns the outcome of work, which is dropped when the server stops.
    ///
    /// # Errors
    /// `WouldBlock` when the server stops, with the advice; from the work.
    pub(crate) async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T>>,
        advice: &str,
    ) -> Result<T> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.stopped() => Err(Error::new(ErrorKind::WouldBlock, format!("the server stops; {advice}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stop_ends_work_that_waits() {
        let (stop, stopping) = watch::channel(false);
        let stopping = Stopping::new(stopping);
        assert_eq!(stopping.unless_stopped(async { Ok(1) }, "").await.unwrap(), 1);
        let waiting = stopping.unless_stopped(std::future::pending::<Result<()>>(), "try again");
        let told = async {
            tokio::task::yield_now().await;
            stop.send_replace(true);
        };
        let (waited, ()) = tokio::join!(waiting, told);
        let error = waited.unwrap_err();
        assert!(error.is(ErrorKind::WouldBlock) && error.message().contains("try again"), "{error}");
        // Work that is done already counts.
        assert_eq!(stopping.unless_stopped(async { Ok(2) }, "").await.unwrap(), 2);
        assert_eq!(Stopping::default().unless_stopped(async { Ok(3) }, "").await.unwrap(), 3);
    }
}
