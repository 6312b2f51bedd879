//! Help: the first screen, and the global options at the end of each command's long help.

use clap::{Command, CommandFactory as _};

use crate::cli::Cli;

/// Commands that the first screen describes.
const COMMON: [&str; 10] =
    ["memory", "remember", "recall", "session", "context", "write", "search", "log", "restore", "serve"];

/// Groups of all commands, in the order of the first screen. A name without a command is left out.
pub(crate) const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Files",
        &[
            "ls", "tree", "cat", "head", "tail", "stat", "du", "find", "glob", "grep", "write", "append",
            "mkdir", "touch", "rm", "mv", "cp", "ln", "set", "chmod", "chown", "batch", "import", "export",
        ],
    ),
    ("History", &["log", "watch", "blame", "show", "diff", "restore", "snapshot", "overlay"]),
    ("Memory", &["remember", "recall", "forget", "search", "memory", "daily", "eval"]),
    ("Agents", &["agent", "session", "context", "chat", "skill", "media", "kv"]),
    ("Server", &["serve", "mcp", "health", "account", "key", "rule", "quota", "outbox", "config"]),
    (
        "Storage",
        &["status", "usage", "retention", "backup", "fsck", "gc", "repair", "reindex", "completions"],
    ),
];

/// Columns of the first screen.
const WIDTH: usize = 100;

const OPTIONS: &str = "\
Options:
  --data <DIR>      Data folder [env: GARTH_DATA] [default: such as ~/.local/share/garth]
  --account <NAME>  Account to work on [env: GARTH_ACCOUNT] [default: default]
  --agent <NAME>    Agent, recorded as author of commits [env: GARTH_AGENT] [default: default]
  --user <NAME>     User that the agent serves [env: GARTH_USER]
  --json            Print JSON: one object, or one object a line
  --help            Print help; so does -h, except in ls, du, usage, tree, grep
  -V, --version     Print the version

