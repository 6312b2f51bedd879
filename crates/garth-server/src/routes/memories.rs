//! Calls on memories.

use std::borrow::Cow;

use garth_agent::memory::{
    Around, Direction, Edge, LayerText, Level, List, MAX_HOPS, MAX_LISTED, MAX_LOGGED, MAX_LOOKED, Memories,
    MemoryVersion, Meta, Prefix, Put, Status, Uri, Written,
};
use garth_engine::model::{HistoryPage, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use super::call::Call;
use crate::errors::Refusal;
use crate::fields::{
    MAX_INTEGER, Page, array, end_time, fields, flag, integer, moment, number_in, string, string_of, strings,
    time, words,
};

/// Memories of a page unless the call sets a limit.
const DEFAULT_LISTED: usize = 100;

fields! {
    /// Creates a memory or changes it. Fields that are left out stay as they are.
    pub(super) struct PutFields<'a> {
        /// Memory.
        uri: Cow<'a, str> = string_of("uri");
        /// Text of the memory.
        content: Cow<'a, str> = string();
        /// Abstract. The empty text derives it from the content. Default: unchanged, or derived.
        brief as "abstract": Option<Cow<'a, str>> = string();
        /// Overview. The empty text derives it from the content. Default: unchanged, or derived.
        overview: Option<Cow<'a, str>> = string();
        /// Tags. Default: unchanged.
        tags: Option<Vec<String>> = strings();
        /// All relations that lead from the memory, each as `relate` takes it. Default: unchanged.
        relations: Option<Vec<Edge>> = array("relations");
        /// Memory that this one replaces. Default: none.
        replaces: Option<Cow<'a, str>> = string_of("uri");
        /// Time from which it is true. Default: unchanged.
        valid_from: Option<Timestamp> = time();
        /// Time until which it is true. Default: unchanged.
        valid_to: Option<Timestamp> = end_time();
        /// Version that the memory must have; 0 if it must not exist. Default: any.
        if_version: Option<u64> = integer(0, MAX_INTEGER);
        /// Takes a text that is empty or blank.
        allow_empty: bool = flag(), or false;
    }
}

pub(super) async fn put(
    memories: &Memories<'_>,
    call: &Call<'_>,
    fields: PutFields<'_>,
) -> Result<Value, Refusal> {
    let uri: Uri = fields.uri.parse()?;
    let mut put = Put::new(fields.content);
    (put.brief, put.overview) = (layer(fields.brief), layer(fields.overview));
    (put.tags, put.edges) = (fields.tags, fields.relations);
    put.replaces = fields.replaces.map(|uri| uri.parse()).transpose()?;
    (put.valid_from, put.valid_to) = (fields.valid_from, fields.valid_to);
    (put.if_version, put.allow_empty) = (fields.if_version, fields.allow_empty);
    Ok(written(call, &memories.put(&uri, &put).await?))
}

/// Returns the answer of a put. `near` and `meta` contain stored data, which only a key that may read gets.
pub(super) fn written(call: &Call<'_>, written: &Written) -> Value {
    let mut json = written.to_json();
    json.insert("ok".to_owned(), true.into());
    for name in ["near", "meta"] {
        let value = json.remove(name).unwrap_or_default();
        json.insert(name.to_owned(), call.stored(value));
    }
    json.into()
}

/// Reads the text of a layer. The empty text asks for one derived from the content.
fn layer(text: Option<Cow<'_, str>>) -> LayerText {
    match text {
        None => LayerText::Keep,
        Some(text) if text.is_empty() => LayerText::Derive,
        Some(text) => LayerText::Given(text.into_owned()),
    }
}

fields! {
    /// Returns a layer of a memory.
    pub(super) struct GetFields<'a> {
        /// Memory.
        uri: Cow<'a, str> = string_of("uri");
        /// Layer: 0 is the abstract, 1 the overview, 2 the content.
        layer: u64 = integer(0, 2), or 2;
        /// Time of the memory: time, sequence, version or name of a snapshot. Default: now.
        at: Option<Cow<'a, str>> = moment();
    }
}

pub(super) async fn get(
    memories: &Memories<'_>,
    call: &Call<'_>,
    fields: GetFields<'_>,
) -> Result<Value, Refusal> {
    // The field admits 0 to 2.
    let level = Level::of(u8::try_from(fields.layer).unwrap_or(u8::MAX))?;
    let uri: Uri = fields.uri.parse()?;
    let memory = match call.moment_of(fields.at.as_deref()).await? {
        Some(moment) => memories.get_at(&uri, level, &moment).await?,
        None => memories.get(&uri, level).await?,
    };
    Ok(json!({
        "uri": memory.meta.uri, "layer": level.number(), "text": memory.text,
        "version_id": memory.version.to_string(), "meta": memory.meta,
    }))
}

