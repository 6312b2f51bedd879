//! `garth memory link`, `unlink` and `links`: typed links between memories.

use clap::{Args, ValueEnum};
use garth_agent::memory::{Around, Direction, Edge};
use garth_engine::{Error, ErrorKind};
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::memory::MemoryArg;
use crate::verb::open::open_memories as open;

/// Link a memory to another, or change the link of the same type
///
/// With --json, prints one object: relation, changed, seq.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
        garth memory link --user alice entities/cafe events/visit --weight 0.85 --reason 'she was there'")]
pub(crate) struct Link {
    /// Memory that the link starts from
    #[arg(value_name = "FROM")]
    from: MemoryArg,
    /// Memory that the link leads to
    #[arg(value_name = "TO")]
    to: MemoryArg,
    /// Type of the link
    #[arg(long = "type", value_name = "TYPE", default_value = "related_to")]
    relation_type: String,
    /// Strength, 0 to 1
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    weight: f64,
    /// Reason for the link
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

/// Remove the links from a memory to another
///
/// With --json, prints one object: from_uri, to_uri, removed (the number of links).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth memory unlink --user alice entities/cafe events/visit")]
pub(crate) struct Unlink {
    /// Memory that the links start from
    #[arg(value_name = "FROM")]
    from: MemoryArg,
    /// Memory that the links lead to
    #[arg(value_name = "TO")]
    to: MemoryArg,
    /// Remove only the link of this type
    #[arg(long = "type", value_name = "TYPE")]
    relation_type: Option<String>,
}

/// List the links around a memory, nearest first
///
/// With --json, prints one object per link: hops, and the fields of the link.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth memory links --user alice entities/cafe --direction in --hops 2")]
pub(crate) struct Links {
    /// Memory
    #[arg(value_name = "URI|CATEGORY/SLUG")]
    memory: MemoryArg,
    /// Follow links out of the memory, into it, or both
    #[arg(long, value_enum, default_value_t = DirectionArg::Both)]
    direction: DirectionArg,
    /// Follow links for this number of steps, 1 to 5
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    hops: usize,
    /// Maximum number of links, 1 to 1000
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DirectionArg {
    Out,
    In,
    Both,
}

impl Link {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let (from, to) = (self.from.uri(app).await?, self.to.uri(app).await?);
        let open = open(app, true).await?;
        let edge = Edge {
            from_uri: from.to_string(),
            to_uri: to.to_string(),
            relation_type: self.relation_type,
            weight: self.weight,
            reason: self.reason,
            other: serde_json::Map::new(),
        };
        let seq = open.memories().relate(&edge).await?;
        let done = if seq.is_some() { "linked" } else { "unchanged" };
        let json = json!({"relation": edge, "changed": seq.is_some(), "seq": seq.map(|seq| seq.0)});
        app.out.item(&json, format_args!("{done}  {}", line(&edge)))
    }
}

impl Unlink {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let (from, to) = (self.from.uri(app).await?, self.to.uri(app).await?);
        let open = open(app, true).await?;
        let removed = open.memories().unrelate(&from, &to, self.relation_type.as_deref()).await?;
        if removed == 0 {
            let message = format!("{from}: no such link to {to}");
            return Err(Error::new(ErrorKind::NotFound, message).into());
        }
        let json = json!({"from_uri": from.to_string(), "to_uri": to.to_string(), "removed": removed});
        app.out.item(&json, escaped(&format!("removed {removed}  {from} -> {to}")))
    }
}

impl Links {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let uri = self.memory.uri(app).await?;
        let open = open(app, false).await?;
        let direction = match self.direction {
            DirectionArg::Out => Direction::Outgoing,
            DirectionArg::In => Direction::Incoming,
            DirectionArg::Both => Direction::Both,
        };
        let query = Around::new(direction).hops(self.hops).limit(self.limit);
        let related = open.memories().around(&uri, &query).await?;
        for (hops, edge) in &related.edges {
            let mut json = json!(edge);
            json["hops"] = json!(hops);
            app.out.item(&json, format_args!("{hops}  {}", line(edge)))?;
        }
        if related.more {
            app.out.warn("there are more links; raise --limit, or lower --hops");
        }
        Ok(())
    }
}

fn line(edge: &Edge) -> String {
    let Edge { from_uri, to_uri, relation_type, weight, reason, .. } = edge;
    let reason = if reason.is_empty() { String::new() } else { format!("  ({reason})") };
    escaped(&format!("{from_uri} -{relation_type} {weight}-> {to_uri}{reason}")).to_string()
}