Exit codes: 0 success, 1 failure, 2 usage, 3 not found, 4 conflict, 5 access denied,
            6 quota or rule, 7 I/O. Errors go to stderr as `garth: <path>: <message>`;
            --json adds a line {\"error\":{\"kind\",\"path\",\"message\",\"exit\"}}.

`garth <COMMAND> --help` describes a command with all of its options.
";

/// Global options at the end of each command's long help. The doc comments of these arguments are not shown.
const GLOBAL: &str = "\
Global options:
      --data <DIR>
          Data folder [env: GARTH_DATA] [default: depends on the platform, such as
          ~/.local/share/garth]

      --postgres <URL>
          PostgreSQL database in place of a data folder [env: GARTH_POSTGRES]. As an argument, the
          URL may have no password

      --postgres-file <FILE>
          File with the URL of the database, which may have a password [env: GARTH_POSTGRES_FILE]

      --account <NAME>
          Account to work on [env: GARTH_ACCOUNT] [default: default]

      --agent <NAME>
          Agent: author of commits, and owner of key-value entries and sessions [env: GARTH_AGENT]
          [default: default]

      --overlay <ID>
          Work in this overlay (see `garth overlay list`) instead of the account's tree

      --raw
          Include /.garth, which is reserved for garth (administrators)

      --override-rules
          Write even where a rule refuses it; the log records the override (administrators)

      --operator
          Read the files of all accounts, below /accounts: with ls, tree, cat, stat, du, find,
          glob, grep and log. In key, work on the keys of the data folder (operators)

      --json
          Print JSON: one object, or one object a line

The tree of an agent, instead of the account's:
      --user <NAME>
          User that the agent serves [env: GARTH_USER] [default: the owner of the agent]. The
          variable alone does not change the tree that commands on files work in

      --key <KEY>
          Session key, such as agent:scout:slack:channel:C1. It determines the audience, and whose
          memory is used

      --chat <NAME>
          Chat whose files are shown at / [default: the chat of the audience]

      --class <NAME>
          Class of the session: main (for the owner), dm (for one other person) or group
          [default: by --key and --user]

      --session <NAME>
          Session, recorded as author of commits

      --skill <NAME[=MODE[:FOLDER]]>
          Show this skill below /skills (repeatable). MODE decides what happens to changes:
          `ephemeral` drops them when the command ends, `override` saves them to the agent's copy.
          FOLDER, on this machine, replaces the account's skill [default MODE: ephemeral]

      --upload-limit <SIZE>
          Maximum size of one write [default: 10M]
";

/// Global options of `garth key` and its subcommands, which open no tree.
const GLOBAL_OF_KEYS: &str = "\
Global options:
      --data <DIR>
          Data folder [env: GARTH_DATA] [default: depends on the platform, such as
          ~/.local/share/garth]

      --postgres <URL>
          PostgreSQL database in place of a data folder [env: GARTH_POSTGRES]. As an argument, the
          URL may have no password

      --postgres-file <FILE>
          File with the URL of the database, which may have a password [env: GARTH_POSTGRES_FILE]

      --account <NAME>
          Account of the keys [env: GARTH_ACCOUNT] [default: default]

      --operator
          Work on the keys of the data folder, which belong to no account (operators)

      --json
          Print JSON: one object, or one object a line
";

/// Global options that bind a key which is created.
const BINDING: &str = "\
Names that the key is bound to [default: requests may choose them]:
      --agent <NAME>
          Agent of each request

      --user <NAME>
          User who speaks

      --key <KEY>
          Session key, such as agent:scout:slack:channel:C1. It determines the agent and the
          audience

      --chat <NAME>
          Chat whose files are at /

      --class <NAME>
          Least restricted class of the session: main (for the owner), dm (for one other person) or
          group

      --session <NAME>
          Only session that the key sees
";

/// Returns the global options that apply to a command, given by its path.
fn global_options(path: &str) -> String {
    match path {
        "garth key create" => format!("{BINDING}\n{GLOBAL_OF_KEYS}"),
        path if path == "garth key" || path.starts_with("garth key ") => GLOBAL_OF_KEYS.to_owned(),
        _ => GLOBAL.to_owned(),
    }
}

/// Returns the definition of the command line with all texts of its help.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let first = first_screen(&command);
    let hide = |command: Command| {
        command.mut_args(|arg| match arg.is_global_set() {
            // Only hidden from help: completion still offers them.
            true => arg.hide_short_help(true).hide_long_help(true),
            false => arg,
        })
    };
    hide(command).override_help(first).mut_subcommands(|verb| with_global_options(verb, "garth"))
}

/// Returns the first screen: common commands, the names of all commands, options and exit codes.
fn first_screen(command: &Command) -> String {
    let about = |name: &str| {
        let verb = command.find_subcommand(name)?;
        Some(format!("  {name:<10} {}\n", verb.get_about()?))
    };
    let common: String = COMMON.into_iter().filter_map(about).collect();
    let mut all = String::new();
    for (heading, names) in GROUPS {
        let mut line = format!("  {heading:<10}");
        for name in names.iter().filter(|name| command.find_subcommand(name).is_some()) {
            if line.len() + 1 + name.len() > WIDTH {
                all.push_str(&format!("{line}\n"));
                line = " ".repeat(12);
            }
            line.push_str(&format!(" {name}"));
        }
        all.push_str(&format!("{line}\n"));
    }
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    format!(
        "garth - {about}\n\nUsage: garth [OPTIONS] <COMMAND>\n\nCommon commands:\n{common}\nAll commands:\n{all}\n\
         {OPTIONS}"
    )
}

