//! How a proof talks to a `proof-worker`: one line asks, one line answers.

use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::{Broken, Proven, hold};

/// Child: answers.
pub(super) fn say(line: &str) -> Proven<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// A `proof-worker` at work. Ended when dropped.
pub(super) struct Worker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts the binary and waits until it says `ready`.
    pub(super) fn start(binary: &Path, arguments: &[&str]) -> Proven<Self> {
        Self::start_broken(binary, arguments, None)
    }

    /// [`Worker::start`] of one in which a fault is planted: a negative control.
    pub(super) fn start_broken(binary: &Path, arguments: &[&str], fault: Option<&str>) -> Proven<Self> {
        let mut child = Command::new(binary)
            .args(arguments)
            .env_remove("GARTH_FAULT")
            .envs(fault.map(|fault| ("GARTH_FAULT", fault)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Broken::because(format!("no worker at {}: {error}", binary.display())))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (to, from) = pipes.ok_or_else(|| Broken::because("the worker has no pipes"))?;
        let mut worker = Self { child, to, from: BufReader::new(from) };
        let first = worker.hear()?;
        hold(first == "ready", || format!("the worker began with `{first}`"))?;
        Ok(worker)
    }

    pub(super) fn tell(&mut self, line: &str) -> Proven<()> {
        writeln!(self.to, "{line}")?;
        Ok(self.to.flush()?)
    }

    pub(super) fn hear(&mut self) -> Proven<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        hold(line.ends_with('\n'), || "the worker ended without an answer".to_owned())?;
        Ok(line.trim_end_matches('\n').to_owned())
    }

    /// Has `serve` do a call.
    pub(super) fn ask(&mut self, line: &str) -> Proven<String> {
        self.tell(line)?;
        let answer = self.hear()?;
        let rest = answer.strip_prefix("ok ").map(str::to_owned);
        rest.ok_or_else(|| Broken::because(format!("`{line}` is answered by `{answer}`")))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
