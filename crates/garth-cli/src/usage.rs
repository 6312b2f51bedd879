//! Usage errors: clap's errors in the words of garth, with a suggestion of the command that was meant.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

use crate::escape::escaped;
use crate::words;

/// Global options with a value, which must not be taken for the command.
pub(crate) const VALUED: [&str; 13] = [
    "--data",
    "--postgres",
    "--postgres-file",
    "--account",
    "--agent",
    "--overlay",
    "--user",
    "--key",
    "--chat",
    "--class",
    "--session",
    "--skill",
    "--upload-limit",
];

/// Longest command line in bytes that a message repeats.
const MAX_REPEATED: usize = 160;

/// Commands with a text as an argument, which a shell splits if it is not quoted.
const TAKES_TEXT: [&str; 9] = [
    "write",
    "append",
    "memory put",
    "session append",
    "remember",
    "daily add",
    "context child create",
    "recall",
    "search",
];

/// Returns the position of the command in the arguments, the first of which is the program.
pub(crate) fn command_at(args: &[OsString]) -> Option<usize> {
    next_word(args, 1)
}

/// Returns the position of the first argument from `at` that is neither a global option nor its value.
fn next_word(args: &[OsString], mut at: usize) -> Option<usize> {
    loop {
        let arg = args.get(at)?.to_str()?;
        match arg {
            _ if VALUED.contains(&arg) => at += 2,
            "--" => return None,
            _ if arg.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
}

/// Deepest command that the arguments name.
struct NamedCommand<'c> {
    command: &'c Command,
    /// Names from the program on, such as `session append`; empty for the program itself.
    path: String,
    /// Positions of these names in the arguments.
    at: Vec<usize>,
    /// Position of the first word after these names.
    next: Option<usize>,
}

fn named<'c>(root: &'c Command, args: &[OsString]) -> NamedCommand<'c> {
    let mut named =
        NamedCommand { command: root, path: String::new(), at: Vec::new(), next: command_at(args) };
    while let Some(at) = named.next {
        let word = args.get(at).and_then(|arg| arg.to_str()).unwrap_or_default();
        let Some(below) = named.command.find_subcommand(word) else { break };
        named.command = below;
        named.path = format!("{} {}", named.path, below.get_name()).trim_start().to_owned();
        named.at.push(at);
        named.next = next_word(args, at + 1);
    }
    named
}

/// Returns the message for an error of clap about arguments, without `garth: ` before it.
pub(crate) fn message(root: &Command, args: &[OsString], error: &Error) -> String {
    let named = named(root, args);
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        // The most similar one is last.
        Some(ContextValue::Strings(texts)) => texts.last().cloned(),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            unknown_command(root, &named, args, &word, text(ContextKind::SuggestedSubcommand))
        }
        ErrorKind::UnknownArgument => {
            let word = text(ContextKind::InvalidArg).unwrap_or_default();
            match word.starts_with('-') {
                true => unknown_option(&named, &word, text(ContextKind::SuggestedArg)),
                false if named.command.has_subcommands() => unknown_command(root, &named, args, &word, None),
                false => unexpected_word(&named, &word, error),
            }
        }
        _ => in_claps_words(error),
    }
}

/// Returns the first part of a message as one line, without the usage after it. clap puts each argument on a
/// line of its own.
pub(crate) fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim);
    let is_usage = |line: &str| line.starts_with("Usage:") || line.starts_with("For more information");
    let words: Vec<&str> = lines.take_while(|line| !is_usage(line)).flat_map(str::split_whitespace).collect();
    words.join(" ")
}

/// Returns clap's own message, as it is shown after `garth: `.
fn in_claps_words(error: &Error) -> String {
    let rendered = error.render().to_string();
    rendered.trim_end().strip_prefix("error: ").unwrap_or(&rendered).trim_end().to_owned()
}

fn unknown_command(
    root: &Command,
    named: &NamedCommand<'_>,
    args: &[OsString],
    word: &str,
    similar: Option<String>,
) -> String {
    let group = named.path.as_str();
    let full = format!("{group} {word}").trim_start().to_owned();
    let next = named.next.and_then(|at| next_word(args, at + 1));
    let next_text = next.and_then(|at| args[at].to_str()).unwrap_or_default();
    if group.is_empty()
        && let Some((successor, example)) = words::removed(word, next_text)
    {
        let mut parts = named.next.into_iter().chain(next).collect::<Vec<_>>();
        parts.extend(&named.at);
        return renamed(root, &format!("{word} {next_text}"), successor, example, args, &parts);
    }
    if let Some((successor, example)) = words::removed(group, word) {
        let mut parts = named.at.clone();
        parts.extend(named.next);
        // The next word may have a former name, too: `node relate`, `node add`.
        if let Some((successor, example)) = words::removed(successor, next_text) {
            parts.extend(next);
            return renamed(root, &format!("{full} {next_text}"), successor, example, args, &parts);
        }
        if let Some(commands) = words::guessed(successor, next_text) {
            return format!("`{word}` is now `{successor}`: try {}", listed(root, commands));
        }
        return renamed(root, &full, successor, example, args, &parts);
    }
    let full = escaped(&full).into_owned();
    if let Some(commands) = words::guessed(group, word) {
        let commands = listed(root, commands);
        if !commands.is_empty() {
            return format!("no command `{full}`: try {commands}");
        }
    }
    if let Some(similar) = similar {
        let similar = format!("{group} {similar}").trim_start().to_owned();
        return format!("no command `{full}`: did you mean `garth {similar}`?");
    }
    let help = format!("garth {group}").trim_end().to_owned();
    format!("no command `{full}`: `{help} --help` lists the commands")
}

