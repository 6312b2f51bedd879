//! The command line of garth: one verb a file in [`verb`], everything through the same contract as any
//! interface.

mod app;
mod args;
mod body;
mod cli;
mod compare;
mod complete;
mod content;
mod data_folder;
mod escape;
mod fail;
mod habits;
mod help;
mod history;
mod lines;
mod model_args;
mod out;
mod pattern;
mod place;
mod progress;
mod size;
mod terminal;
mod transfer;
mod verb;
mod walk;
mod when;

use std::io::Write as _;
use std::pin::Pin;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
    let matches = help::command().try_get_matches_from(habits::translated(std::env::args_os()));
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return usage_error(&error),
    };
    let json = cli.global.json;
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(json);
            ExitCode::from(failure.code())
        }
    }
}

/// Prints help, the version, or why clap refuses the arguments.
fn usage_error(error: &clap::Error) -> ExitCode {
    // Not by `error.print()`: the message repeats arguments, and the help shows values of variables.
    let text = error.render().to_string();
    let _ = match error.use_stderr() {
        true => terminal::stderr().write_all(text.as_bytes()),
        false => terminal::stdout(false).write_all(text.as_bytes()),
    };
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    if code != 0 && std::env::args_os().any(|arg| arg == "--json") {
        Failure::Usage(one_line(&text)).report_json();
    }
    ExitCode::from(code)
}

/// The whole message of an error of clap, which lists arguments on lines of their
/// own, without the usage below it.
fn one_line(rendered: &str) -> String {
    let lines = rendered.lines().map(str::trim);
    let message =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let words: Vec<&str> = message.flat_map(str::split_whitespace).collect();
    words.join(" ").trim_start_matches("error: ").to_owned()
}

fn run(cli: Cli) -> Result {
    cli.global.chat.check(cli.global.raw).map_err(Failure::Usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::stdio)?;
    let mut app = App::new(cli.global, Cli::command);
    let running: Pin<Box<dyn Future<Output = Result>>> = Box::pin(cli.verb.run(&mut app));
    let done = runtime.block_on(running);
    done.and(app.out.flush()).map_err(Failure::without_chat).map_err(|failure| match app.folder() {
        Ok(folder) => failure.in_data_dir(&folder),
        Err(_) => failure,
    })
}
