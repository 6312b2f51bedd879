//! `garth quota`: limits on the bytes and entries below a path.

use clap::{Args, Subcommand};
use garth_engine::model::quota::{Limits, Quota as Kept};
use garth_engine::{FileSystemExt as _, TreePath};
use serde_json::{Value, json};

use crate::app::App;
use crate::args::{LongHelp, TREE_PATH};
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::size::{parse_count, parse_size, size_text};

/// Set, list and remove quotas: limits on the bytes and entries below a path
///
/// Bytes are the sizes of files, each once; entries are names of all kinds, without the path itself. du
/// counts in the same way. A commit that would exceed a quota is refused and changes nothing.
///
/// With --json, prints one object per quota: path, max_bytes, max_entries (null if not limited), bytes and
/// entries (in use).
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  garth quota set /projects --max-bytes 10G --max-entries 100000",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Quota {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Set the quota of a path; replaces its current one
    ///
    /// A quota below the current use is allowed: existing files stay, and may shrink but not grow.
    #[command(after_help = "Example:\n  garth quota set /projects --max-bytes 10G --max-entries 100000")]
    Set {
        /// Path; / is the complete account. It need not exist, and `*` is an ordinary character
        #[arg(value_hint = TREE_PATH)]
        path: String,
        /// Maximum number of bytes below the path, such as 500M or 10G
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        max_bytes: Option<u64>,
        /// Maximum number of entries below the path
        #[arg(long, value_name = "COUNT", value_parser = parse_count::<u64>)]
        max_entries: Option<u64>,
    },
    /// List quotas and their use (the default)
    #[command(alias = "ls", disable_help_flag = true, after_help = "Example:\n  garth quota list -h")]
    List {
        /// Show sizes in powers of 1024: 1.5K, 23M, 4.0G
        #[arg(short = 'h', long)]
        human_readable: bool,
        #[command(flatten)]
        help: LongHelp,
    },
    /// Remove the quota of a path
    #[command(alias = "delete", after_help = "Example:\n  garth quota rm /projects")]
    Rm {
        /// Path of the quota
        #[arg(value_hint = TREE_PATH)]
        path: String,
    },
}

impl Quota {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("quota")?;
        match self.action.unwrap_or(Action::List { human_readable: false, help: LongHelp::default() }) {
            Action::Set { path, max_bytes, max_entries } => {
                if max_bytes.is_none() && max_entries.is_none() {
                    let message = "quota set requires --max-bytes SIZE, --max-entries COUNT, or both";
                    return Err(Failure::Usage(message.to_owned()));
                }
                let path = parse(&path)?;
                let limits = Limits { bytes: max_bytes, entries: max_entries };
                // Checked first: invalid limits must not leave a new data folder behind.
                limits.check()?;
                let account = app.account_of(&*app.home_of_account().await?).await?;
                let quota = account.set_quota(&path, limits).await?;
                if is_pattern(&path) && account.lookup(&path).await?.is_none() {
                    app.out.warn(format_args!(
                        "{}: the quota is for this one path, which does not exist; a quota takes no patterns: set one \
                         for each path",
                        escaped(path.as_str())
                    ));
                }
                app.out.item(&quota_json(&quota), line(&quota, false))
            }
            Action::List { human_readable, .. } => {
                let account = app.account_of(&*app.home().await?).await?;
                for quota in account.quotas().await? {
                    app.out.item(&quota_json(&quota), line(&quota, human_readable))?;
                }
                Ok(())
            }
            Action::Rm { path } => {
                let path = parse(&path)?;
                let account = app.account_of(&*app.home().await?).await?;
                account.remove_quota(&path).await?;
                let json = json!({"path": path.as_str(), "removed": true});
                app.out.item(&json, format_args!("removed  {}", escaped(path.as_str())))
            }
        }
    }
}

/// Returns the quotas of the account; an empty list in the tree of an agent or an overlay.
pub(super) async fn all(app: &App) -> Result<Vec<Kept>> {
    if app.no_tree("quota").is_err() {
        return Ok(Vec::new());
    }
    let account = app.account_of(&*app.home().await?).await?;
    Ok(account.quotas().await?)
}

/// Returns true if a path has characters that are wildcards elsewhere.
fn is_pattern(path: &TreePath) -> bool {
    path.as_str().contains(['*', '?', '[', '{'])
}

/// Parses the path of a quota. Links are not followed.
fn parse(path: &str) -> Result<TreePath> {
    TreePath::parse(path).map_err(|error| Failure::Usage(format!("{path}: {error}")))
}

pub(super) fn quota_json(quota: &Kept) -> Value {
    let Kept { path, limits, used } = quota;
    json!({
        "path": path.as_str(), "max_bytes": limits.bytes, "max_entries": limits.entries,
        "bytes": used.bytes, "entries": used.entries,
    })
}

/// Returns the use of a quota with its limits: `90 of 100 bytes, 3 entries`.
pub(super) fn usage_text(quota: &Kept, human: bool) -> String {
    let part = |used: String, limit: Option<String>, what: &str| match limit {
        Some(limit) => format!("{used} of {limit} {what}"),
        None => format!("{used} {what}"),
    };
    let size = |bytes| size_text(bytes, human);
    let bytes = part(size(quota.used.bytes), quota.limits.bytes.map(size), "bytes");
    let entries =
        part(quota.used.entries.to_string(), quota.limits.entries.map(|most| most.to_string()), "entries");
    format!("{bytes}, {entries}")
}

fn line(quota: &Kept, human: bool) -> String {
    format!("{:<50}  {}", usage_text(quota, human), escaped(quota.path.as_str()))
}
