//! Calls on context nodes: what each one takes, asks of the account, and answers.

use std::sync::Arc;

use bytes::Bytes;
use garth::agent::node::{
    Around, Direction, Edge, LayerText, Level, List, Meta, Nodes, Prefix, Put, Status, Uri, Written,
};
use garth::agent::{AgentTree, Identity, tree::MAIN};
use garth::model::{Author, Timestamp};
use garth::{FileSystem, TreePath};
use serde::Serialize;
use serde_json::{Value, json};

use super::call::{Answering, Call};
use crate::errors::Refusal;
use crate::fields::Fields;

/// Nodes of a page unless the call names a limit.
const DEFAULT_LISTED: usize = 100;

/// Handler of a call on context nodes.
pub(super) type Handler = for<'a> fn(&'a Nodes<'a>, &'a Call<'a>) -> Answering<'a>;

/// Answers a call.
pub(super) async fn answer(call: &Call<'_>, handler: Handler) -> Result<Bytes, Refusal> {
    let who = identity(&call.fields)?;
    let agent = call.fields.text("agent")?;
    let agent = agent.as_deref().map(Author::agent).unwrap_or_default();
    let reach = Reach::of(call, who, agent).await?;
    handler(&reach.nodes(call), call).await
}

/// Puts the node that a call on a session made at the `uri` of the call, in the tree of the call.
pub(super) async fn put_by(call: &Call<'_>, put: &Put) -> Result<Value, Refusal> {
    let fields = &call.fields;
    let (agent, user) = (fields.required_text("agent")?, fields.required_text("user")?);
    let who = match fields.text("chat")? {
        Some(_) => identity(fields)?,
        None => None,
    };
    let author = Author::agent(&*agent).with_user(&*user);
    let reach = Reach::of(call, who, author).await?;
    let uri: Uri = fields.required_text("uri")?.parse()?;
    Ok(written(&reach.nodes(call).put(&uri, put).await?))
}

/// Nodes that a call reaches: the account's, or those of an agent that serves a user in a chat.
struct Reach {
    fs: Option<Arc<dyn FileSystem>>,
    tops: Vec<TreePath>,
    author: Author,
}

impl Reach {
    async fn of(call: &Call<'_>, who: Option<Identity>, mut author: Author) -> Result<Self, Refusal> {
        author.key = Some(call.key.id.clone());
        let Some(who) = who else { return Ok(Self { fs: None, tops: Vec::new(), author }) };
        let reach = AgentTree::new(&**call.account, who).create(call.writes).nodes().await?;
        // The view adds whom it is of.
        let mut by_key = Author::default();
        by_key.key = author.key;
        Ok(Self { fs: Some(reach.fs), tops: reach.tops, author: by_key })
    }

    fn nodes<'a>(&'a self, call: &'a Call<'_>) -> Nodes<'a> {
        let (account, env) = (&call.key.account, call.env.clone());
        let nodes = match &self.fs {
            Some(fs) => Nodes::new(&**fs, account, env).tops(self.tops.clone()),
            None => Nodes::new(&**call.account, account, env),
        };
        nodes.author(self.author.clone())
    }
}

/// Returns the agent, user and chat whose tree a body names; `None` for the tree of the account.
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

/// Reads the URI in a field.
fn uri(call: &Call<'_>, name: &str) -> Result<Uri, Refusal> {
    Ok(call.fields.required_text(name)?.parse::<Uri>()?)
}

pub(super) async fn put(nodes: &Nodes<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    Ok(written(&nodes.put(&uri(call, "uri")?, &new_node(&call.fields)?).await?))
}

pub(super) async fn get(nodes: &Nodes<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let level = level(&call.fields)?;
    let node = nodes.get(&uri(call, "uri")?, level).await?;
    Ok(json!({
        "uri": node.meta.uri, "layer": level.number(), "text": node.text,
        "version_id": node.version.to_string(), "meta": node.meta,
    }))
}

pub(super) async fn exists(nodes: &Nodes<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    Ok(json!({"exists": nodes.exists(&uri(call, "uri")?).await?}))
}

pub(super) async fn tag(nodes: &Nodes<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let [add, remove] = ["add", "remove"].map(|name| call.fields.texts(name));
    let (add, remove) = (add?.unwrap_or_default(), remove?.unwrap_or_default());
    let meta = nodes.tag(&uri(call, "uri")?, &add, &remove).await?;
    Ok(json!({"ok": true, "meta": meta}))
}

pub(super) async fn relate(nodes: &Nodes<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let edge = edge(&call.fields)?;
    Ok(json!({"ok": true, "changed": nodes.relate(&edge).await?.is_some()}))
}

pub(super) async fn unrelate(nodes: &Nodes<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let of_type = call.fields.text("relation_type")?;
    let (from, to) = (uri(call, "from_uri")?, uri(call, "to_uri")?);
    Ok(json!({"ok": true, "removed": nodes.unrelate(&from, &to, of_type.as_deref()).await?}))
}

pub(super) async fn relations(nodes: &Nodes<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let around = nodes.around(&uri(call, "uri")?, &around(&call.fields)?).await?;
    let edges: Vec<_> = around.edges.iter().map(|(hops, edge)| Hop { hops: *hops, edge }).collect();
    Ok(json!({"edges": edges, "has_more": around.more}))
}

pub(super) async fn move_to(nodes: &Nodes<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let seq = nodes.move_to(&uri(call, "uri")?, &uri(call, "new_uri")?).await?;
    Ok(json!({"ok": true, "seq": seq.0}))
}

pub(super) async fn delete(nodes: &Nodes<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    Ok(json!({"ok": true, "deleted": true, "seq": nodes.delete(&uri(call, "uri")?).await?.0}))
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

/// Reads the node that a call puts.
fn new_node(fields: &Fields<'_>) -> Result<Put, Refusal> {
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

/// Reads the text of a layer. The empty text asks for one that is derived from the content.
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

pub(super) async fn list(nodes: &Nodes<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let fields = &call.fields;
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