fields! {
    /// Lists the versions of a memory, newest first, also of one that was deleted.
    pub(super) struct LogFields<'a> {
        /// Memory.
        uri: Cow<'a, str> = string_of("uri");
        ..page: Page<MAX_LOGGED, MAX_LOGGED>;
    }
}

pub(super) async fn log(
    memories: &Memories<'_>,
    call: &Call<'_>,
    fields: LogFields<'_>,
) -> Result<Value, Refusal> {
    let before = fields.page.cursor.as_deref().map(str::parse).transpose()?;
    let page = HistoryPage::default().before(before).limit(fields.page.limit);
    let versions = memories.log(&fields.uri.parse()?, &page).await?;
    let items: Vec<Value> = versions.items.iter().map(version).collect();
    let last = versions.items.last().filter(|_| versions.more).map(|last| last.id.to_string());
    Ok(call.fields.page(items, last.as_deref()))
}

fn version(version: &MemoryVersion) -> Value {
    let commit = &version.commit;
    json!({
        "seq": commit.seq.0, "version_id": version.id.to_string(), "created_at": commit.time.to_rfc3339(),
        "message": commit.message, "deleted": version.deleted, "meta": version.meta,
    })
}

fields! {
    /// Returns whether a memory exists.
    pub(super) struct ExistsFields<'a> {
        /// Memory.
        uri: Cow<'a, str> = string_of("uri");
    }
}

pub(super) async fn exists(
    memories: &Memories<'_>,
    _: &Call<'_>,
    fields: ExistsFields<'_>,
) -> Result<Value, Refusal> {
    Ok(json!({"exists": memories.exists(&fields.uri.parse()?).await?}))
}

fields! {
    /// Adds and removes tags of a memory.
    pub(super) struct TagFields<'a> {
        /// Memory.
        uri: Cow<'a, str> = string_of("uri");
        /// Tags to add.
        add: Vec<String> = strings(), or Vec::new();
        /// Tags to remove.
        remove: Vec<String> = strings(), or Vec::new();
    }
}

pub(super) async fn tag(
    memories: &Memories<'_>,
    call: &Call<'_>,
    fields: TagFields<'_>,
) -> Result<Value, Refusal> {
    let meta = memories.tag(&fields.uri.parse()?, &fields.add, &fields.remove).await?;
    Ok(json!({"ok": true, "meta": call.stored(json!(meta))}))
}

fields! {
    /// Creates a relation between two memories, or changes it.
    pub(super) struct RelateFields<'a> {
        /// Memory from which the relation leads.
        from_uri: Cow<'a, str> = string_of("uri");
        /// Memory to which it leads.
        to_uri: Cow<'a, str> = string_of("uri");
        /// Type of the relation, 1 to 128 bytes.
        relation_type: Cow<'a, str> = string();
        /// Strength.
        weight: f64 = number_in(0.0, 1.0), or 1.0;
        /// Reason, at most 4,096 bytes.
        reason: Cow<'a, str> = string(), or Cow::Borrowed("");
    }
}

pub(super) async fn relate(
    memories: &Memories<'_>,
    _: &Call<'_>,
    fields: RelateFields<'_>,
) -> Result<Value, Refusal> {
    let edge = Edge {
        from_uri: fields.from_uri.into_owned(),
        to_uri: fields.to_uri.into_owned(),
        relation_type: fields.relation_type.into_owned(),
        weight: fields.weight,
        reason: fields.reason.into_owned(),
        other: serde_json::Map::new(),
    };
    Ok(json!({"ok": true, "changed": memories.relate(&edge).await?.is_some()}))
}

fields! {
    /// Removes relations between two memories.
    pub(super) struct UnrelateFields<'a> {
        /// Memory from which the relation leads.
        from_uri: Cow<'a, str> = string_of("uri");
        /// Memory to which it leads.
        to_uri: Cow<'a, str> = string_of("uri");
        /// Type of the relation. Default: every type.
        relation_type: Option<Cow<'a, str>> = string();
    }
}

