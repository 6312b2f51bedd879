//! `garth fsck`, `gc` and `reindex`: maintenance of the storage of accounts.

use std::time::Duration;

use clap::Args;
use futures::TryStreamExt;
use garth_agent::access::upgraded;
use garth_engine::fs::store::{Collectable, Collected};
use garth_engine::{AccountStore, FileSystemExt};
use indicatif::HumanBytes;
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::data_folder::each_account;
use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result};
use crate::out::counted;
use crate::progress;
use crate::verb::retention::span_text;
use crate::when::parse_span_with_unit;

/// Grace period below which `gc` asks for --force. Other processes take leases once a minute.
const MIN_GRACE: Duration = Duration::from_secs(120);

/// Accounts to work on.
#[derive(Args, Debug)]
pub(super) struct Accounts {
    /// Work on all accounts, not only that of --account
    #[arg(long)]
    pub(super) all: bool,
}

/// Check the integrity of stored data; change nothing
///
/// Data that is written meanwhile is checked in the state that it has when its turn comes. With --json,
/// prints one object per account: account, ok, names, versions, chunks, bytes, findings (kind, detail), large
/// (tables whose structure takes too long to check completely), decided (for an account from before agents
/// had owners: decisions on who may see what), unlisted (the number of further decisions). The exit code is 1
/// if there are findings.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth fsck --all")]
pub(crate) struct Fsck {
    #[command(flatten)]
    accounts: Accounts,
}

/// Remove expired entries, unused content and the past that retention ends; merge small extents
///
/// Snapshots, overlays and open files keep the states that they need. The past and old content go in several
/// runs: the first one makes them unreadable, one after the grace period removes them, and one after another
/// grace period removes files that only the past had. The output says what waits; run `garth gc` again after
/// the grace period until nothing does. A running `garth serve` does all of this by itself.
///
/// The grace period protects other processes. What they read gets a lease within a minute, and with a lease
/// it stays; what they have just begun to read has only the grace period. What files contain now, and what
/// retention keeps, is never removed. An upload that no commit has used is kept for at least 2m.
///
/// Sizes of the past and of old content are upper limits (`at most`): bytes that something else shares stay.
///
/// With --json, prints one object per account: account, dry_run, expired, staged, versions, merged, chunks,
/// bytes, packs, freed, shrunk (bytes by which the database becomes shorter), waiting and waiting_bytes
/// (files that wait for the grace period, and bytes of pack files), waiting_commits and waiting_contents
/// (commits, and files with old content, that are unreadable and wait), folded (commits that left the log),
/// ended_versions and ended_bytes (versions and content that only those commits showed), contents (old
/// contents of files that can no longer be read) and content_bytes (those removed), oldest (the first commit
/// whose state can be read, 0 for all); with --dry-run unnamed (the number of files whose versions would be
/// removed) in place of versions, merged, shrunk, waiting_commits and waiting_contents.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  garth gc --dry-run\n  garth gc --all")]
pub(crate) struct Gc {
    #[command(flatten)]
    accounts: Accounts,
    /// Report what would be removed, and change nothing; small extents are not counted
    #[arg(long)]
    dry_run: bool,
    /// Grace period: keep content that was found unused less than this long ago, because another process may
    /// still read it
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_span_with_unit)]
    #[arg(allow_hyphen_values = true)]
    grace: i64,
    /// Allow a grace period below 2m, while no other process, such as a server, uses the data folder: reads
    /// that it has begun would fail
    #[arg(long)]
    force: bool,
}

/// Rebuild the search index and the counts of quotas from the files
///
/// With --json, prints one object per account: account, files.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth reindex")]
pub(crate) struct Reindex {
    #[command(flatten)]
    accounts: Accounts,
}

