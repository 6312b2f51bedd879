//! End of the processes that the harness starts: the crash itself, and cleaning up after a failed start.

use std::process::Child;

/// Kills a process and waits until it has ended.
pub(super) fn kill(child: &mut Child) {
    // Fails only if it has ended by itself, which is as good.
    let _ = child.kill();
    let _ = child.wait();
}
