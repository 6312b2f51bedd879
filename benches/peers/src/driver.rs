//! The order of a measurement: runs of the sides alternate, their figures end in the table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::figures::{Figures, Outcome};
use crate::process::{folder, outcome, replay};
use crate::rows::{ROWS, Workload};
use crate::side::Which;
use crate::{http, machine, report, work};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rows to measure; all unless named
    rows: Vec<Workload>,
    /// Small sizes, to try the program out: the figures mean little
    #[arg(long)]
    quick: bool,
    /// Alternating runs of each side
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// The `garth` binary for the HTTP rows
    #[arg(long)]
    garth: Option<PathBuf>,
    /// Where to put the data; a folder on the disk to be measured
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.runs >= 1, "--runs is at least 1");
    let base = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    print!("{}", machine::header(&base, options.runs, options.quick)?);
    let wanted = |workload: &Workload| options.rows.is_empty() || options.rows.contains(workload);
    let mut measured = BTreeMap::new();
    for workload in Workload::value_variants().iter().copied().filter(wanted) {
        measured
            .insert(workload, measure(workload, options, &base).with_context(|| format!("{workload:?}"))?);
    }
    let rows = ROWS.iter().filter_map(|row| Some((row, measured.get(&row.workload)?)));
    print!("{}", report::table(rows));
    Ok(())
}

fn measure(workload: Workload, options: &Options, base: &Path) -> Result<Figures> {
    let mut figures = Figures::default();
    let server =
        || options.garth.as_deref().context("the HTTP rows need --garth PATH, the binary to serve with");
    match workload {
        Workload::Get => return http::get(server()?, base, options.runs, options.quick),
        Workload::Put => return http::put(server()?, base, options.runs, options.quick),
        Workload::Deep => {
            eprintln!("{workload:?}");
            let folder = folder(base)?;
            let mut outcome = child(workload, Which::Garth, folder.path(), options, options.runs)?;
            let shallow = outcome.nanos.remove("shallow").context("the run has both")?;
            figures.peer.insert("deep".to_owned(), shallow);
            figures.add_garth(outcome);
            return Ok(figures);
        }
        _ => {}
    }
    for run in 1..=options.runs {
        eprintln!("{workload:?} {run}/{}", options.runs);
        let own = folder(base)?;
        let outcome = child(workload, Which::Garth, own.path(), options, 1)?;
        if workload == Workload::Append {
            figures.disk.push(machine::disk_use(own.path())? as f64 / outcome.given as f64);
        }
        figures.add_garth(outcome);
        let other = folder(base)?;
        if let Some(peer) = workload.peer() {
            figures.add_peer(child(workload, peer, other.path(), options, 1)?);
        } else {
            let outcome = replay(own.path(), other.path(), work::appends(options.quick), "append")?;
            figures.add_peer(outcome);
        }
    }
    Ok(figures)
}

fn child(workload: Workload, side: Which, folder: &Path, options: &Options, runs: usize) -> Result<Outcome> {
    let mut command = Command::new(std::env::current_exe()?);
    let name = |value: Option<clap::builder::PossibleValue>| value.map(|v| v.get_name().to_owned());
    command
        .arg("child")
        .args(name(workload.to_possible_value()))
        .args(name(side.to_possible_value()))
        .arg(folder);
    command.args(options.quick.then_some("--quick")).args(["--runs", &runs.to_string()]);
    outcome(command)
}
