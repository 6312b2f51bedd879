//! The help of the whole program: verbs under headings, which clap itself does not have for subcommands.

use clap::{Command, CommandFactory as _};

use crate::cli::Cli;

/// Headings and their verbs, in the order of the help.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Read", &["ls", "tree", "cat", "head", "tail", "stat", "du"]),
    ("Find", &["find", "glob", "grep", "search", "recall"]),
    (
        "Write",
        &["write", "append", "mkdir", "touch", "rm", "mv", "cp", "ln", "set", "chmod", "chown", "batch"],
    ),
    ("History", &["log", "blame", "show", "diff", "restore", "snapshot", "overlay"]),
    (
        "Agents and servers",
        &[
            "agent", "kv", "memory", "session", "prompt", "daily", "skill", "media", "outbox", "chat",
            "serve", "account", "key", "rule", "quota",
        ],
    ),
    ("Data", &["import", "export", "backup", "fsck", "gc", "repair", "reindex", "completions"]),
];

/// The command line, its verbs grouped in the help.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let mut verbs = String::new();
    for (heading, names) in GROUPS {
        verbs.push_str(&format!("{heading}:\n"));
        for name in names {
            let verb = command.find_subcommand(name);
            let about = verb.and_then(Command::get_about).map(ToString::to_string).unwrap_or_default();
            verbs.push_str(&format!("  {name:<12} {about}\n"));
        }
        verbs.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{verbs}Global options:\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_its_place_in_the_help() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let cli = Cli::command();
        let mut verbs: Vec<&str> = cli.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(grouped, verbs);
    }
}
