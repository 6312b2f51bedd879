//! The command line of garth: one command a file in [`verb`], everything through the same contract as any
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
mod lines;
mod logs;
mod model_args;
mod out;
mod patch;
mod pattern;
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

/// Answers are many small allocations on many threads, SQLite's among them, at which the system's allocator
/// is slow.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Lets the process open as many files as the system allows it: the soft limit of most systems is 1,024, for
/// the sake of programs that use `select`. How much is used is bounded by garth itself.
fn raise_limit_of_files() {
    let limit = getrlimit(Resource::Nofile);
    // as good as before, if it cannot be done
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Does without transparent huge pages, for all threads of the process (`PR_SET_THP_DISABLE`): the allocator
/// takes memory in pieces of which little is used at first, and the kernel would clear 2 MiB for each. What
/// it took before `main` stays.
fn refuse_huge_pages() {
    #[cfg(target_os = "linux")]
    {
        // as good as before, if it cannot be done
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
        cli.global.agent_is_named = matches.value_source("agent") == Some(ValueSource::CommandLine);
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

/// Prints help, the version, or why the arguments are refused.
fn usage_error(args: &[OsString], error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    // Not by `error.print()`: help shows values of variables.
    let help = error.render().to_string();
    if !error.use_stderr() {
        let _ = terminal::stdout(false).write_all(help.as_bytes());
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = terminal::stderr().write_all(help.as_bytes());
        return ExitCode::from(2);
    }
    let mut root = help::command();
    // Hands the global options on to the commands.
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
    cli.global.chat.check(cli.global.raw).map_err(Failure::Usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::stdio)?;
    let span = logs::begin(verb, &cli.global)?;
    let mut app = App::new(cli.global, Cli::command);
    let running: Pin<Box<dyn Future<Output = Result>>> = Box::pin(cli.verb.run(&mut app));
    let done = runtime.block_on(running.instrument(span));
    done.and(app.out.flush()).map_err(Failure::without_chat).map_err(|failure| match app.folder() {
        Ok(folder) => failure.in_data_dir(&folder),
        Err(_) => failure,
    })
}
