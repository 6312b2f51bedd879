//! The routes of context nodes: what each one takes, asks of the account, and answers.

use std::sync::Arc;

use bytes::Bytes;
use garth::agent::node::{
    Around, Direction, Edge, LayerText, Level, List, Meta, Nodes, Prefix, Put, Status, Uri, Written,
};
use garth::agent::{AgentTree, Identity, tree::MAIN};
use garth::datadir::Scope;
use garth::model::{Author, Timestamp};
use garth::{FileSystem, TreePath};
use serde::Serialize;
use serde_json::{Value, json};

use super::Caller;
use crate::errors::Refusal;
use crate::fields::Fields;

/// Nodes of a page, if nothing else is asked for.
const DEFAULT_LISTED: usize = 100;

/// A route of context nodes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Put,
    Get,
    Exists,
    List,
    Tag,
    Relate,
    Unrelate,
    Relations,
    Move,
    Delete,
}

impl Call {
    pub(super) const ALL: [Self; 10] = [
        Self::Put,
        Self::Get,
        Self::Exists,
        Self::List,
        Self::Tag,
        Self::Relate,
        Self::Unrelate,
        Self::Relations,
        Self::Move,
        Self::Delete,
    ];

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Put => "/v1/nodes/put",
            Self::Get => "/v1/nodes/get",
            Self::Exists => "/v1/nodes/exists",
            Self::List => "/v1/nodes/list",
            Self::Tag => "/v1/nodes/tag",
            Self::Relate => "/v1/nodes/relate",
            Self::Unrelate => "/v1/nodes/unrelate",
            Self::Relations => "/v1/nodes/relations",
            Self::Move => "/v1/nodes/move",
            Self::Delete => "/v1/nodes/delete",
        }
    }

    /// The scope it takes.
    pub(super) const fn scope(self) -> Scope {
        match self {
            Self::Get | Self::Exists | Self::List | Self::Relations => Scope::MemoryRead,
            Self::Put | Self::Tag | Self::Relate | Self::Unrelate | Self::Move | Self::Delete => {
                Scope::MemoryWrite
            }
        }
    }

    const fn changes(self) -> bool {
        matches!(self.scope(), Scope::MemoryWrite)
    }

    /// Whether its answers may be long.
    pub(super) const fn is_long(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Relations)
    }
}

/// Answers a call.
pub(super) async fn answer(caller: &Caller<'_>, call: Call, body: &Bytes) -> Result<Bytes, Refusal> {
    let fields = Fields::parse(body)?;
    let who = identity(&fields)?;
    let agent = fields.text("agent")?;
    let agent = agent.as_deref().map(Author::agent).unwrap_or_default();
    let reach = Reach::of(caller, who, agent, call.changes()).await?;
    let answer = answer_of(&reach.nodes(caller), call, &fields).await?;
    Ok(serde_json::to_vec(&answer).map_err(|_| Refusal::validation("the answer is no JSON"))?.into())
}

/// Puts a node that a session's call made, at its `uri`, in the tree that the call is made in.
pub(super) async fn put_by(caller: &Caller<'_>, fields: &Fields<'_>, put: &Put) -> Result<Value, Refusal> {
    let (agent, user) = (fields.required_text("agent")?, fields.required_text("user")?);
    let who = match fields.text("chat")? {
        Some(_) => identity(fields)?,
        None => None,
    };
    let author = Author::agent(&*agent).with_user(&*user);
    let reach = Reach::of(caller, who, author, true).await?;
    let uri: Uri = fields.required_text("uri")?.parse()?;
    Ok(written(&reach.nodes(caller).put(&uri, put).await?))
}

/// The nodes that a call reaches: the account's, or those of an agent that serves a user in a chat.
struct Reach {
    fs: Option<Arc<dyn FileSystem>>,
    tops: Vec<TreePath>,
    author: Author,
}

impl Reach {
    async fn of(
        caller: &Caller<'_>,
        who: Option<Identity>,
        mut author: Author,
        changes: bool,
    ) -> Result<Self, Refusal> {
        author.key = Some(caller.key.id.clone());
        let Some(who) = who else { return Ok(Self { fs: None, tops: Vec::new(), author }) };
        let reach = AgentTree::new(&**caller.account, who).create(changes).nodes().await?;
        // the view knows who it is of
        let mut by_key = Author::default();
        by_key.key = author.key;
        Ok(Self { fs: Some(reach.fs), tops: reach.tops, author: by_key })
    }

