//! `garth fsck`, `gc` and `reindex`: maintenance of the storage of accounts.

use std::time::Duration;

use clap::Args;
use garth_agent::access::upgraded;
use garth_engine::AccountStore;
use garth_engine::datadir::AccountState;
use indicatif::HumanBytes;
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result};
use crate::out::counted;
use crate::progress;
use crate::when::parse_span;

/// The accounts that are meant.
#[derive(Args, Debug)]
pub(super) struct Accounts {
    /// Work on all accounts, not only that of --account
    #[arg(long)]
    pub(super) all: bool,
}

/// Check the integrity of stored data; change nothing
///
/// Concurrent writes are checked as they are when their turn comes. With --json, prints one object per
/// account: account, ok, names, versions, chunks, bytes, findings (kind, detail), large (tables whose
/// structure takes too long to check as a whole), decided (for an account from before agents had owners:
/// decisions on who may see what), unlisted (the number of further decisions). The exit code is 1 if there
/// are findings.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth fsck --all")]
pub(crate) struct Fsck {
    #[command(flatten)]
    accounts: Accounts,
}

/// Remove expired entries, abandoned uploads and unreferenced content; merge small extents
///
/// Versions, snapshots and open files stay. Unused content is removed by the first run after the grace
/// period. With --json, prints one object per account: account, expired, staged, versions, merged, chunks,
/// bytes, packs, freed, waiting, waiting_bytes.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth gc --all")]
pub(crate) struct Gc {
    #[command(flatten)]
    accounts: Accounts,
    /// Grace period: keep content that was found unused less than this long ago, because another process may
    /// still read it; at least 2m while others run
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_span)]
    grace: i64,
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
        if sound { Ok(()) } else { Err(Failure::Reported(1)) }
    }
}

impl Gc {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("gc")?;
        let grace = Duration::from_secs(self.grace.unsigned_abs());
        self.accounts
            .each(app, "collecting", async |app, account, tree| {
                let gone = tree.gc(grace).await?;
                let mut text = format!(
                    "{}: removed {}, {}, {}, {} ({}), {}; merged {}; gave back {}",
                    escaped(account),
                    counted(gone.expired, "expired name", "expired names"),
                    counted(gone.staged, "upload", "uploads"),
                    counted(gone.versions, "version", "versions"),
                    counted(gone.chunks, "chunk", "chunks"),
                    HumanBytes(gone.bytes),
                    counted(gone.packs, "pack file", "pack files"),
                    counted(gone.merged, "extent", "extents"),
                    HumanBytes(gone.freed),
                );
                if gone.waiting > 0 {
                    let waiting = counted(gone.waiting, "file", "files");
                    let size = HumanBytes(gone.waiting_bytes);
                    text.push_str(&format!("; {waiting} ({size}) wait for the grace period to end"));
                }
                app.out.item(&object(account, &gone), text)
            })
            .await
    }
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
        let all = app.data_dir()?.control().accounts().await?.into_iter();
        Ok(all.filter(|account| account.state == AccountState::Active).map(|account| account.id).collect())
    }

    /// Runs `action` on each account, with a spinner on a terminal; reports failures and goes on.
    async fn each(
        &self,
        app: &mut App,
        doing: &str,
        mut action: impl AsyncFnMut(&mut App, &str, &dyn AccountStore) -> Result,
    ) -> Result {
        let data_dir = app.data_dir()?;
        let accounts = self.names(app).await?;
        let bar = progress::spinner();
        let mut failures = Failures::default();
        for account in &accounts {
            progress::show(&bar, &format!("{doing} {account}"));
            let outcome = match data_dir.account(account).await {
                Ok(tree) => action(app, account, &*tree).await,
                Err(error) => Err(error.into()),
            };
            let outcome = outcome.map_err(|failure| failure.of_account(account));
            bar.suspend(|| app.out.flush().and_then(|()| failures.add(outcome, app.global.json)))?;
        }
        bar.finish_and_clear();
        failures.done()
    }
}

/// What was found, and in which account.
fn object(account: &str, found: &impl Serialize) -> Value {
    let mut json = serde_json::to_value(found).unwrap_or_default();
    json["account"] = account.into();
    json
}
