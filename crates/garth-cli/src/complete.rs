//! Completion of verbs, options and paths of the tree. The scripts of `garth completions` run
//! `garth __complete WORD...` with the words of the line up to the cursor; it prints
//! what the last may become.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Arg, Command, ValueHint};
use futures::executor::block_on;
use garth::Env;
use garth::fs::resolve::Follow;
use garth::model::Kind;

use crate::app::resolve_path;
use crate::data_folder::{self, DEFAULT_ACCOUNT};
use crate::help::command;
use crate::walk::Lister;

/// The first argument of a run that answers a shell.
const REQUEST: &str = "__complete";

/// Most names of a directory looked at, so that the answer comes while one types.
const MAX_NAMES: usize = 20_000;

/// What arguments are called that take paths of the tree; those of this machine have a type of their own.
const TREE_PATHS: [&str; 6] = ["path", "paths", "from", "to", "target", "link"];

/// Answers a shell; gives false in any other run.
pub(crate) fn answer_shell() -> bool {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some(REQUEST) {
        return false;
    }
    let words: Vec<String> = words.collect();
    let text: String = candidates(&words).iter().map(|candidate| format!("{candidate}\n")).collect();
    // A shell that has gone needs no answer.
    let _ = std::io::stdout().write_all(text.as_bytes());
    true
}

/// What the last of `words` may become.
fn candidates(words: &[String]) -> Vec<String> {
    let Some((typed, before)) = words.split_last() else { return Vec::new() };
    let mut root = command();
    // Hands the global options on to the verbs.
    root.build();
    let (mut verb, mut is_value, mut position) = (&root, false, 0);
    for word in before {
        if is_value {
            is_value = false;
        } else if word.starts_with('-') {
            is_value = takes_value(verb, word);
        } else if let Some(below) = verb.find_subcommand(word) {
            verb = below;
        } else {
            position += 1;
        }
    }
    let positional = verb.get_positionals().nth(position).or_else(|| verb.get_positionals().last());
    let fits = |name: &str| name.starts_with(typed.as_str()).then(|| name.to_owned());
    if is_value {
        Vec::new()
    } else if typed.starts_with('-') {
        let options = verb.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
        options.filter_map(|long| fits(&format!("--{long}"))).collect()
    } else if verb.has_subcommands() {
        let verbs = verb.get_subcommands().filter(|verb| !verb.is_hide_set());
        verbs.filter_map(|verb| fits(verb.get_name())).collect()
    } else if positional.is_some_and(takes_tree_path) {
        // Without a data folder there are no paths, and nothing to say.
        tree_paths(typed, before).unwrap_or_default()
    } else {
        Vec::new()
    }
}

/// Whether the word after this option is its value.
fn takes_value(verb: &Command, word: &str) -> bool {
    let arg = match word.strip_prefix("--") {
        Some(long) => verb.get_arguments().find(|arg| arg.get_long() == Some(long)),
        None => verb.get_arguments().find(|arg| arg.get_short() == word.chars().last()),
    };
    arg.is_some_and(|arg| arg.get_action().takes_values())
}

fn takes_tree_path(arg: &Arg) -> bool {
    TREE_PATHS.contains(&arg.get_id().as_str()) && arg.get_value_hint() == ValueHint::Unknown
}

/// The paths of the tree that begin with what is typed.
fn tree_paths(typed: &str, before: &[String]) -> Option<Vec<String>> {
    let (dir, start) = typed.rsplit_once('/').unwrap_or(("", typed));
    let folder = option(before, "--data", "GARTH_DATA").map(PathBuf::from);
    let data_dir = data_folder::open(&data_folder::locate(folder.as_deref()).ok()?, &Env::system()).ok()?;
    let account = option(before, "--account", "GARTH_ACCOUNT").unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned());
    let tree = data_dir.account(&account).ok()?;
    block_on(async {
        let top = if dir.is_empty() { "/" } else { dir };
        let mut lister = Lister::new(&resolve_path(&*tree, top, Follow::Yes).await.ok()?);
        let (mut found, mut seen) = (Vec::new(), 0);
        while seen < MAX_NAMES {
            let page = lister.page(&*tree).await.ok()?;
            if page.is_empty() {
                break;
            }
            seen += page.len();
            for (path, entry) in page {
                let name = path.name().unwrap_or_default();
                // The answer is one candidate a line.
                if name.starts_with(start) && !name.contains('\n') {
                    let end = if entry.kind == Kind::Directory { "/" } else { "" };
                    found.push(format!("{dir}/{name}{end}"));
                }
            }
        }
        Some(found)
    })
}

/// The value of a global option on the line, else of its variable.
fn option(words: &[String], name: &str, variable: &str) -> Option<String> {
    let value = |(at, word): (usize, &String)| match word.strip_prefix(name)? {
        "" => words.get(at + 1).cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    };
    words.iter().enumerate().rev().find_map(value).or_else(|| std::env::var(variable).ok())
}
