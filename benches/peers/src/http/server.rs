//! Servers in processes of their own.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde::Deserialize;

/// What a server says on its first line.
#[derive(Deserialize)]
struct Ready {
    url: String,
    #[serde(default)]
    key: Option<String>,
}

/// Where to ask, and as whom.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: String,
    pub(crate) key: String,
}

/// A server that ends with this value.
pub(crate) struct Server {
    child: Child,
    pub(crate) target: Target,
}

impl Server {
    /// Starts one that reads `input`.
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

    /// Its number, as `/proc` has it.
    pub(crate) fn process(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // all that it acknowledged is on the disk
        let _ = self.child.wait();
    }
}