/// Returns the message that names the successor of a command, with the given arguments if they can be
/// repeated.
fn renamed(
    root: &Command,
    full: &str,
    successor: &str,
    example: Option<&str>,
    args: &[OsString],
    parts: &[usize],
) -> String {
    if let Some(example) = example {
        return format!("`{full}` is now `{successor}`: try `garth {example}`");
    }
    let mut line = format!("garth {successor}");
    for (at, arg) in args.iter().enumerate().skip(1).filter(|(at, _)| !parts.contains(at)) {
        // A control character would act on the terminal of a person who copies the line.
        let Some(arg) = arg.to_str().filter(|arg| !arg.chars().any(char::is_control)) else {
            return format!("`{full}` is now `{successor}`: try `garth {successor} ...`");
        };
        let arg = words::REMOVED_OPTIONS
            .iter()
            .find(|(of, option, _)| *of == successor && *option == arg)
            .map_or(arg, |(_, _, option)| if option.contains(' ') { "" } else { option });
        let is_plain = |c: char| c.is_alphanumeric() || "-_./:,=@%+".contains(c);
        match arg {
            "" if args[at].is_empty() => line.push_str(" ''"),
            "" => {}
            plain if plain.chars().all(is_plain) => line.push_str(&format!(" {plain}")),
            other => line.push_str(&format!(" '{}'", other.replace('\'', r"'\''"))),
        }
    }
    let is_group = command_of(root, successor).is_some_and(Command::is_subcommand_required_set);
    // Six bytes of `garth `: the line has no arguments.
    if line.len() > MAX_REPEATED || (line.len() == successor.len() + 6 && is_group) {
        line = format!("garth {successor} ...");
    }
    format!("`{full}` is now `{successor}`: try `{}`", escaped(&line))
}

/// Returns the command of a path, such as `session append`.
fn command_of<'c>(root: &'c Command, path: &str) -> Option<&'c Command> {
    path.split(' ').try_fold(root, |command, name| command.find_subcommand(name))
}

/// Returns true if this build has the command with which a suggestion begins.
fn has(root: &Command, suggestion: &str) -> bool {
    let mut command = root;
    for word in suggestion.split(' ') {
        match command.find_subcommand(word) {
            Some(below) => command = below,
            // An argument, or a command that this build lacks.
            None => {
                let takes_it = !command.has_subcommands() || command.get_positionals().next().is_some();
                return word.starts_with('-') || (!std::ptr::eq(command, root) && takes_it);
            }
        }
    }
    !command.has_subcommands() || !command.is_subcommand_required_set()
}