impl Fsck {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("fsck")?;
        let mut sound = true;
        self.accounts
            .each(app, "checking", async |app, account, tree| {
                let found = tree.fsck().await?;
                app.warn_of_clock(account, &tree.head().await?);
                sound &= found.findings.is_empty();
                let decided = upgraded(tree).await?.unwrap_or_default();
                let mut json = object(account, &found);
                json["ok"] = found.findings.is_empty().into();
                json["decided"] = json!(decided.decided);
                json["unlisted"] = decided.unlisted.into();
                let mut text = format!(
                    "{}: {}, {}, {} ({}): ",
                    escaped(account),
                    counted(found.names, "name", "names"),
                    counted(found.versions, "version", "versions"),
                    counted(found.chunks, "chunk", "chunks"),
                    HumanBytes(found.bytes)
                );
                match found.findings.len() {
                    0 => text.push_str("sound"),
                    many => text.push_str(&counted(many as u64, "finding", "findings")),
                }
                for finding in &found.findings {
                    text.push_str(&format!("\n  {}: {}", finding.kind, escaped(&finding.detail)));
                }
                for decision in &decided.decided {
                    text.push_str(&format!("\n  decided: {}", escaped(decision)));
                }
                if decided.unlisted > 0 {
                    text.push_str(&format!("\n  decided: {} more", decided.unlisted));
                }
                app.out.item(&json, text)
            })
            .await?;
        // The findings were printed with their account.
        if sound { Ok(()) } else { Err(Failure::Reported(1)) }
    }
}

impl Gc {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("gc")?;
        let (grace, dry_run) = (Duration::from_secs(self.grace.unsigned_abs()), self.dry_run);
        if grace < MIN_GRACE && !dry_run && !self.force {
            let message = "a grace period below 2m fails reads that another process has begun; stop every other \
                           process that uses the data folder, such as a server, and give --force";
            return Err(Failure::Usage(message.to_owned()));
        }
        self.accounts
            .each(app, "collecting", async |app, account, tree| {
                let (mut json, mut text) = if dry_run {
                    let report = tree.gc_dry_run(grace).await?;
                    (object(account, &report), would_collect(account, &report, grace))
                } else {
                    let report = tree.gc(grace).await?;
                    (object(account, &report), collected(account, &report, grace))
                };
                json["dry_run"] = dry_run.into();
                text.push_str(&kept_by_snapshot(tree).await?);
                app.warn_of_clock(account, &tree.head().await?);
                app.out.item(&json, text)
            })
            .await
    }
}

/// Returns a line on the first snapshot where path classes end old content: it keeps that of its state.
async fn kept_by_snapshot(tree: &dyn AccountStore) -> garth_engine::Result<String> {
    if tree.retention().await?.set.content.is_empty() {
        return Ok(String::new());
    }
    let first = tree.all_snapshots().try_next().await?;
    Ok(first.map_or_else(String::new, |snapshot| {
        let name = snapshot.owner.is_none().then(|| format!(" {}", escaped(&snapshot.name)));
        format!(
            "\n  snapshot{} keeps the old content of its state; `garth snapshot list` shows all of them",
            name.as_deref().unwrap_or(" of a view")
        )
    }))
}

fn collected(account: &str, report: &Collected, grace: Duration) -> String {
    let mut text = format!(
        "{}: removed {}, {}, {}, {} ({}), {}, {}; merged {}; gave back {}",
        escaped(account),
        counted(report.expired, "expired name", "expired names"),
        counted(report.staged, "upload", "uploads"),
        counted(report.versions, "version", "versions"),
        counted(report.chunks, "chunk", "chunks"),
        HumanBytes(report.bytes),
        counted(report.packs, "pack file", "pack files"),
        counted(report.folded, "commit", "commits"),
        counted(report.merged, "extent", "extents"),
        HumanBytes(report.freed.saturating_add(report.shrunk)),
    );
    if (report.ended_versions, report.ended_bytes) != (0, 0) {
        text.push_str(&format!("; removed {}", past(report.ended_versions, report.ended_bytes)));
    }
    if report.contents > 0 {
        let contents = counted(report.contents, "old content", "old contents");
        text.push_str(&format!("; made {contents} unreadable"));
    }
    if report.content_bytes > 0 {
        text.push_str(&format!("; removed at most {} of old content", HumanBytes(report.content_bytes)));
    }
    let unreadable = [
        (report.waiting_commits, "commit", "commits"),
        (report.waiting_contents, "file with old content", "files with old content"),
    ];
    text + &oldest(report.oldest) + &waiting(&unreadable, (report.waiting, report.waiting_bytes), grace)
}

