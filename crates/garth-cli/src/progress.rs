//! What long work shows on a terminal, and how Ctrl-C ends it. Nothing is shown where stderr is no terminal.

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

/// The exit code of a process that SIGINT ended: 128 and the signal's number, as shells count.
pub(crate) const INTERRUPTED: u8 = 130;

/// Work that takes less than this shows nothing.
const QUIET: Duration = Duration::from_millis(500);

/// Counts entries, towards `total` if that is known.
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

/// Counts bytes whose number is not known.
pub(crate) fn bytes() -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{spinner} {bytes}  {bytes_per_sec}  {elapsed}")
}

/// Shows a spinner and the message of [`show`].
pub(crate) fn spinner() -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{spinner} {wide_msg}")
}

/// Sets the message of a bar, which draws on the terminal by itself.
#[expect(clippy::disallowed_methods, reason = "the text is safe for a terminal")]
pub(crate) fn show(bar: &ProgressBar, text: &str) {
    bar.set_message(terminal::one_line(text).into_owned());
}

/// Shows how long `work` takes, once that is more than a moment.
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

/// Whether the user pressed Ctrl-C.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes SIGINT over: the first asks the work to stop between two entries, a second one ends the process.
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

    /// Fails once Ctrl-C was pressed.
    pub(crate) fn check(&self) -> Result {
        if self.0.load(Ordering::SeqCst) { Err(Failure::Reported(INTERRUPTED)) } else { Ok(()) }
    }

    /// `from`, whose reads fail once Ctrl-C was pressed.
    pub(crate) fn guard<R: Read>(&self, from: R) -> Guarded<R> {
        Guarded { from, interrupt: self.clone() }
    }
}

/// A source that ends with an error once Ctrl-C was pressed: else a long file would delay the stop.
pub(crate) struct Guarded<R> {
    from: R,
    interrupt: Interrupt,
}

impl<R: Read> Read for Guarded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        // Not `Interrupted`, after which readers try again. Asked after the read: whoever writes to a pipe
        // gets the same Ctrl-C, and the end of the pipe is not that of the archive.
        self.interrupt.check().map_err(|_| io::Error::other("stopped by Ctrl-C"))?;
        Ok(read)
    }
}
