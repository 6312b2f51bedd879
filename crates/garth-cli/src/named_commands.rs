//! Test of the commands and options that sources and documents name: a reader who types one must not learn
//! that it does not exist.

use std::fs;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::cli::Cli;

/// Text in backticks that begins in some way, with the file that has it.
struct Named {
    file: String,
    text: String,
}

/// Adds the texts that begin with `start`, which includes the backtick, of the files below a path. Folders of
/// tests may contain anything.
fn collect(path: &Path, start: &str, into: &mut Vec<Named>) {
    if path.is_dir() && !path.ends_with("tests") {
        for entry in fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), start, into);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
        let file = path.display().to_string();
        let text = joined(&fs::read_to_string(path).unwrap());
        let found = text.split(start).skip(1).filter_map(|rest| Some(rest.split_once('`')?.0.to_owned()));
        into.extend(found.map(|text| Named { file: file.clone(), text }));
    }
}

/// Returns the texts that begin with `start` in these files and folders of the repository.
fn named(places: &[&str], start: &str) -> Vec<Named> {
    let (root, mut found) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), Vec::new());
    for place in places {
        collect(&root.join(place), start, &mut found);
    }
    found
}

/// Joins the lines of strings, comments and paragraphs, in which a command may be broken.
fn joined(source: &str) -> String {
    let mut text = String::new();
    for line in source.lines().map(str::trim_start) {
        let comment = ["/// ", "//! ", "// "].into_iter().find_map(|start| line.strip_prefix(start));
        let line = comment.unwrap_or(line);
        text.push_str(line.strip_suffix('\\').unwrap_or(line));
        // A string continues without a space at this place, a comment with one.
        text.push_str(if line.ends_with('\\') { "" } else { " " });
    }
    text
}

/// Returns true for a word that a command or option may have as its name.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// Returns the option of a command with this word, such as `--at` or `-s`.
fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| match word.strip_prefix("--") {
        Some(long) => {
            arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => {
            let short = word.chars().nth(1);
            arg.get_short() == short
                || arg.get_all_short_aliases().is_some_and(|all| all.iter().any(|one| Some(*one) == short))
        }
    })
}

/// Returns the first word of a named command that is no command or option there.
fn unknown<'a>(root: &Command, span: &'a str) -> Option<&'a str> {
    let (mut command, mut takes_value) = (root, false);
    for word in span.split_whitespace() {
        let is_value = std::mem::take(&mut takes_value);
        let name = word.split('=').next().unwrap_or(word);
        let is_short = name.len() == 2 && name.starts_with('-') && name != "--";
        if is_short || (name.starts_with("--") && name.len() > 2) {
            if !is_name(name) {
                return None;
            }
            let Some(arg) = option(command, name) else { return Some(word) };
            let takes_one = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
            takes_value = takes_one && !word.contains('=');
            continue;
        }
        if is_value {
            continue;
        }
        if let Some(inner) = command.find_subcommand(word) {
            command = inner;
        } else if command.has_subcommands() && command.get_positionals().next().is_none() {
            // A placeholder stands for any command.
            return Some(word).filter(|word| is_name(word));
        } else if ["|", "<", ">", "&&"].contains(&word) {
            return None;
        }
    }
    None
}

/// Returns the root command. Each command has the global options.
fn root() -> Command {
    let mut root = Cli::command();
    root.build();
    root
}

/// Returns true if a command, or one of its commands, has an option.
fn has_option(command: &Command, word: &str) -> bool {
    option(command, word).is_some() || command.get_subcommands().any(|inner| has_option(inner, word))
}

#[test]
fn every_named_command_exists() {
    let (root, named) = (root(), named(&["crates", "docs", "README.md"], "`garth "));
    assert!(named.len() > 300, "{}", named.len());
    let wrong = named.iter().filter_map(|Named { file, text }| {
        let word = unknown(&root, text)?;
        Some(format!("{file}: `garth {text}`: {word}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn every_option_in_messages_exists() {
    // Messages of the command line itself also name wrong options.
    let (root, named) = (root(), named(&["crates/garth-agent/src", "crates/garth-server/src"], "`--"));
    assert!(!named.is_empty());
    let wrong = named.iter().filter(|Named { text, .. }| {
        let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(text.len());
        // A rule of Markdown is no option.
        let is_option = text.starts_with(|c: char| c.is_ascii_lowercase());
        is_option && !has_option(&root, &format!("--{}", &text[..end]))
    });
    let wrong = wrong.map(|Named { file, text }| format!("{file}: `--{text}`"));
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn unknown_commands_and_options_are_found() {
    let root = root();
    for (span, word) in [
        ("session lines NAME", Some("lines")),
        ("context replay NAME --of 7", Some("--of")),
        ("sessions", Some("sessions")),
        ("session messages NAME tail:2 --retracted", None),
        ("--data COPY context replay NAME --at=7", None),
        ("ln -s TARGET LINK", None),
        ("ls / | head --of", None),
        ("{command} --of", None),
    ] {
        assert_eq!(unknown(&root, span), word, "{span}");
    }
}
