//! Text from the user: an argument, a file of this machine, or standard input.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::config::{shown_file, without_line_end};
use crate::fail::{Failure, Result};

/// Longest file with a secret in bytes, as a protection against a wrong file name.
const MAX_SECRET: usize = 4096;

/// Returns the argument. Reads standard input if it is `-` or missing. `what` names the text in errors.
pub(crate) fn argument_or_stdin(text: Option<String>, limit: usize, what: &str) -> Result<String> {
    match text {
        Some(text) if text != "-" => {
            if text.len() > limit {
                return Err(too_long(what, limit));
            }
            Ok(text)
        }
        _ => bounded(&mut std::io::stdin().lock(), limit, what),
    }
}

/// Reads a file of this machine, or standard input if it is `-`.
pub(crate) fn file_or_stdin(file: &str, limit: usize) -> Result<String> {
    if file == "-" {
        return bounded(&mut std::io::stdin().lock(), limit, "standard input");
    }
    let path = Path::new(file);
    let mut opened = File::open(path).map_err(Failure::host(path))?;
    bounded(&mut opened, limit, file)
}

/// Reads a text that takes the place of a stored one, as [`file_or_stdin`]. Standard input is empty where a
/// pipeline failed, which must not erase anything. `instead` says how to erase it.
pub(crate) fn replacement(file: &str, limit: usize, instead: &str) -> Result<String> {
    let text = file_or_stdin(file, limit)?;
    if text.trim().is_empty() {
        let what = if file == "-" { "standard input" } else { file };
        return Err(Failure::Usage(format!("{what}: has no text, so nothing was changed; {instead}")));
    }
    Ok(text)
}

/// Reads the secret in the file that an option names.
pub(crate) fn secret(option: &str, file: &Path) -> Result<String> {
    // A key that was given in place of its file is not repeated.
    let what = format!("{option}: {}", shown_file(file));
    let mut opened = File::open(file).map_err(Failure::host(Path::new(&what)))?;
    let text = bounded(&mut opened, MAX_SECRET, &what)?;
    Ok(without_line_end(&text).to_owned())
}

fn bounded(from: &mut dyn std::io::Read, limit: usize, what: &str) -> Result<String> {
    let mut bytes = Vec::new();
    // One more byte shows that the text is too long.
    from.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(Failure::host(Path::new(what)))?;
    if bytes.len() > limit {
        return Err(too_long(what, limit));
    }
    String::from_utf8(bytes).map_err(|_| Failure::Usage(format!("{what}: not UTF-8 text")))
}

fn too_long(what: &str, limit: usize) -> Failure {
    Failure::Usage(format!("{what}: more than {limit} bytes"))
}
