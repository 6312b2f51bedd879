//! `garth memory relate`, `unrelate` and `relations`: the edges between memories.

use clap::{Args, ValueEnum};
use garth_agent::memory::{Around, Direction, Edge, Uri};
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::open::open_memories as open;

/// Make a relation from a memory to another, or change the one of the same type
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  garth memory relate ctx://default/users/alice/memories/entities/cafe ctx://default/users/alice/memories/events/visit --weight 0.85 --reason 'she was there'"
)]
pub(crate) struct Relate {
    /// The memory that it leads from
    from: Uri,
    /// The memory that it leads to
    to: Uri,
    /// What it says
    #[arg(long = "type", value_name = "TYPE", default_value = "related_to")]
    relation_type: String,
    /// How strong it is, 0 to 1
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    weight: f64,
    /// Why it is there
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

/// Take the relations from a memory to another away
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  garth memory unrelate ctx://default/users/alice/memories/entities/cafe ctx://default/users/alice/memories/events/visit"
)]
pub(crate) struct Unrelate {
    /// The memory that they lead from
    from: Uri,
    /// The memory that they lead to
    to: Uri,
    /// Only that of this type
    #[arg(long = "type", value_name = "TYPE")]
    relation_type: Option<String>,
}

/// Show the relations around a memory, nearest first
///
/// With --json one object per relation: hops, and the fields of the relation.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  garth memory relations ctx://default/users/alice/memories/entities/cafe --direction in --hops 2"
)]
pub(crate) struct Relations {
    /// Which memory
    uri: Uri,
    /// Follow relations that lead out of the memory, into it, or both
    #[arg(long, value_enum, default_value_t = DirectionArg::Both)]
    direction: DirectionArg,
    /// Follow this many steps, 1 to 5
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    hops: usize,
    /// Show at most this many, 1 to 1000
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DirectionArg {
    Out,
    In,
    Both,
}

impl Relate {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, true).await?;
        let edge = Edge {
            from_uri: self.from.to_string(),
            to_uri: self.to.to_string(),
            relation_type: self.relation_type,
            weight: self.weight,
            reason: self.reason,
            other: serde_json::Map::new(),
        };
        let seq = open.memories().relate(&edge).await?;
        let done = if seq.is_some() { "related" } else { "unchanged" };
        let json = json!({"relation": edge, "changed": seq.is_some(), "seq": seq.map(|seq| seq.0)});
        app.out.item(&json, format_args!("{done}  {}", line(&edge)))
    }
}

impl Unrelate {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, true).await?;
        let removed = open.memories().unrelate(&self.from, &self.to, self.relation_type.as_deref()).await?;
        let json =
            json!({"from_uri": self.from.to_string(), "to_uri": self.to.to_string(), "removed": removed});
        app.out.item(&json, format_args!("removed {removed}  {} -> {}", self.from, self.to))
    }
}

impl Relations {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let direction = match self.direction {
            DirectionArg::Out => Direction::Outgoing,
            DirectionArg::In => Direction::Incoming,
            DirectionArg::Both => Direction::Both,
        };
        let query = Around::new(direction).hops(self.hops).limit(self.limit);
        let related = open.memories().around(&self.uri, &query).await?;
        for (hops, edge) in &related.edges {
            let mut json = json!(edge);
            json["hops"] = json!(hops);
            app.out.item(&json, format_args!("{hops}  {}", line(edge)))?;
        }
        if related.more {
            app.out.warn("there are more relations; ask for more with --limit, or for fewer steps");
        }
        Ok(())
    }
}

fn line(edge: &Edge) -> String {
    let Edge { from_uri, to_uri, relation_type, weight, reason, .. } = edge;
    let reason = if reason.is_empty() { String::new() } else { format!("  ({reason})") };
    escaped(&format!("{from_uri} -{relation_type} {weight}-> {to_uri}{reason}")).to_string()
}