/// Returns a list of suggestions: `a`, `b` or `c`.
fn listed(root: &Command, commands: &[&str]) -> String {
    let commands: Vec<String> = commands
        .iter()
        .filter(|command| has(root, command))
        .map(|command| format!("`garth {command}`"))
        .collect();
    match commands.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

fn unknown_option(named: &NamedCommand<'_>, option: &str, similar: Option<String>) -> String {
    let path = named.path.as_str();
    let name = option.split('=').next().unwrap_or(option);
    let of = format!("garth {path}").trim_end().to_owned();
    let shown = escaped(name).into_owned();
    let removed = words::REMOVED_OPTIONS.iter().find(|(of, former, _)| *of == path && *former == name);
    if let Some((_, _, successor)) = removed {
        return match successor.contains(' ') {
            true => format!("no option `{shown}` in `{of}`: {successor}"),
            false => format!("option `{shown}` of `{of}` is now `{successor}`"),
        };
    }
    let takes = |long: &str| {
        // Without the `--`.
        named.command.get_arguments().any(|arg| arg.get_long().is_some_and(|own| long[2..] == *own))
    };
    let guess = words::GUESSED_OPTIONS.iter().find(|(guess, _)| *guess == name);
    let guess = guess.and_then(|(_, options)| options.iter().find(|option| takes(option)));
    let meant = guess.map(|option| (*option).to_owned()).or(similar);
    match meant {
        Some(meant) => format!("no option `{shown}` in `{of}`: did you mean `{meant}`?"),
        None => format!("no option `{shown}` in `{of}`: `{of} --help` lists the options"),
    }
}

fn unexpected_word(named: &NamedCommand<'_>, word: &str, error: &Error) -> String {
    let mut message = format!("unexpected argument `{}`", escaped(word));
    if let Some(advice) = words::extra_argument(&named.path, word) {
        return format!("{message}: {advice}");
    }
    if TAKES_TEXT.contains(&&*named.path) {
        message.push_str("; quote a text that has spaces: 'two words'");
    }
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => format!("\n\n{usage}"),
        _ => String::new(),
    };
    format!("{message}{usage}\n\n`garth {} --help` describes the arguments", named.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help::command;
    use crate::words::{GUESSED, REMOVED, REMOVED_OPTIONS};

    fn built() -> Command {
        let mut root = command();
        root.build();
        root
    }

    fn said(line: &str) -> String {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let root = built();
        let error = command().try_get_matches_from(&args).expect_err(line);
        message(&root, &args, &error)
    }

    #[test]
    fn removed_commands_name_existing_successors() {
        let root = built();
        for (group, word, successor, example) in REMOVED {
            assert!(command_of(&root, successor).is_some(), "{successor}");
            let former = format!("{group} {word}").trim_start().to_owned();
            assert!(command_of(&root, &former).is_none(), "{former} is a command");
            let said = said(&format!("garth {former} x"));
            let begin = format!("`{former}` is now `{successor}`: try `garth {successor}");
            assert!(said.starts_with(&begin), "{said}");
            assert!(example.is_none_or(|example| said.contains(example)), "{said}");
        }
    }

    #[test]
    fn guessed_words_lead_to_existing_commands() {
        let root = built();
        for (group, words, commands) in GUESSED {
            assert!(group.is_empty() || command_of(&root, group).is_some(), "{group}");
            for command in *commands {
                assert!(has(&root, command), "{command}");
            }
            for word in *words {
                let full = format!("{group} {word}").trim_start().to_owned();
                assert!(command_of(&root, &full).is_none(), "{full} is a command");
                let said = said(&format!("garth {full} x"));
                assert!(said.starts_with(&format!("no command `{full}`: try `garth ")), "{said}");
            }
        }
    }

    #[test]
    fn each_word_has_one_meaning_in_a_group() {
        let mut seen = std::collections::HashSet::new();
        let guessed =
            GUESSED.iter().flat_map(|(group, words, _)| words.iter().map(move |word| (*group, *word)));
        for (group, word) in guessed.chain(REMOVED.iter().map(|(group, word, ..)| (*group, *word))) {
            assert!(seen.insert((group, word)), "{group} {word} occurs twice");
        }
    }

    #[test]
    fn removed_options_name_existing_successors() {
        let root = built();
        for (path, former, successor) in REMOVED_OPTIONS {
            let command = command_of(&root, path).unwrap();
            let takes = |name: &str| {
                command.get_arguments().any(|arg| {
                    arg.get_long().is_some_and(|long| format!("--{long}") == name)
                        || arg.get_short().is_some_and(|short| format!("-{short}") == name)
                })
            };
            assert!(!takes(former), "{path} {former}");
            assert!(successor.contains(' ') || takes(successor), "{path} {successor}");
            let said = said(&format!("garth {path} {former}"));
            assert!(said.contains(successor), "{said}");
        }
    }

    #[test]
    fn messages_repeat_the_arguments_of_renamed_commands() {
        assert_eq!(
            said("garth --agent scout session pack work --budget 32k --form openai"),
            "`session pack` is now `context pack`: try `garth context pack --agent scout work --budget 32k --format \
             openai`"
        );
        assert_eq!(
            said("garth node get ctx://a/b"),
            "`node` is now `memory`: try `garth memory get ctx://a/b`"
        );
        assert_eq!(said("garth node"), "`node` is now `memory`: try `garth memory ...`");
        assert_eq!(
            said("garth node add x"),
            "`node` is now `memory`: try `garth memory put CATEGORY/SLUG TEXT` or `garth daily add TEXT`"
        );
        assert_eq!(
            said("garth session gc work --run"),
            "`session gc` is now `context gc`: try `garth context gc work`"
        );
    }

    #[test]
    fn misspelled_words_lead_to_similar_ones() {
        assert_eq!(said("garth sesion list"), "no command `sesion`: did you mean `garth session`?");
        assert_eq!(said("garth session lst"), "no command `session lst`: did you mean `garth session list`?");
        assert_eq!(said("garth xyzzy"), "no command `xyzzy`: `garth --help` lists the commands");
        assert_eq!(
            said("garth session xyzzy"),
            "no command `session xyzzy`: `garth session --help` lists the commands"
        );
        assert_eq!(
            said("garth context pack w --budgt 5"),
            "no option `--budgt` in `garth context pack`: did you mean `--budget`?"
        );
        assert_eq!(
            said("garth log --count 5"),
            "no option `--count` in `garth log`: did you mean `--limit`?"
        );
        assert!(said("garth write /a two words").starts_with("unexpected argument `words`; quote a text"));
    }
}
