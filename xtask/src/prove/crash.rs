//! Crashes under writers: HTTP clients of `garth serve` with one file a put, then batches of two files on the
//! engine.

use anyhow::{Result, ensure};
use garth_testkit::crash::{Config, Report, Violation, Writers, cut_rounds, kill_rounds};

use super::Binaries;

/// `kill -9`.
pub(super) fn kill(binaries: &Binaries, rounds: u64, seed: u64) -> Result<()> {
    both(binaries, rounds, seed, kill_rounds)
}

/// Loss of power.
pub(super) fn cut(binaries: &Binaries, rounds: u64, seed: u64) -> Result<()> {
    both(binaries, rounds, seed, cut_rounds)
}

fn both(
    Binaries { garth, writer, .. }: &Binaries,
    rounds: u64,
    seed: u64,
    run: fn(&Config) -> Result<Report, Violation>,
) -> Result<()> {
    let rounds = u32::try_from(rounds)?;
    for (name, writers) in [("puts over HTTP", Writers::Http), ("batches", Writers::Batches(writer.clone()))]
    {
        let report = run(&Config { seed, rounds, garth: garth.clone(), writers, fault: None })?;
        println!("{name}: {report}");
        ensure!((report.lost, report.partial) == (0, 0), "a promise is broken");
    }
    Ok(())
}
