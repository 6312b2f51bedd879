//! `garth context publish`: a fact or decision as a memory.

use clap::Args;
use serde_json::Value;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::memory::MemoryArg;
use crate::verb::open::{open, open_memories};

/// Publish a fact or decision of a session as a memory
///
/// The memory has the text of the entry, and names its origin in provenance: user, agent, session, entry,
/// sources. An existing memory is replaced. With --json, prints one object, as `garth memory put`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth context publish work f1 ctx://default/agents/default/memories/cases/parser\n  \
        garth context publish work f1 cases/parser --agent scout")]
pub(crate) struct Publish {
    /// Name of the session
    name: String,
    /// Id of the fact or decision
    id: String,
    /// Memory: a URI, or CATEGORY/SLUG
    #[arg(value_name = "URI|CATEGORY/SLUG")]
    memory: MemoryArg,
}

impl Publish {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let put = open(app, false).await?.sessions()?.to_publish(&self.name, &self.id).await?;
        let uri = self.memory.uri(app).await?;
        let written = open_memories(app, true).await?.memories().put(&uri, &put).await?;
        let done = match (written.created, written.seq) {
            (true, _) => "published",
            (false, Some(_)) => "changed",
            (false, None) => "unchanged",
        };
        let sources = put.provenance.map(|from| from.sources.join(" ")).unwrap_or_default();
        let shown = format!("{done}  {}  from {sources}", uri);
        app.out.item(&Value::Object(written.to_json()), escaped(&shown))
    }
}