/// Adds the global options to the help of a command and of its subcommands, or a hint at them to the short
/// help.
fn with_global_options(command: Command, above: &str) -> Command {
    let path = format!("{above} {}", command.get_name());
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    // Verbs in which `-h` has another meaning have long help only.
    let short = format!("{examples}\n\nGlobal options: see `{path} --help`");
    let long = format!("{examples}\n\n{}", global_options(&path).trim_end());
    command
        .disable_help_subcommand(true)
        .after_help(short)
        .after_long_help(long)
        .mut_subcommands(|verb| with_global_options(verb, &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects each command with its path, such as `session append`.
    fn all(command: &Command, above: &str, into: &mut Vec<(String, Command)>) {
        for verb in command.get_subcommands() {
            let path = format!("{above} {}", verb.get_name()).trim_start().to_owned();
            into.push((path.clone(), verb.clone()));
            all(verb, &path, into);
        }
    }

    fn commands() -> Vec<(String, Command)> {
        let mut found = Vec::new();
        all(&command(), "", &mut found);
        found
    }

    #[test]
    fn every_command_has_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let cli = Cli::command();
        let mut verbs: Vec<&str> = cli.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(grouped, verbs);
    }

    #[test]
    fn first_screen_fits_a_terminal() {
        let text = first_screen(&Cli::command());
        assert!(text.lines().count() <= 40, "{} lines\n{text}", text.lines().count());
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn long_help_describes_each_global_option() {
        let command = Cli::command();
        for arg in command.get_arguments().filter(|arg| arg.is_global_set()) {
            let long = arg.get_long().unwrap();
            assert!(GLOBAL.contains(&format!("\n      --{long}")), "--{long}");
        }
        let texts = [GLOBAL, GLOBAL_OF_KEYS, BINDING];
        assert!(texts.into_iter().flat_map(str::lines).all(|line| line.len() <= WIDTH));
    }

    #[test]
    fn help_on_keys_lists_only_options_that_apply() {
        let help = |path: &str| {
            let (_, mut command) = commands().into_iter().find(|(found, _)| found == path).unwrap();
            command.render_long_help().to_string()
        };
        let create = help("key create");
        assert!(create.contains("--chat <NAME>") && create.contains("--account <NAME>"), "{create}");
        for text in ["--overlay", "--raw", "--skill", "--upload-limit", "author of commits"] {
            assert!(!create.contains(text), "{text} is in\n{create}");
        }
        for path in ["key", "key list", "key rotate", "key revoke"] {
            let shown = help(path);
            assert!(shown.contains("--operator\n") && !shown.contains("--chat"), "{path}\n{shown}");
        }
    }

    #[test]
    fn every_command_has_a_plain_about_line() {
        for (path, command) in commands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && !about.ends_with('.'), "{path}: {about}");
            let first = about.split(' ').next().unwrap();
            let imperative = first.starts_with(char::is_uppercase) && !first.ends_with('s');
            let is_plain = !["What", "Which", "How", "Tell", "Say", "Those"].contains(&first);
            // Imperatives that end with an s.
            assert!(is_plain && (imperative || ["Compress", "Pass"].contains(&first)), "{path}: {about}");
        }
    }

    #[test]
    fn every_example_parses() {
        let (mut seen, mut raw) = (0, Vec::new());
        all(&Cli::command(), "", &mut raw);
        for (path, command) in raw {
            let examples = command.get_after_help().map(ToString::to_string);
            let examples = examples.unwrap_or_else(|| panic!("{path} has no example"));
            for line in examples.lines().filter(|line| line.contains("garth ")) {
                assert!(line.len() <= WIDTH, "{path}: {line}");
                let words = words(line.trim());
                let start = words.iter().position(|word| word == "garth").unwrap();
                let end = words.iter().skip(start).position(|word| ["|", "<", ">", "&&"].contains(&&**word));
                let words = &words[start..end.map_or(words.len(), |end| start + end)];
                let args = crate::habits::translated(words.iter().map(Into::into));
                if let Err(error) = super::command().try_get_matches_from(args) {
                    panic!("{path}: {line}\n{error}");
                }
                seen += 1;
            }
        }
        assert!(seen > 100, "{seen}");
    }

    /// Splits a line as a shell does.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in line.chars() {
            match (quote, c) {
                (Some(open), c) if open == c => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, ' ') => words.extend(word.take()),
                (_, c) => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        words
    }
}
