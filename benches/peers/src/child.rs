//! One run of one side, in a process of its own: makes the workload, does it, prints what it took as one line of JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

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

/// What one run took.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Nanoseconds of one operation, by measure, one for each repetition.
    pub(crate) nanos: BTreeMap<String, Vec<f64>>,
    /// Most memory the process held, in KiB.
    pub(crate) peak_kib: u64,
    /// Bytes of content given, where the disk is measured.
    pub(crate) given: u64,
}

impl Outcome {
    /// `ops` operations that took `spent` together.
    pub(crate) fn of(measure: &str, spent: Duration, ops: u64) -> Self {
        Self::default().and(measure, spent, ops)
    }

    /// With another measure, or another repetition of one.
    pub(crate) fn and(mut self, measure: &str, spent: Duration, ops: u64) -> Self {
        let nanos = spent.as_nanos() as f64 / ops as f64;
        self.nanos.entry(measure.to_owned()).or_default().push(nanos);
        self
    }
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
