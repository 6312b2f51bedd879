//! Metrics of a server with many accounts: after one scenario, every figure equals a count by hand, and the
//! series are those that one account has caused.

mod calls;
mod figures;
mod scraper;

use std::collections::BTreeSet;

use futures::executor::block_on;
use garth_server::Options;
use garth_testkit::proof::{About, Proof, Proven, Report, Setting, hold};
use serde_json::json;

use self::calls::{NAME, account, make_calls};
use self::figures::{Figures, HandCount};
use self::scraper::Scraper;
use crate::in_process::InProcessServer;
use crate::served::{Connection, Request};

/// Fault to plant, as a negative control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The count by hand leaves out a call.
    UncountedCall,
    /// One account makes a call that no other account has made.
    OtherCall,
}

/// Accounts that each make the same calls. The size is the number of accounts.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetricLabels {
    /// Fault to plant.
    pub fault: Option<Fault>,
}

const COUNTS: [&str; 4] = ["accounts", "calls", "commits", "series"];

impl Proof for MetricLabels {
    fn about(&self) -> About {
        About {
            name: "metrics",
            claim: "Every figure of the metrics equals a count by hand, and no series names an account.",
            full: 10_000,
            ci: 40,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let server = InProcessServer::start(&setting.folder.join("data"), Options::default())?;
        let mut keys = Vec::new();
        for number in 0..=setting.size {
            block_on(server.home.create_account(&account(number)))?;
            keys.push(server.key(&account(number))?);
        }
        let mut scraper = Scraper::connect(&server.address)?;
        // The first account causes the series. The first scrape is not in its own figures.
        make_calls(&server, (0, &keys[0]), &mut HandCount::default())?;
        scraper.scrape_alone(&mut HandCount::default())?;
        let (before, cost) = scraper.scrape_alone(&mut HandCount::default())?;
        let (mut hand, mut report) = (HandCount::default(), Report::of(COUNTS));
        cost.count_answer(&mut hand);
        for (number, key) in (0_u64..).zip(&keys).skip(1) {
            report.add("calls", make_calls(&server, (number, key), &mut hand)?);
            report.add("commits", count_commits(&server, number, &mut hand)?);
            report.add("accounts", 1_u64);
        }
        let further = match self.fault {
            Some(Fault::UncountedCall) => Some(Request::post("get", &json!({"path": "/a"})).key(&keys[1])),
            Some(Fault::OtherCall) => Some(Request::new("GET", "/healthz")),
            None => None,
        };
        if let Some(request) = further {
            Connection::open(&server.address)?.ok(&request)?;
        }
        let (after, _) = scraper.scrape_alone(&mut hand)?;
        hand.set("garth_http_requests_in_flight", 1.0);
        hand.set("garth_connections_open", 1.0);
        check_series(&before, &after)?;
        for (rule, count) in hand.check(&before, &after)? {
            report.add_in("series by comparison", rule, count);
        }
        Ok(report.with("series", after.len()))
    }
}

/// Counts the commits of an account: its sequence begins at 0.
fn count_commits(server: &InProcessServer, number: u64, hand: &mut HandCount) -> Proven<u64> {
    let tree = block_on(server.home.account(&account(number)))?;
    let commits = block_on(tree.head())?.seq.0;
    for series in [
        "garth_commits_total{outcome=\"ok\"}",
        // One call after the other, so that no two commits share a transaction.
        "garth_commit_group_size_sum",
        "garth_commit_group_size_count",
        "garth_commit_sync_seconds_count",
        "garth_queue_wait_seconds_count{kind=\"commit\"}",
    ] {
        hand.add(series, commits as usize);
    }
    // Before the first commit of an open account.
    hand.add("garth_checkpoints_total{kind=\"restart\"}", 1);
    Ok(commits)
}

/// Compares the series of two scrapes.
fn check_series(before: &Figures, after: &Figures) -> Proven<()> {
    let names = |figures: &Figures| figures.keys().cloned().collect::<BTreeSet<String>>();
    let (before, after) = (names(before), names(after));
    let new: Vec<&String> = after.difference(&before).collect();
    hold(new.is_empty(), || format!("further accounts have caused further series: {new:?}"))?;
    let named = after.iter().find(|series| series.to_lowercase().contains(NAME));
    hold(named.is_none(), || format!("a series names an account: {named:?}"))
}
