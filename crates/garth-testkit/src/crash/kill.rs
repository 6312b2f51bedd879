//! Ending processes of the harness: the crash itself, and the cleanup after a failed start.

use std::process::Child;

/// Kills a process and waits until it has ended.
pub(super) fn kill(child: &mut Child) {
    // Fails only if it has ended by itself, which is equivalent.
    let _ = child.kill();
    let _ = child.wait();
}
