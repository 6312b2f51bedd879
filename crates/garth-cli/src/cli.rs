//! The complete command line: a command and the global options.

use clap::Parser;

use crate::args::Global;
use crate::verb::Verb;

/// versioned, searchable storage for AI agents: files, memories, sessions and context
#[derive(Parser)]
#[command(name = "garth", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) global: Global,
}
