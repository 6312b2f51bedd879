//! Proof that concurrent writers lose no acknowledged data in a crash.

use super::{Config, Violation, Writers, cut_rounds, kill_rounds};
use crate::proof::{About, Broken, Proof, Proven, Report, Setting, hold};

/// Crashes under concurrent writers: HTTP clients of `garth serve` with one file per put, or a process that
/// commits batches of two files. The size is the number of crashes.
#[derive(Clone, Copy, Debug)]
pub struct WritersCrash {
    /// Kind of crash.
    pub by: By,
    /// True for HTTP clients, false for batches.
    pub over_http: bool,
}

/// Kind of crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// `kill -9`.
    Kill,
    /// Loss of power. Needs root.
    Cut,
}

impl Proof for WritersCrash {
    fn about(&self) -> About {
        let (full, ci) = match self.by {
            By::Kill => (200, 10),
            By::Cut => (100, 6),
        };
        let name = match (self.by, self.over_http) {
            (By::Kill, true) => "kill-http-puts",
            (By::Kill, false) => "kill-batches",
            (By::Cut, true) => "cut-http-puts",
            (By::Cut, false) => "cut-batches",
        };
        let claim = match self.over_http {
            true => "No acknowledged put over HTTP is lost to a crash.",
            false => "No acknowledged batch is lost to a crash, and none exists in part.",
        };
        About { name, claim, full, ci }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let writers = match self.over_http {
            true => Writers::Http,
            false => Writers::Batches(setting.binaries.join("crash-writer")),
        };
        let rounds = u32::try_from(setting.size).map_err(|_| Broken::because("too many crashes"))?;
        let config = Config { seed: setting.seed, rounds, garth: setting.garth(), writers, fault: None };
        let run = match self.by {
            By::Kill => kill_rounds,
            By::Cut => cut_rounds,
        };
        let seen = run(&config).map_err(|violation: Violation| Broken::because(violation.to_string()))?;
        hold((seen.lost, seen.partial) == (0, 0), || seen.to_string())?;
        let counts = ["crashes", "writes acknowledged and kept", "writes in flight", "of these kept"];
        Ok(Report::of(counts)
            .with("crashes", seen.rounds)
            .with("writes acknowledged and kept", seen.acknowledged)
            .with("writes in flight", seen.in_flight)
            .with("of these kept", seen.kept))
    }
}
