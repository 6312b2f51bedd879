//! Second process of a proof. It reads requests from standard input and prints responses to standard output,
//! one per line.

use std::io::{BufRead, BufReader, Read, Write, stdout};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::outcome::{Broken, Proven, hold};

/// Prints one line to standard output: the response of a worker.
///
/// # Errors
/// Errors of standard output.
#[expect(clippy::disallowed_methods, reason = "a process reads it, not a person")]
pub fn say(line: &str) -> Proven<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Running worker process. Killed when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts the binary and waits until it prints `ready`.
    ///
    /// # Errors
    /// The binary does not start, or prints something else.
    pub fn start(binary: &Path, arguments: &[&str]) -> Proven<Self> {
        Self::start_broken(binary, arguments, None)
    }

    /// Starts a worker with a planted fault, as [`Worker::start`] does without one: a negative control.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_broken(binary: &Path, arguments: &[&str], fault: Option<&str>) -> Proven<Self> {
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

    /// Sends a line.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn tell(&mut self, line: &str) -> Proven<()> {
        writeln!(self.to, "{line}")?;
        Ok(self.to.flush()?)
    }

    /// Waits for a line.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn hear(&mut self) -> Proven<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        hold(line.ends_with('\n'), || "the worker ended without an answer".to_owned())?;
        Ok(line.trim_end_matches('\n').to_owned())
    }

    /// Kills the worker. Returns the lines that it wrote and nobody has heard, without one that the kill cut
    /// off.
    ///
    /// # Errors
    /// Errors of the pipe.
    pub fn kill(mut self) -> Proven<Vec<String>> {
        // Fails only if it has ended by itself, which is equivalent.
        let _ = self.child.kill();
        let mut rest = String::new();
        self.from.read_to_string(&mut rest)?;
        let whole = rest.rsplit_once('\n').map_or("", |(whole, _)| whole);
        Ok(whole.lines().map(str::to_owned).collect())
    }

    /// Sends a call to a worker that serves calls, and returns the result.
    ///
    /// # Errors
    /// The call failed, or the worker has ended.
    pub fn ask(&mut self, line: &str) -> Proven<String> {
        self.tell(line)?;
        let answer = self.hear()?;
        let rest = answer.strip_prefix("ok ").map(str::to_owned);
        rest.ok_or_else(|| Broken::because(format!("`{line}` is answered by `{answer}`")))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
