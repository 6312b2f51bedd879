//! A fact or decision of a session becomes a memory.

use clap::Args;
use garth_agent::memory::Uri;
use serde_json::Value;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::open::{open, open_memories};

/// Publish a fact or decision as a memory that names the messages it was made of
///
/// The memory's text is what the entry says; its meta has provenance: user, agent, session, entry, sources. A
/// memory that is there is changed.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
        garth session publish work f1 ctx://default/agents/default/memories/cases/parser")]
pub(crate) struct Publish {
    /// Which session
    name: String,
    /// The id of the fact or decision
    id: String,
    /// The memory
    uri: Uri,
}

impl Publish {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let put = open(app, false).await?.sessions()?.to_publish(&self.name, &self.id).await?;
        let written = open_memories(app, true).await?.memories().put(&self.uri, &put).await?;
        let done = match (written.created, written.seq) {
            (true, _) => "published",
            (false, Some(_)) => "changed",
            (false, None) => "as it was",
        };
        let sources = put.provenance.map(|from| from.sources.join(" ")).unwrap_or_default();
        let shown = format!("{done}  {}  from {sources}", self.uri);
        app.out.item(&Value::Object(written.to_json()), escaped(&shown))
    }
}