pub(super) async fn unrelate(
    memories: &Memories<'_>,
    _: &Call<'_>,
    fields: UnrelateFields<'_>,
) -> Result<Value, Refusal> {
    let (from, to) = (fields.from_uri.parse()?, fields.to_uri.parse()?);
    Ok(json!({"ok": true, "removed": memories.unrelate(&from, &to, fields.relation_type.as_deref()).await?}))
}

fields! {
    /// Lists the relations around a memory, nearest first.
    pub(super) struct RelationsFields<'a> {
        /// Memory.
        uri: Cow<'a, str> = string_of("uri");
        /// Direction of the relations.
        direction: Cow<'a, str> = words(&["outgoing", "incoming", "both"]), or Cow::Borrowed("both");
        /// Steps to follow.
        hops: usize = integer(1, MAX_HOPS as u64), or 1;
        /// Limit on the relations.
        limit: usize = integer(1, MAX_LOOKED as u64), or 100;
    }
}

pub(super) async fn relations(
    memories: &Memories<'_>,
    _: &Call<'_>,
    fields: RelationsFields<'_>,
) -> Result<Value, Refusal> {
    let direction = match &*fields.direction {
        "outgoing" => Direction::Outgoing,
        "incoming" => Direction::Incoming,
        // The field admits no other word.
        _ => Direction::Both,
    };
    let around = Around::new(direction).hops(fields.hops).limit(fields.limit);
    let around = memories.around(&fields.uri.parse()?, &around).await?;
    let edges: Vec<_> = around.edges.iter().map(|(hops, edge)| Hop { hops: *hops, edge }).collect();
    Ok(json!({"edges": edges, "has_more": around.more}))
}

#[derive(Serialize)]
struct Hop<'a> {
    hops: usize,
    #[serde(flatten)]
    edge: &'a Edge,
}

fields! {
    /// Moves a memory to another URI. It stays the same memory, with its past.
    pub(super) struct MoveFields<'a> {
        /// Memory.
        uri: Cow<'a, str> = string_of("uri");
        /// URI to move it to.
        new_uri: Cow<'a, str> = string_of("uri");
    }
}

pub(super) async fn move_to(
    memories: &Memories<'_>,
    _: &Call<'_>,
    fields: MoveFields<'_>,
) -> Result<Value, Refusal> {
    let seq = memories.move_to(&fields.uri.parse()?, &fields.new_uri.parse()?).await?;
    Ok(json!({"ok": true, "seq": seq.0}))
}

fields! {
    /// Deletes a memory and the relations that lead to it.
    pub(super) struct DeleteFields<'a> {
        /// Memory.
        uri: Cow<'a, str> = string_of("uri");
    }
}

pub(super) async fn delete(
    memories: &Memories<'_>,
    _: &Call<'_>,
    fields: DeleteFields<'_>,
) -> Result<Value, Refusal> {
    Ok(json!({"ok": true, "deleted": true, "seq": memories.delete(&fields.uri.parse()?).await?.0}))
}

fields! {
    /// Lists memories, in the order of directories.
    pub(super) struct ListFields<'a> {
        /// Beginning of the URIs, in complete segments. Default: the account.
        prefix: Option<Cow<'a, str>> = string_of("uri");
        /// Category. Default: any.
        category: Option<Cow<'a, str>> = string();
        /// Status of the memories.
        status: Cow<'a, str> = words(&["ACTIVE", "PENDING", "BROKEN"]), or Cow::Borrowed("ACTIVE");
        /// Only memories with all of these tags.
        tags: Vec<String> = strings(), or Vec::new();
        ..page: Page<MAX_LISTED, DEFAULT_LISTED>;
    }
}

pub(super) async fn list(
    memories: &Memories<'_>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Value, Refusal> {
    let prefix = match fields.prefix {
        Some(prefix) => memories.prefix(&prefix)?,
        None => Prefix::Account,
    };
    let mut list = List::new(prefix);
    list.category = fields.category.map(Cow::into_owned);
    list.status = match &*fields.status {
        "PENDING" => Status::Pending,
        "BROKEN" => Status::Broken,
        _ => Status::Active,
    };
    list.tags = fields.tags;
    list.after = fields.page.cursor;
    list.limit = fields.page.limit;
    let page = memories.list(&list).await?;
    let items: Vec<Value> = page.items.iter().map(item).collect();
    Ok(call.fields.page(items, page.next.as_deref()))
}

fn item((uri, meta): &(Uri, Meta)) -> Value {
    json!({"uri": uri.to_string(), "meta": meta})
}
