//! Run of one side in its own process: prepares the workload, executes it, and prints the figures as one line
//! of JSON.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::figures::Figures;
use crate::process::told;
use crate::rows::Workload;
use crate::side::agentfs::AgentFs;
use crate::side::garth::Garth;
use crate::side::plain::Plain;
use crate::side::{Side, Which};
use crate::size::Size;
use crate::work::{self, scale};
use crate::{fixed, replay};

/// Arguments of a run.
#[derive(clap::Args)]
pub(crate) struct Options {
    workload: Workload,
    side: Which,
    /// Empty folder
    folder: PathBuf,
    #[command(flatten)]
    size: Size,
    /// Repetitions, for workloads with one common preparation
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Folder that garth's run has written
    #[arg(long)]
    garths: Option<PathBuf>,
}

/// Runs the workload and prints the figures.
pub(crate) fn run(options: &Options) -> Result<()> {
    let (folder, size) = (&options.folder, options.size);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut figures = runtime.block_on(async {
        match options.side {
            Which::Garth => garth(options).await,
            Which::AgentFs => common(&AgentFs::open(folder).await?, options.workload, size).await,
            Which::Plain => plain(options, folder).await,
        }
    })?;
    figures.add("peak", told("self", "status", "VmHWM:")? * 1024.0);
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

async fn garth(options: &Options) -> Result<Figures> {
    let (folder, size, runs) = (&options.folder, options.size, options.runs);
    match options.workload {
        Workload::Names => scale::names(folder, size, runs).await,
        Workload::Find => scale::find(folder, size, runs).await,
        Workload::Accounts => scale::accounts(folder, size, runs).await,
        Workload::Views => work::views::views(folder, size).await,
        Workload::Rules => work::rules::rules(folder, size, runs).await,
        Workload::Memories => work::memories::memories(folder, size, runs).await,
        Workload::Reset => work::reset::reset(folder, size).await,
        Workload::Pictures => work::pictures::pictures(folder, size).await,
        Workload::Prompt => work::prompt::prompt(folder, size, runs).await,
        Workload::Owners => work::owners::owners(folder, size, runs).await,
        Workload::Sessions => work::sessions::sessions(folder, size, runs).await,
        workload => {
            let garth = Garth::open(folder)?;
            match workload {
                Workload::Append => work::append(garth, folder, size).await,
                Workload::CreateIndexed => work::create_indexed(&garth, size).await,
                Workload::Deep => scale::deep(&garth, size, runs).await,
                Workload::Versions => scale::versions(&garth, size, runs).await,
                Workload::Lives => scale::lives(&garth, size, runs).await,
                workload => common(&garth, workload, size).await,
            }
        }
    }
}

async fn plain(options: &Options, folder: &Path) -> Result<Figures> {
    let size = options.size;
    match options.workload {
        Workload::CreateOne => work::create_one(&Plain::open(folder)?, size).await,
        Workload::Big => work::big(&Plain::open(folder)?, size).await,
        Workload::Append => {
            let garths = options.garths.as_deref().context("the same rows as which? --garths")?;
            replay::run(&garths.join(work::BEFORE_MERGING), folder, work::appends(size))
        }
        Workload::Put => fixed::put(folder, work::puts(size)),
        Workload::Tree => fixed::rename(folder, work::tree_files(size)),
        workload => bail!("nothing plain does {workload:?}"),
    }
}

async fn common(side: &impl Side, workload: Workload, size: Size) -> Result<Figures> {
    match workload {
        Workload::Files => work::files(side, size).await,
        Workload::Create | Workload::CreateIndexed => work::create(side, size, false).await,
        Workload::CreateOne => work::create_one(side, size).await,
        Workload::Big => work::big(side, size).await,
        Workload::Tree => work::tree(side, size).await,
        Workload::List => work::list(side, size).await,
        workload => bail!("{workload:?} has no common run"),
    }
}
