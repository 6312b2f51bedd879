//! Servers in their own processes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde::Deserialize;

/// First line that a server prints.
#[derive(Deserialize)]
struct Ready {
    url: String,
    #[serde(default)]
    key: Option<String>,
}

/// Address and key of a server.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: String,
    pub(crate) key: String,
}

/// Server process that ends when this value is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) target: Target,
}

impl Server {
    /// Starts a server that reads `input`.
    pub(crate) fn start(mut command: Command, input: &[u8]) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        child.stdin.take().context("stdin is a pipe")?.write_all(input)?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("stdout is a pipe")?).read_line(&mut line)?;
        let ready: Ready =
            serde_json::from_str(&line).with_context(|| format!("{command:?} did not start"))?;
        let address = ready.url.strip_prefix("http://").context("the address is http")?.to_owned();
        Ok(Self { child, target: Target { address, key: ready.key.unwrap_or_default() } })
    }

    /// Serves a data folder with the `garth` that `command` starts.
    pub(crate) fn garth(mut command: Command, data: &Path) -> Result<Self> {
        command.arg("serve").args(["--listen", "127.0.0.1:0", "--json", "--data"]).arg(data);
        Self::start(command, b"")
    }

    /// Returns the process id, as `/proc` names it.
    pub(crate) fn process(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Acknowledged writes are on the disk, so a kill loses none.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
