//! `garth completions`: completion of verbs, options and paths of the tree in a shell.

use clap::Args;
use clap_complete::Shell;
use serde_json::json;

use crate::app::App;
use crate::fail::Result;

/// Print a completion script for a shell
///
/// In bash, zsh and fish it completes paths of the tree, too. With --json, prints one object: shell, script.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  garth completions bash > ~/.local/share/bash-completion/completions/garth"
)]
pub(crate) struct Completions {
    /// Shell for which to print the script
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, app: &mut App) -> Result {
        let shell = self.shell.to_string();
        let script = match self.shell {
            Shell::Bash => include_bytes!("completions/garth.bash").to_vec(),
            Shell::Zsh => include_bytes!("completions/garth.zsh").to_vec(),
            Shell::Fish => include_bytes!("completions/garth.fish").to_vec(),
            // These scripts complete no paths of the tree.
            other => {
                let mut script = Vec::new();
                clap_complete::generate(other, &mut (app.command)(), "garth", &mut script);
                script
            }
        };
        if !app.out.is_json() {
            return app.out.bytes(&script);
        }
        app.out.item(&json!({"shell": shell, "script": String::from_utf8_lossy(&script)}), "")
    }
}
