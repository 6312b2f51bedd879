//! `garth completions`: what a shell needs to complete verbs and options.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use crate::Cli;
use crate::app::App;
use crate::fail::Result;

/// Print a completion script for a shell
///
/// With --json one object: shell, script.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth completions bash > /etc/bash_completion.d/garth")]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, app: &mut App) -> Result {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "garth", &mut script);
        if !app.out.is_json() {
            return app.out.bytes(&script);
        }
        let script = String::from_utf8_lossy(&script);
        app.out.item(&json!({"shell": self.shell.to_string(), "script": script}), "")
    }
}
