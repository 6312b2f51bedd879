//! `garth context gc`: removal of derived files that are no longer needed.

use clap::Args;
use garth_agent::session::Collect;
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::open::open;

/// Remove packs that can be rebuilt, and unreferenced chunks and blobs, from the context of a session
///
/// Follows context/gc.policy: pack_ttl, swap_ttl, dedup_min_refs, keep_messages, keep_events, history and
/// history_ttl. Messages and events stay unless the policy says otherwise, and then only with
/// --override-rules.
///
/// With --json, prints one object per file: name, bytes, reason, dry_run.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  garth context gc work --dry-run\n  garth context gc work")]
pub(crate) struct Gc {
    /// Name of the session
    name: String,
    /// Report what would be removed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Gc {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, !self.dry_run).await?;
        let sessions = open.sessions()?;
        let mut how = Collect::default();
        how.dry = self.dry_run;
        loop {
            let done = sessions.collect(&self.name, &how).await?;
            for one in &done.removed {
                let json = json!({
                    "name": one.name, "bytes": one.bytes, "reason": one.reason, "dry_run": self.dry_run,
                });
                let said = if self.dry_run { "would remove" } else { "removed" };
                let shown = format!("{said}  {}  {} bytes: {}", one.name, one.bytes, one.reason);
                app.out.item(&json, escaped(&shown))?;
            }
            if self.dry_run || !done.more || done.removed.is_empty() {
                return Ok(());
            }
        }
    }
}
