//! `cargo xtask bench`.
use std::path::Path;
use std::process::ExitCode;
#[derive(clap::Args)]
pub(crate) struct Options {}
pub(crate) fn run(_root: &Path, _options: &Options) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
