//! Progress of long work on a terminal, and its end by Ctrl-C. Nothing is shown if stderr is not a terminal.

use std::future::Future;
use std::io::{self, Read};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

use crate::fail::{Failure, Result};
use crate::terminal;

/// Exit code of a process that SIGINT ended: 128 plus the number of the signal, as in shells.
pub(crate) const INTERRUPTED: u8 = 130;

/// Duration of work that shows no progress.
const QUIET: Duration = Duration::from_millis(500);

/// Returns a bar that counts entries, up to `total` if it is known.
pub(crate) fn entries(total: Option<u64>) -> ProgressBar {
    let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    styled(
        bar,
        match total {
            Some(_) => "{bar:30} {pos}/{len} entries  {elapsed}  {wide_msg}",
            None => "{spinner} {pos} entries  {elapsed}  {wide_msg}",
        },
    )
}

/// Returns a bar that counts bytes of an unknown total.
pub(crate) fn bytes() -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{spinner} {bytes}  {bytes_per_sec}  {elapsed}")
}

/// Returns a spinner with the message of [`show`].
pub(crate) fn spinner() -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{spinner} {wide_msg}")
}

/// Sets the message of a bar. The bar itself draws on the terminal.
#[expect(clippy::disallowed_methods, reason = "the text is safe for a terminal")]
pub(crate) fn show(bar: &ProgressBar, text: &str) {
    bar.set_message(terminal::one_line(text).into_owned());
}

/// Shows the elapsed time of `work`, if it takes longer than [`QUIET`].
pub(crate) async fn waiting<T>(message: &'static str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if !terminal::is_watched() {
        return work.await;
    }
    if let Ok(done) = tokio::time::timeout(QUIET, &mut work).await {
        return done;
    }
    let bar = styled(ProgressBar::new_spinner(), "{spinner} {msg}  {elapsed}").with_message(message);
    let done = work.await;
    bar.finish_and_clear();
    done
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    bar.set_style(ProgressStyle::with_template(template).expect("the templates of this file are valid"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Flag that is set when the user presses Ctrl-C.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles SIGINT. The first one stops the work between two entries, the second one ends the process.
    pub(crate) fn listen() -> Result<Self> {
        let interrupt = Self(Arc::new(AtomicBool::new(false)));
        let mut signals = signal(SignalKind::interrupt()).map_err(Failure::stdio)?;
        let pressed = interrupt.clone();
        tokio::spawn(async move {
            signals.recv().await;
            pressed.0.store(true, Ordering::SeqCst);
            terminal::tell("stopping; press Ctrl-C again to stop at once");
            signals.recv().await;
            std::process::exit(INTERRUPTED.into());
        });
        Ok(interrupt)
    }

    /// Fails if Ctrl-C was pressed.
    pub(crate) fn check(&self) -> Result {
        if self.0.load(Ordering::SeqCst) { Err(Failure::Reported(INTERRUPTED)) } else { Ok(()) }
    }

    /// Returns a reader of `from` whose reads fail after Ctrl-C.
    pub(crate) fn guard<R: Read>(&self, from: R) -> StoppableReader<R> {
        StoppableReader { from, interrupt: self.clone() }
    }
}

/// Reader that fails after Ctrl-C. Otherwise a long file would delay the stop.
pub(crate) struct StoppableReader<R> {
    from: R,
    interrupt: Interrupt,
}

impl<R: Read> Read for StoppableReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        // Not `Interrupted`, after which readers try again. Checked after the read: a program that writes to
        // the pipe gets the same Ctrl-C, and the end of its output is not the end of the archive.
        self.interrupt.check().map_err(|_| io::Error::other("stopped by Ctrl-C"))?;
        Ok(read)
    }
}