    fn nodes<'a>(&'a self, caller: &'a Caller<'_>) -> Nodes<'a> {
        let (account, env) = (&caller.key.account, caller.env.clone());
        let nodes = match &self.fs {
            Some(fs) => Nodes::new(&**fs, account, env).tops(self.tops.clone()),
            None => Nodes::new(&**caller.account, account, env),
        };
        nodes.author(self.author.clone())
    }
}

/// Whose tree is asked for: an agent's that serves a user in a chat, or the account's.
pub(super) fn identity(fields: &Fields<'_>) -> Result<Option<Identity>, Refusal> {
    let [agent, user, chat, class, session] =
        ["agent", "user", "chat", "class", "session"].map(|name| fields.text(name));
    let (agent, user, chat, class, session) = (agent?, user?, chat?, class?, session?);
    let (user, chat) = match (user, chat) {
        (Some(user), Some(chat)) => (user, chat),
        (None, None) if class.is_none() && session.is_none() => return Ok(None),
        _ => {
            let message = "\"user\" and \"chat\" open the tree of an agent in a chat: send both, or neither \
                 and no \"class\" and \"session\"";
            return Err(Refusal::validation(message));
        }
    };
    let agent = Fields::required("agent", agent)?;
    let who = Identity::new(&user, &agent, &chat, class.as_deref().unwrap_or(MAIN))?;
    Ok(Some(match session {
        Some(session) => who.with_session(&session)?,
        None => who,
    }))
}

async fn answer_of(nodes: &Nodes<'_>, call: Call, fields: &Fields<'_>) -> Result<Value, Refusal> {
    let uri = |name: &str| -> Result<Uri, Refusal> { Ok(fields.required_text(name)?.parse::<Uri>()?) };
    Ok(match call {
        Call::Put => written(&nodes.put(&uri("uri")?, &put(fields)?).await?),
        Call::Get => {
            let level = level(fields)?;
            let node = nodes.get(&uri("uri")?, level).await?;
            json!({
                "uri": node.meta.uri, "layer": level.number(), "text": node.text,
                "version_id": node.version.to_string(), "meta": node.meta,
            })
        }
        Call::Exists => json!({"exists": nodes.exists(&uri("uri")?).await?}),
        Call::List => list(nodes, fields).await?,
        Call::Tag => {
            let [add, remove] = ["add", "remove"].map(|name| fields.texts(name));
            let (add, remove) = (add?.unwrap_or_default(), remove?.unwrap_or_default());
            let meta = nodes.tag(&uri("uri")?, &add, &remove).await?;
            json!({"ok": true, "meta": meta})
        }
        Call::Relate => {
            let edge = edge(fields)?;
            json!({"ok": true, "changed": nodes.relate(&edge).await?.is_some()})
        }
        Call::Unrelate => {
            let of_type = fields.text("relation_type")?;
            let removed = nodes.unrelate(&uri("from_uri")?, &uri("to_uri")?, of_type.as_deref()).await?;
            json!({"ok": true, "removed": removed})
        }
        Call::Relations => {
            let around = nodes.around(&uri("uri")?, &around(fields)?).await?;
            let edges: Vec<_> = around.edges.iter().map(|(hops, edge)| Hop { hops: *hops, edge }).collect();
            json!({"edges": edges, "has_more": around.more})
        }
        Call::Move => {
            let seq = nodes.move_to(&uri("uri")?, &uri("new_uri")?).await?;
            json!({"ok": true, "seq": seq.0})
        }
        Call::Delete => json!({"ok": true, "deleted": true, "seq": nodes.delete(&uri("uri")?).await?.0}),
    })
}

#[derive(Serialize)]
struct Hop<'a> {
    hops: usize,
    #[serde(flatten)]
    edge: &'a Edge,
}

fn written(written: &Written) -> Value {
    let mut json = written.to_json();
    json.insert("ok".to_owned(), true.into());
    json.into()
}

