//! Separate processes, so that neither memory nor open files of one run affect another.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::figures::Figures;

/// Runs a command and reads the figures that it prints.
pub(crate) fn outcome(mut command: Command) -> Result<Figures> {
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{command:?} failed ({})", output.status);
    serde_json::from_slice(&output.stdout).context("a run prints its figures as JSON")
}

/// Returns the name of a choice on the command line.
pub(crate) fn name(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Returns the number after a word in a file of `/proc`, such as `VmHWM:` in `status`, without its unit.
pub(crate) fn told(process: &str, file: &str, word: &str) -> Result<f64> {
    let path = format!("/proc/{process}/{file}");
    let text = std::fs::read_to_string(&path).with_context(|| format!("{path}: needs Linux"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(word));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.with_context(|| format!("{path} has no number after {word}"))
}
