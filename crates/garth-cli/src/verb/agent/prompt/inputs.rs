//! Inputs of a prompt given by the caller: hosts, runtime, clock.

use std::path::Path;
use std::str::FromStr;

use clap::Args;
use garth_agent::workspace::{Host, Inputs};

use crate::fail::{Failure, Result, json_error};

/// Longest file of hosts in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Options for the inputs of a prompt.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct InputArgs {
    /// Host on which the agent's tools run; skills depend on it: a JSON object with an `id`, or a file of
    /// this machine with one object or a list (repeatable)
    #[arg(long = "host", value_name = "JSON|@FILE")]
    hosts: Vec<String>,
    /// Line of the section Runtime (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    runtime: Vec<Line>,
    /// Current time for the prompt, RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    clock: Option<String>,
}

/// Name and value of a runtime line.
#[derive(Clone, Debug)]
struct Line(String, String);

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self(name.to_owned(), value.to_owned())),
            _ => Err("write NAME=VALUE".to_owned()),
        }
    }
}

impl InputArgs {
    /// Returns the inputs; `None` if none was given.
    pub(crate) fn read(&self) -> Result<Option<Inputs>> {
        if self.hosts.is_empty() && self.runtime.is_empty() && self.clock.is_none() {
            return Ok(None);
        }
        let mut inputs = Inputs::default();
        for text in &self.hosts {
            inputs.hosts.extend(hosts(text)?);
        }
        for Line(name, value) in &self.runtime {
            if inputs.runtime.insert(name.clone(), value.clone()).is_some() {
                return Err(Failure::Usage(format!("--runtime: {name} occurs twice")));
            }
        }
        inputs.clock.clone_from(&self.clock);
        Ok(Some(inputs))
    }
}

fn hosts(text: &str) -> Result<Vec<Host>> {
    let Some(file) = text.strip_prefix('@') else { return parsed("--host", text) };
    let path = Path::new(file);
    let size = std::fs::metadata(path).map_err(Failure::host(path))?.len();
    if size > MAX_FILE {
        return Err(Failure::Usage(format!("--host: {file} is longer than {MAX_FILE} bytes")));
    }
    parsed(&format!("--host @{file}"), &std::fs::read_to_string(path).map_err(Failure::host(path))?)
}

fn parsed(what: &str, json: &str) -> Result<Vec<Host>> {
    let is_list = json.trim_start().starts_with('[');
    let hosts =
        if is_list { serde_json::from_str(json) } else { serde_json::from_str(json).map(|host| vec![host]) };
    hosts.map_err(|error| {
        let why = json_error(&error);
        Failure::Usage(format!("{what}: {why}; a host is {{\"id\":\"laptop\",...}}"))
    })
}