fn put(fields: &Fields<'_>) -> Result<Put, Refusal> {
    let mut put = Put::new(fields.required_text("content")?);
    put.brief = layer(fields, "abstract")?;
    put.overview = layer(fields, "overview")?;
    put.tags = fields.texts("tags")?;
    put.edges = match fields.raw("relations")?.filter(|value| value.get() != "null") {
        Some(value) => Some(serde_json::from_str(value.get()).map_err(|error| {
            Refusal::validation(format!("\"relations\" must be a list of relations: {error}"))
        })?),
        None => None,
    };
    put.replaces = fields.text("replaces")?.map(|uri| uri.parse()).transpose()?;
    put.valid_from = time(fields, "valid_from")?;
    put.valid_to = time(fields, "valid_to")?;
    put.if_version = fields.integer("if_version", 0, i64::MAX.unsigned_abs())?;
    Ok(put)
}

/// A layer as it is given; the empty text asks for one that is made of the content.
fn layer(fields: &Fields<'_>, name: &str) -> Result<LayerText, Refusal> {
    Ok(match fields.text(name)? {
        None => LayerText::Keep,
        Some(text) if text.is_empty() => LayerText::Derive,
        Some(text) => LayerText::Given(text.into_owned()),
    })
}

fn time(fields: &Fields<'_>, name: &str) -> Result<Option<Timestamp>, Refusal> {
    let must = || Refusal::validation(format!("\"{name}\" must be a time such as 2026-01-31T12:00:00Z"));
    fields.text(name)?.map(|text| Timestamp::parse_rfc3339(&text).map_err(|_| must())).transpose()
}

fn level(fields: &Fields<'_>) -> Result<Level, Refusal> {
    let level = fields.integer("layer", 0, 2)?.and_then(|level| u8::try_from(level).ok());
    Ok(Level::of(level.unwrap_or(2))?)
}

async fn list(nodes: &Nodes<'_>, fields: &Fields<'_>) -> Result<Value, Refusal> {
    let prefix = match fields.text("prefix")? {
        Some(prefix) => nodes.prefix(&prefix)?,
        None => Prefix::Account,
    };
    let mut list = List::new(prefix);
    list.category = fields.text("category")?.map(std::borrow::Cow::into_owned);
    list.status = match fields.text("status")?.as_deref() {
        None | Some("ACTIVE") => Status::Active,
        Some("PENDING") => Status::Pending,
        Some("BROKEN") => Status::Broken,
        Some(_) => return Err(Refusal::validation("\"status\" must be ACTIVE, PENDING or BROKEN")),
    };
    list.tags = fields.texts("tags")?.unwrap_or_default();
    list.after = fields.text("cursor")?.map(std::borrow::Cow::into_owned);
    let limit = fields.integer("limit", 1, garth::agent::node::MAX_LISTED as u64)?;
    list.limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_LISTED);
    let page = nodes.list(&list).await?;
    let items: Vec<Value> = page.items.iter().map(item).collect();
    Ok(match page.next {
        Some(next) => json!({"items": items, "has_more": true, "next_cursor": next}),
        None => json!({"items": items}),
    })
}

fn item((uri, meta): &(Uri, Meta)) -> Value {
    json!({"uri": uri.to_string(), "meta": meta})
}

fn edge(fields: &Fields<'_>) -> Result<Edge, Refusal> {
    let text = |name: &str| fields.required_text(name).map(std::borrow::Cow::into_owned);
    Ok(Edge {
        from_uri: text("from_uri")?,
        to_uri: text("to_uri")?,
        relation_type: text("relation_type")?,
        weight: fields.number("weight")?.unwrap_or(1.0),
        reason: fields.text("reason")?.unwrap_or_default().into_owned(),
        other: serde_json::Map::new(),
    })
}

fn around(fields: &Fields<'_>) -> Result<Around, Refusal> {
    let direction = match fields.text("direction")?.as_deref() {
        None | Some("both") => Direction::Both,
        Some("outgoing") => Direction::Outgoing,
        Some("incoming") => Direction::Incoming,
        Some(_) => return Err(Refusal::validation("\"direction\" must be outgoing, incoming or both")),
    };
    let number = |name: &str, most: u64, default: usize| {
        let number = fields.integer(name, 1, most)?;
        Ok::<_, Refusal>(number.and_then(|number| usize::try_from(number).ok()).unwrap_or(default))
    };
    let query = Around::new(direction);
    let (hops, limit) = (number("hops", 5, query.hops)?, number("limit", 1000, query.limit)?);
    Ok(query.hops(hops).limit(limit))
}