fn would_collect(account: &str, report: &Collectable, grace: Duration) -> String {
    let mut text = format!(
        "{}: would remove {}, {}, writes to {}, {} ({}), {}; would give back {}",
        escaped(account),
        counted(report.expired, "expired name", "expired names"),
        counted(report.staged, "upload", "uploads"),
        counted(report.unnamed, "unnamed file", "unnamed files"),
        counted(report.chunks, "chunk", "chunks"),
        HumanBytes(report.bytes),
        counted(report.packs, "pack file", "pack files"),
        HumanBytes(report.freed),
    );
    if (report.folded, report.ended_versions, report.ended_bytes) != (0, 0, 0) {
        text.push_str(&format!(
            "\n  after the grace period: {}, {}",
            counted(report.folded, "commit", "commits"),
            past(report.ended_versions, report.ended_bytes)
        ));
    }
    if (report.contents, report.content_bytes) != (0, 0) {
        text.push_str(&format!(
            "\n  would make {} unreadable; after the grace period: at most {} of old content",
            counted(report.contents, "old content", "old contents"),
            HumanBytes(report.content_bytes)
        ));
    }
    text + &oldest(report.oldest) + &waiting(&[], (report.waiting, report.waiting_bytes), grace)
}

/// Returns the number of versions that end with the past, and a limit on their bytes: some may be shared.
fn past(versions: u64, bytes: u64) -> String {
    let versions = counted(versions, "version of the past", "versions of the past");
    format!("{versions} (at most {})", HumanBytes(bytes))
}

fn oldest(oldest: u64) -> String {
    match oldest {
        0 => String::new(),
        oldest => format!("; the past begins at {oldest}"),
    }
}

/// Returns what a later run removes, with the time of that run: counts of the past, and files with the bytes
/// of pack files.
fn waiting(past: &[(u64, &str, &str)], (files, bytes): (u64, u64), grace: Duration) -> String {
    let past = past.iter().filter(|(count, ..)| *count > 0);
    let mut parts: Vec<String> = past.map(|(count, one, many)| counted(*count, one, many)).collect();
    if files > 0 {
        parts.push(format!("{} ({})", counted(files, "unused file", "unused files"), HumanBytes(bytes)));
    }
    if parts.is_empty() {
        return String::new();
    }
    let again = match grace.is_zero() {
        true => String::new(),
        false => format!(" in {}", span_text(grace)),
    };
    format!(
        "\n  waiting for the grace period, or for what reads it: {}\n  \
         run `garth gc` again{again} to remove it; a running `garth serve` does so by itself",
        parts.join(", ")
    )
}

impl Reindex {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("reindex")?;
        self.accounts
            .each(app, "indexing", async |app, account, tree| {
                let files = tree.reindex().await?;
                let json = json!({"account": account, "files": files});
                app.out.item(
                    &json,
                    format_args!("{}: {} indexed", escaped(account), counted(files, "file", "files")),
                )
            })
            .await
    }
}

impl Accounts {
    /// Returns the names of the accounts.
    pub(super) async fn names(&self, app: &App) -> Result<Vec<String>> {
        if !self.all {
            return Ok(vec![app.global.account.clone()]);
        }
        let mut names = Vec::new();
        each_account(&*app.home().await?, |account| {
            names.push(account.id);
            Ok(())
        })
        .await?;
        Ok(names)
    }

    /// Runs `action` on each account, with a spinner on a terminal. Reports failures and continues.
    async fn each(
        &self,
        app: &mut App,
        doing: &str,
        mut action: impl AsyncFnMut(&mut App, &str, &dyn AccountStore) -> Result,
    ) -> Result {
        let home = app.home().await?;
        let accounts = self.names(app).await?;
        let bar = progress::spinner();
        let mut failures = Failures::default();
        for account in &accounts {
            progress::show(&bar, &format!("{doing} {account}"));
            let outcome = match home.open(account).await {
                Ok(tree) => action(app, account, &*tree).await,
                Err(error) => Err(error.into()),
            };
            let outcome = outcome.map_err(|failure| failure.of_account(account));
            // Flushed first, so that a failure does not appear before the output of earlier accounts.
            bar.suspend(|| app.out.flush().and_then(|()| failures.add(outcome, app.global.json)))?;
        }
        bar.finish_and_clear();
        failures.done()
    }
}

/// Returns the report of an account as JSON.
fn object(account: &str, found: &impl Serialize) -> Value {
    let mut json = serde_json::to_value(found).unwrap_or_default();
    json["account"] = account.into();
    json
}
