//! `garth context dedup`: references to repeated content.

use std::collections::HashSet;

use clap::Args;
use garth_agent::session::Source;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::open::open;

/// Record repeated content once, by its hash
///
/// A pack shows the content once, and a reference in each other place. With --json, prints one object per
/// hash: hash, bytes, refs.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth context dedup work tool:call_1 tool:call_2")]
pub(crate) struct Dedup {
    /// Name of the session
    name: String,
    /// Sources with the same content
    #[arg(required = true)]
    sources: Vec<Source>,
}

impl Dedup {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, true).await?;
        let mut entries = open.sessions()?.dedup(&self.name, &self.sources).await?;
        let mut shown = HashSet::new();
        // One entry is shown for several sources with the same content.
        entries.retain(|entry| shown.insert(entry.hash.clone()));
        for entry in entries {
            let shown = format!("{}  {} bytes  {}", entry.hash, entry.bytes, entry.refs.join(" "));
            app.out.item(&entry, escaped(&shown))?;
        }
        Ok(())
    }
}
