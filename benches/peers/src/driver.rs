//! Order of a measurement: the runs of the sides alternate, and their figures end in the table.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::figures::Figures;
use crate::options::Options;
use crate::rows::{ROWS, Workload};
use crate::side::Which;
use crate::{http, import, machine, report};

/// Measures and prints the table. A workload that fails prints its error and leaves its rows empty; the
/// others continue.
pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.runs >= 1, "--runs is at least 1");
    print!("{}", machine::header(options.folder()?.path(), options.runs, options.size)?);
    let wanted = |workload: &Workload| options.rows.is_empty() || options.rows.contains(workload);
    let mut measured = BTreeMap::new();
    for workload in Workload::value_variants().iter().copied().filter(wanted) {
        let figures = measure(workload, options).unwrap_or_else(|error| {
            eprintln!("{workload:?} failed: {error:#}");
            Figures::default()
        });
        measured.insert(workload, figures);
    }
    let rows = ROWS.iter().filter_map(|row| Some((row, measured.get(&row.workload)?)));
    print!("{}", report::table(rows));
    Ok(())
}

fn measure(workload: Workload, options: &Options) -> Result<Figures> {
    eprintln!("{workload:?}");
    match workload {
        Workload::Get => http::get(options),
        Workload::Put => http::put(options),
        Workload::HalfLoad => http::half_load(options),
        Workload::Computing => http::beside_computing(options),
        Workload::Idle => http::idle(options),
        Workload::Import => import::measure(options),
        Workload::Reset => resets(options),
        Workload::Names => {
            let data = options.folder()?;
            let mut figures = options.child(workload, Which::Garth, &data, None, options.runs)?;
            figures.merge("", http::beside_searches(options, &data)?);
            Ok(figures)
        }
        // The preparation takes long: one process does it once and compares garth with itself.
        Workload::Deep
        | Workload::Versions
        | Workload::Lives
        | Workload::Find
        | Workload::Accounts
        | Workload::Views
        | Workload::Rules
        | Workload::Memories
        | Workload::Sessions
        | Workload::Owners
        | Workload::Prompt => options.child(workload, Which::Garth, &options.folder()?, None, options.runs),
        Workload::Files
        | Workload::Create
        | Workload::CreateIndexed
        | Workload::CreateOne
        | Workload::Append
        | Workload::Big
        | Workload::Tree
        | Workload::List
        | Workload::Pictures => alternate(workload, options),
    }
}

/// Runs garth and its peers alternately, each in its own folder.
fn alternate(workload: Workload, options: &Options) -> Result<Figures> {
    let mut figures = Figures::default();
    for run in 1..=options.runs {
        eprintln!("  {run}/{}", options.runs);
        // A new folder for each run: no run benefits from the files of an earlier one.
        let own = options.folder()?;
        let outcome = options.child(workload, Which::Garth, &own, None, 1)?;
        figures.merge("", outcome);
        for peer in workload.peers() {
            let outcome = options.child(workload, *peer, &options.folder()?, Some(&own), 1)?;
            figures.merge(peer.called(), outcome);
        }
    }
    Ok(figures)
}

/// Resets a session, each time in a process other than the one that has written it.
fn resets(options: &Options) -> Result<Figures> {
    let mut figures = Figures::default();
    for run in 1..=options.runs {
        eprintln!("  {run}/{}", options.runs);
        let data = options.folder()?;
        for whose in ["writing", ""] {
            figures.merge(whose, options.child(Workload::Reset, Which::Garth, &data, None, 1)?);
        }
    }
    Ok(figures)
}
