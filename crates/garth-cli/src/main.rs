//! Command line of garth. Each command is a file in [`verb`], and uses the same contract as any other
//! interface.

mod app;
mod args;
mod body;
mod cli;
mod compare;
mod complete;
mod config;
mod content;
mod data_folder;
mod escape;
mod fail;
mod habits;
mod help;
mod history;
mod host_text;
mod location;
mod logs;
mod model_args;
#[cfg(test)]
mod named_commands;
mod opened_home;
mod out;
mod patch;
mod place;
mod progress;
mod size;
mod terminal;
mod transfer;
mod usage;
mod verb;
mod walk;
mod when;
mod words;

use std::ffi::OsString;
use std::io::Write as _;
use std::pin::Pin;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::Instrument as _;

use crate::app::App;
use crate::cli::Cli;
use crate::fail::{Failure, Result};

/// Answers need many small allocations on many threads, including those of SQLite, for which the system's
/// allocator is slow.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Raises the limit of open files to what the system allows. The usual soft limit of 1,024 exists for
/// programs that use `select`; garth bounds the number of its files itself.
fn raise_limit_of_files() {
    let limit = getrlimit(Resource::Nofile);
    // If it fails, garth works as before.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Disables transparent huge pages for the process (`PR_SET_THP_DISABLE`). The allocator takes memory in
/// large pieces of which little is used at first, and the kernel would clear 2 MiB for each. Memory taken
/// before `main` is not affected.
fn refuse_huge_pages() {
    #[cfg(target_os = "linux")]
    {
        // If it fails, garth works as before.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}

fn main() -> ExitCode {
    if complete::answer_shell() {
        return ExitCode::SUCCESS;
    }
    raise_limit_of_files();
    refuse_huge_pages();
    let args = habits::translated(std::env::args_os());
    let matches = help::command().try_get_matches_from(&args);
    let parsed = matches.and_then(|matches| {
        let verb = matches.subcommand_name().unwrap_or_default().to_owned();
        let mut cli = Cli::from_arg_matches(&matches)?;
        let is_named = |option| matches.value_source(option) == Some(ValueSource::CommandLine);
        cli.global.account_is_named = is_named("account");
        cli.global.agent_is_named = is_named("agent");
        Ok((verb, cli))
    });
    let (verb, cli) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage_error(&args, &error),
    };
    let json = cli.global.json;
    match run(&verb, cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(json);
            ExitCode::from(failure.code())
        }
    }
}

/// Prints help, the version, or the reason why the arguments are refused.
fn usage_error(args: &[OsString], error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    // Not by `error.print()`: help contains values of variables, which may be unsafe for a terminal.
    let help = error.render().to_string();
    if !error.use_stderr() {
        let _ = terminal::stdout(false).write_all(help.as_bytes());
        return ExitCode::SUCCESS;
    }
    // Without a command, help is the error message.
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = terminal::stderr().write_all(help.as_bytes());
        return ExitCode::from(2);
    }
    let mut root = help::command();
    // Passes the global options on to the commands.
    root.build();
    let message = usage::message(&root, args, error);
    terminal::tell(&message);
    let failure = Failure::Usage(usage::one_line(&message));
    if args.iter().any(|arg| arg == "--json") {
        failure.report_json();
    }
    ExitCode::from(failure.code())
}

fn run(verb: &str, cli: Cli) -> Result {
    cli.global.check(verb).map_err(Failure::Usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::stdio)?;
    let span = logs::begin(verb, &cli.global)?;
    let mut app = App::new(cli.global, Cli::command);
    let running: Pin<Box<dyn Future<Output = Result>>> = Box::pin(cli.verb.run(&mut app));
    let done = runtime.block_on(running.instrument(span));
    // The rest of the output may fail to be written, too.
    done.and(app.out.flush()).map_err(Failure::without_chat).map_err(|failure| match app.location() {
        Ok(location) => location.failed(failure),
        Err(_) => failure,
    })
}
