//! One run of one side, in a process of its own: makes the workload, does it, prints
//! what it took as one line of JSON.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::figures::Outcome;
use crate::rows::Workload;
use crate::side::agentfs::AgentFs;
use crate::side::garth::Garth;
use crate::side::raw::Raw;
use crate::side::{Side, Which};
use crate::work::{self, Sizes};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    workload: Workload,
    side: Which,
    /// An empty folder
    folder: PathBuf,
    #[arg(long)]
    quick: bool,
    /// Repetitions, where they share one set-up
    #[arg(long, default_value_t = 1)]
    runs: usize,
}

/// Runs the workload and prints the outcome.
pub(crate) fn run(options: &Options) -> Result<()> {
    let sizes = Sizes::new(options.quick);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut outcome = runtime.block_on(async {
        match (options.side, options.workload) {
            (Which::Raw, Workload::CreateOne) => work::create_one_raw(&Raw::open(&options.folder)?, &sizes),
            (Which::Raw, workload) => bail!("plain files have no side in {workload:?}"),
            (Which::AgentFs, workload) => {
                common(&AgentFs::open(&options.folder).await?, workload, &sizes).await
            }
            (Which::Garth, workload) => {
                let garth = Garth::open(&options.folder)?;
                match workload {
                    Workload::Append => work::append(&garth, &sizes).await,
                    Workload::Deep => work::deep(&garth, &sizes, options.runs).await,
                    workload => common(&garth, workload, &sizes).await,
                }
            }
        }
    })?;
    outcome.peak_kib = peak_kib()?;
    print(&outcome)
}

/// Prints an outcome for the driver.
pub(crate) fn print(outcome: &Outcome) -> Result<()> {
    println!("{}", serde_json::to_string(outcome)?);
    Ok(())
}

async fn common(side: &impl Side, workload: Workload, sizes: &Sizes) -> Result<Outcome> {
    match workload {
        Workload::Files => work::files(side, sizes).await,
        Workload::Create => work::create(side, sizes, false).await,
        Workload::CreateIndexed => work::create(side, sizes, true).await,
        Workload::CreateOne => work::create_one(side, sizes).await,
        Workload::Big => work::big(side, sizes).await,
        Workload::Tree => work::tree(side, sizes).await,
        Workload::List => work::list(side, sizes).await,
        Workload::Append | Workload::Deep | Workload::Get | Workload::Put => {
            bail!("{workload:?} has no common run")
        }
    }
}

/// `VmHWM` of this process: most memory it held at once.
fn peak_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("needs Linux's /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in /proc")?;
    line.trim().trim_end_matches("kB").trim().parse().context("VmHWM is a number")
}
