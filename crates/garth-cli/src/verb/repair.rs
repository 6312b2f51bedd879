//! `garth repair`: repairs the directories of memories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use garth_agent::memory::{FindingReport, Memories, Repair as Repairs, Report, Uri};
use garth_agent::session::{Damaged, mend_all};
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::model::{At, Author, Kind, Page};
use garth_engine::view::Scope;
use garth_engine::{FileSystem, TreePath};
use indicatif::ProgressBar;

use crate::app::App;
use crate::data_folder::DEFAULT_ACCOUNT;
use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result};
use crate::out::counted;
use crate::progress;
use crate::verb::maintain::Accounts;

/// Directory of the accounts in a plain folder.
const ACCOUNTS: &str = "accounts";

/// Repair memories that are incomplete or were changed by other programs
///
/// Works on the account of --account, with --all on every account of the data folder, or on those of a folder
/// of this machine that contains accounts/ACCOUNT/... Memories that are being written are left alone until
/// they are unchanged for a minute. A session whose meta.json cannot be read gets the newest readable version
/// of it, else one of the class `group`. With --json, prints one object per account: account, ok, memories,
/// found (number per kind), waiting, broken, broken_memories, unknown, unknown_memories, failed, failures,
/// sessions (path, why, mended). A memory with an unknown status is reported and left alone. The exit code is
/// 1 if a memory is broken or could not be repaired.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  garth repair --dry-run\n  garth repair --all")]
pub(crate) struct Repair {
    #[command(flatten)]
    accounts: Accounts,
    /// Report what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Repair only this memory, even if it is BROKEN
    #[arg(long, value_name = "URI")]
    retry: Option<String>,
    /// Repair memories at once that were changed in the last minute
    #[arg(long)]
    now: bool,
    /// Folder of this machine that contains accounts/
    #[arg(value_hint = clap::ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

impl Repair {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("repair")?;
        let retry: Option<Uri> = self.retry.as_deref().map(str::parse).transpose()?;
        let accounts = self.accounts(app, retry.as_ref()).await?;
        let bar = progress::spinner();
        let (mut failures, mut whole) = (Failures::default(), true);
        for account in &accounts {
            progress::show(&bar, &format!("repairing {account}"));
            let outcome = match self.tree(app, account).await {
                Ok(tree) => self.repair(app, account, &*tree, retry.as_ref(), &bar).await,
                Err(failure) => Err(failure),
            };
            let outcome = outcome.map(|is_whole| whole &= is_whole);
            let outcome = outcome.map_err(|failure| failure.of_account(account));
            bar.suspend(|| app.out.flush().and_then(|()| failures.add(outcome, app.global.json)))?;
        }
        bar.finish_and_clear();
        failures.done()?;
        if whole { Ok(()) } else { Err(Failure::Reported(1)) }
    }

    /// Returns the names of the accounts to work on.
    async fn accounts(&self, app: &App, retry: Option<&Uri>) -> Result<Vec<String>> {
        if let Some(uri) = retry {
            let (named, of) = (&app.global.account, uri.account());
            // The default of --account is no contradiction: it is the same as no option.
            if named != DEFAULT_ACCOUNT && named != of {
                let message = format!("--retry: {uri} belongs to account {of}, but --account names {named}");
                return Err(Failure::Usage(message));
            }
            return Ok(vec![of.to_owned()]);
        }
        let Some(folder) = &self.folder else { return self.accounts.names(app).await };
        let fs = self.open(app, folder)?;
        let top = At::from(TreePath::parse(&format!("/{ACCOUNTS}"))?);
        let (mut names, mut page) = (Vec::new(), Page::default());
        loop {
            let listing = fs.list(&top, &page).await.map_err(|error| match error.is_absent() {
                true => Failure::Usage(format!(
                    "{}: contains no folder {ACCOUNTS}; name the folder that does",
                    folder.display()
                )),
                false => error.into(),
            })?;
            let dirs = listing.items.iter().filter(|item| item.kind == Kind::Directory);
            names.extend(dirs.map(|item| item.name.as_str().to_owned()));
            match listing.items.into_iter().next_back().filter(|_| listing.more) {
                Some(last) => page = page.after(last.name),
                None => break,
            }
        }
        let chosen = &app.global.account;
        match (self.accounts.all, names.contains(chosen)) {
            (true, _) => Ok(names),
            (false, true) => Ok(vec![chosen.clone()]),
            (false, false) => Err(Failure::Usage(format!(
                "{}: contains no {ACCOUNTS}/{chosen}; name one with --account, or repair --all: {}",
                folder.display(),
                names.join(", ")
            ))),
        }
    }

