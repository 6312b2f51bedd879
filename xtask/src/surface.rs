//! `cargo xtask surface`: the public items of the library, as rustdoc sees them, one a line. The list is kept
//! in `crates/garth/public-api.txt`, so that a change of the surface shows in its diff.

mod crates;
mod items;
mod signature;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use self::crates::Crates;
pub(crate) use self::crates::as_rustdoc;

/// The committed list.
pub(crate) const LIST: &str = "crates/garth/public-api.txt";

/// Limit on the public items of the library: as many as a reader can look through in an hour.
const MOST: usize = 700;

/// Arguments.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Write the list rather than compare with it
    #[arg(long)]
    write: bool,
}

/// Compares the surface of the library with the committed list, or writes the list.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let surface = current(root)?;
    let (count, path) = (surface.len(), root.join(LIST));
    ensure!(
        count < MOST,
        "garth exports {count} items, more than {MOST}: export fewer in crates/garth/src/lib.rs"
    );
    let text = surface.iter().map(|line| format!("{line}\n")).collect::<String>();
    if options.write {
        std::fs::write(&path, text).with_context(|| format!("cannot write {LIST}"))?;
        println!("surface: {count} items, written to {LIST}");
        return Ok(ExitCode::SUCCESS);
    }
    let kept = std::fs::read_to_string(&path).with_context(|| format!("cannot read {LIST}"))?;
    let kept: Vec<String> = kept.lines().map(str::to_owned).collect();
    for (sign, lines) in [("-", missing(&kept, &surface)), ("+", missing(&surface, &kept))] {
        lines.iter().for_each(|line| println!("{sign} {line}"));
    }
    if kept == surface {
        println!("surface: {count} items, as {LIST} lists them");
        return Ok(ExitCode::SUCCESS);
    }
    println!("surface: differs from {LIST}; if that is meant, run `cargo xtask surface --write`");
    Ok(ExitCode::FAILURE)
}

/// Returns the lines of `of` that `others` lacks.
pub(crate) fn missing(of: &[String], others: &[String]) -> Vec<String> {
    of.iter().filter(|line| !others.contains(line)).cloned().collect()
}

/// Returns the surface of the library as it is now, sorted.
pub(crate) fn current(root: &Path) -> Result<Vec<String>> {
    Ok(items::listed(&Crates::documented(root)?))
}
