//! Lets others have their turn between the reads of a long scan.

use std::future::poll_fn;
use std::task::Poll;

/// Yields once: a long scan reads on the caller's thread and would otherwise hold it.
pub(crate) async fn breathe() {
    let mut breathed = false;
    poll_fn(|context| {
        if breathed {
            return Poll::Ready(());
        }
        breathed = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