    fn open(&self, app: &App, folder: &Path) -> Result<Arc<HostFs>> {
        let mode = if self.dry_run { Mode::ReadOnly } else { Mode::Writable };
        HostFs::open(folder, mode, app.env.clone()).map_err(Failure::data_dir(folder))
    }

    /// Returns the tree of an account.
    async fn tree(&self, app: &App, account: &str) -> Result<Arc<dyn FileSystem>> {
        match &self.folder {
            Some(folder) => {
                let root = TreePath::parse(&format!("/{ACCOUNTS}/{account}"))?;
                Ok(Scope::open(&*self.open(app, folder)?, &root).await?)
            }
            None => Ok(app.home().await?.open(account).await?),
        }
    }

    /// Repairs an account. Returns true if no memory is broken.
    async fn repair(
        &self,
        app: &mut App,
        account: &str,
        tree: &dyn FileSystem,
        retry: Option<&Uri>,
        bar: &ProgressBar,
    ) -> Result<bool> {
        let memories = Memories::new(tree, account).env(app.env.clone()).author(app.author());
        let repairs = Repairs::new(memories).dry_run(self.dry_run).at_once(self.now);
        // `tell` returns nothing, so the first error of the output is kept for later.
        let (mut said, out) = (Ok(()), &mut app.out);
        let tell = |told: &FindingReport<'_>| {
            if said.is_ok() {
                let what = told.finding.as_str();
                let rest =
                    if told.until.is_some() { " (waits until it is no longer being written)" } else { "" };
                said = bar.suspend(|| out.note(format_args!("  {what}: {}{rest}", escaped(told.memory))));
            }
        };
        let report = match retry {
            Some(uri) => repairs.retry(uri, tell).await?,
            None => repairs.scan(tell).await?,
        };
        said?;
        let mut sessions = Vec::new();
        // --retry concerns one memory only.
        if retry.is_none() {
            let author = Author::default();
            let tell = |damaged: &Damaged| {
                let said = if self.dry_run { "damaged" } else { "restored" };
                // If the output is closed, the item below fails.
                let _ = bar.suspend(|| app.out.note(format_args!("  {said}: {}", escaped(&damaged.path))));
            };
            sessions = mend_all(tree, &app.env, &author, self.dry_run, tell).await?;
        }
        let mut json = serde_json::to_value(&report).unwrap_or_default();
        json["account"] = account.into();
        json["ok"] = report.is_whole().into();
        json["sessions"] = serde_json::to_value(&sessions).unwrap_or_default();
        let mut text = self.text(account, &report);
        if !sessions.is_empty() {
            let count = counted(sessions.len() as u64, "session", "sessions");
            text.push_str(&format!("; {count} {}", if self.dry_run { "to restore" } else { "restored" }));
        }
        app.out.item(&json, text)?;
        Ok(report.is_whole())
    }

    fn text(&self, account: &str, report: &Report) -> String {
        let mut text = format!("{}: {}: ", escaped(account), counted(report.memories, "memory", "memories"));
        let repaired = report.repaired();
        match (repaired, self.dry_run) {
            (0, _) => text.push_str("nothing to repair"),
            (_, true) => text.push_str(&format!("{repaired} to repair")),
            (_, false) => text.push_str(&format!("{repaired} repaired")),
        }
        if report.waiting > 0 {
            text.push_str(&format!("; {} being written", counted(report.waiting, "is", "are")));
        }
        if report.broken > 0 {
            text.push_str(&format!("; {} broken", report.broken));
        }
        if report.unknown > 0 {
            text.push_str(&format!("; {} of unknown status, left alone", report.unknown));
        }
        for memory in &report.unknown_memories {
            text.push_str(&format!("\n  unknown status: {}", escaped(memory)));
        }
        for memory in &report.broken_memories {
            text.push_str(&format!("\n  broken: {}", escaped(memory)));
        }
        for failure in &report.failures {
            text.push_str(&format!("\n  failed: {}", escaped(failure)));
        }
        text
    }
}
