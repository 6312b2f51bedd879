//! Commands of the binary `agent-proof-worker`.

use std::path::Path;

use garth_testkit::proof::{Broken, Proven};

use crate::view_kills::{self, How};
use crate::{memories, outbox, retry_kills, sessions};

/// Runs a command: `views FOLDER`, `split-views FOLDER`, `retries FOLDER FROM`, `plain-retries FOLDER FROM`,
/// `outbox FOLDER URL FAULT`, `memories FOLDER SEED`, `resets FOLDER SEED` or `sessions FOLDER SEED`.
///
/// # Errors
/// The violated promise, for the process that started this one.
pub fn work(arguments: &[String]) -> Proven<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().map_err(|_| Broken::because(format!("`{text}` is no number")));
    match arguments.as_slice() {
        ["views", folder] => view_kills::write_until_killed(Path::new(folder), How::Whole),
        ["split-views", folder] => view_kills::write_until_killed(Path::new(folder), How::Split),
        ["retries", folder, from] => {
            retry_kills::write_until_killed(Path::new(folder), from, retry_kills::Form::Keyed)
        }
        ["plain-retries", folder, from] => {
            retry_kills::write_until_killed(Path::new(folder), from, retry_kills::Form::Plain)
        }
        ["outbox", folder, url, fault] => outbox::work(Path::new(folder), url, fault),
        ["resets", folder, seed] => sessions::resets::work_until_crash(Path::new(folder), number(seed)?),
        ["sessions", folder, seed] => sessions::crashes::work_until_crash(Path::new(folder), number(seed)?),
        ["memories", folder, seed] => memories::change_until_killed(Path::new(folder), number(seed)?),
        _ => Err(Broken::because("no such work")),
    }
}
