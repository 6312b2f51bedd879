//! Completion of verbs, options and paths of the tree. The scripts of `garth completions` run `garth
//! __complete WORD...` with the words of the line up to the cursor. It prints the candidates for the last
//! word.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Arg, Command};
use futures::executor::block_on;
use garth_engine::FileSystem;
use garth_engine::fs::resolve::Follow;
use garth_engine::home::OperatorTree;
use garth_engine::model::Kind;

use crate::app::resolve_path;
use crate::args::TREE_PATH;
use crate::data_folder::{self, DEFAULT_ACCOUNT};
use crate::help::command;
use crate::location::Location;
use crate::terminal;
use crate::walk::Lister;

/// First argument of a run that completes a line for a shell.
const REQUEST: &str = "__complete";

/// Limit on the names of a directory that are examined, so that completion is fast enough for typing.
const MAX_NAMES: usize = 20_000;

/// Completes a line for a shell. Returns false in any other run.
pub(crate) fn answer_shell() -> bool {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some(REQUEST) {
        return false;
    }
    let words: Vec<String> = words.collect();
    let text: String = candidates(&words).iter().map(|candidate| format!("{candidate}\n")).collect();
    // A shell that has closed the pipe needs no answer.
    let _ = terminal::stdout(false).write_all(text.as_bytes());
    true
}

/// Returns the candidates for the last of `words`.
fn candidates(words: &[String]) -> Vec<String> {
    let Some((typed, before)) = words.split_last() else { return Vec::new() };
    let mut root = command();
    // Passes the global options on to the verbs.
    root.build();
    let (mut verb, mut option, mut position) = (&root, None, 0);
    for word in before {
        if option.take().is_some() {
            // This word is the value of the previous option.
        } else if word.starts_with('-') {
            option = option_with_value(verb, word);
        } else if let Some(below) = verb.find_subcommand(word) {
            verb = below;
        } else {
            position += 1;
        }
    }
    // The last argument may occur several times.
    let positional = verb.get_positionals().nth(position).or_else(|| verb.get_positionals().last());
    let fits = |name: &str| name.starts_with(typed.as_str()).then(|| name.to_owned());
    let expected = option.or(positional);
    if option.is_none() && typed.starts_with('-') {
        let options = verb.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
        options.filter_map(|long| fits(&format!("--{long}"))).collect()
    } else if option.is_none() && verb.has_subcommands() {
        let verbs = verb.get_subcommands().filter(|verb| !verb.is_hide_set());
        verbs.filter_map(|verb| fits(verb.get_name())).collect()
    } else if expected.is_some_and(|arg| arg.get_value_hint() == TREE_PATH) {
        // Without a data folder there are no paths, and errors would disturb the line.
        tree_paths(typed, before).unwrap_or_default()
    } else {
        Vec::new()
    }
}

/// Returns the option `word`, if the next word is its value.
fn option_with_value<'a>(verb: &'a Command, word: &str) -> Option<&'a Arg> {
    let arg = match word.strip_prefix("--") {
        Some(long) => verb.get_arguments().find(|arg| arg.get_long() == Some(long)),
        // In a cluster such as `-xn`, only the last option can have a value.
        None => verb.get_arguments().find(|arg| arg.get_short() == word.chars().last()),
    };
    arg.filter(|arg| arg.get_action().takes_values())
}

/// Returns the paths of the tree that begin with `typed`.
fn tree_paths(typed: &str, before: &[String]) -> Option<Vec<String>> {
    let (dir, start) = typed.rsplit_once('/').unwrap_or(("", typed));
    let path = |name| option(before, name).map(PathBuf::from);
    let url = option(before, "--postgres").and_then(|url| url.parse().ok());
    let location = Location::of(path("--data").as_deref(), url.as_ref(), path("--postgres-file").as_deref());
    // Without a folder there are none: a key stroke must not connect to a database.
    let data_dir = data_folder::open(location.ok()?.folder()?, data_folder::builder()).ok()?;
    let account = option(before, "--account").or_else(|| std::env::var("GARTH_ACCOUNT").ok());
    let account = account.unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned());
    block_on(async {
        let tree: Arc<dyn FileSystem> = match before.iter().any(|word| word == "--operator") {
            true => Arc::new(OperatorTree::new(Arc::new(data_dir))),
            false => data_dir.account(&account).await.ok()?,
        };
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
                // The shell prints candidates as they are, one per line, so names with control characters
                // must be typed.
                if name.starts_with(start) && terminal::one_line(name) == name {
                    let end = if entry.kind == Kind::Directory { "/" } else { "" };
                    found.push(format!("{dir}/{name}{end}"));
                }
            }
        }
        Some(found)
    })
}

/// Returns the value of a global option on the line.
fn option(words: &[String], name: &str) -> Option<String> {
    let value = |(at, word): (usize, &String)| match word.strip_prefix(name)? {
        "" => words.get(at + 1).cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    };
    words.iter().enumerate().rev().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value names of arguments that are paths of the tree.
    const NAMES: [&str; 7] = ["PATH", "PATHS", "SOURCE", "DEST", "TARGET", "LINK", "OTHER"];

    #[test]
    fn every_tree_path_argument_is_completed() {
        let mut root = command();
        root.build();
        let mut marked = 0;
        for verb in root.get_subcommands() {
            for arg in verb.get_arguments() {
                let names = arg.get_value_names().unwrap_or_default();
                let is_path = names.iter().any(|name| NAMES.contains(&name.as_str()));
                // Paths of this machine have a type of their own, which has another hint.
                let unmarked = arg.get_value_hint() == clap::ValueHint::Unknown;
                assert!(!(is_path && unmarked), "{} {}: mark it", verb.get_name(), arg.get_id());
                marked += usize::from(arg.get_value_hint() == TREE_PATH);
            }
        }
        assert!(marked >= 30, "{marked}");
    }
}
