//! The whole command line: a verb and the global options.

use clap::Parser;

use crate::args::Global;
use crate::verb::Verb;

/// The durable home of AI agents: one versioned, searchable tree per account
///
/// Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 denied, 6 quota or rule, 7 I/O. Errors go
/// to stderr as `garth: <path>: <message>`, with --json also as {"error":{"kind","path","message","exit"}} on
/// a line of its own.
///
/// `--help` is help for every verb; so is `-h`, except in ls, du and tree (human-readable sizes) and grep (no
/// file names).
#[derive(Parser)]
#[command(name = "garth", version, max_term_width = 110, after_help = "Example:\n  garth serve")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) global: Global,
}
