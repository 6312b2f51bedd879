//! Calls on memories.

use std::borrow::Cow;

use garth_agent::memory::{
    Around, Direction, Duplicate, Edge, LayerText, Level, List, MAX_HOPS, MAX_LISTED, MAX_LOGGED, MAX_LOOKED,
    Memories, MemoryVersion, Meta, Prefix, Put, Status, Uri, Written,
};
use garth_engine::model::{HistoryPage, Timestamp, VersionId};
use schemars::JsonSchema;
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

/// Returns the answer of a put.
pub(super) fn written(call: &Call<'_>, written: &Written) -> Value {
    json!(WrittenAnswer::of(call, written))
}

/// Answer of a call that stores a memory. Only a key that may read gets the stored data in it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryWritten")]
pub(super) struct WrittenAnswer<'a> {
    /// `true`.
    ok: bool,
    /// True if the memory was created.
    created: bool,
    /// True if anything was changed.
    changed: bool,
    /// Commit; `null` if there was nothing to change.
    seq: Option<u64>,
    /// Possible duplicates of the same owner, the best first; `null` if the tree has no search, or without
    /// the scope `memory:read`.
    near: Option<Vec<NearMemory>>,
    /// Meta after the call; `null` without the scope `memory:read`.
    meta: Option<&'a Meta>,
    /// URI of the memory, in the answer of `remember`.
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
}

/// Possible duplicate of a memory.
#[derive(Serialize, JsonSchema)]
struct NearMemory {
    /// URI of the duplicate.
    uri: String,
    /// Share of the words that it contains, 0 to 1.
    score: f64,
}

impl NearMemory {
    fn of(near: &Duplicate) -> Self {
        Self { uri: near.uri.to_string(), score: near.score }
    }
}

impl<'a> WrittenAnswer<'a> {
    /// Returns the answer of a call.
    pub(super) fn of(call: &Call<'_>, written: &'a Written) -> Self {
        let may_read = call.may_read();
        let near = written.near.as_ref().filter(|_| may_read);
        Self {
            ok: true,
            created: written.created,
            changed: written.seq.is_some(),
            seq: written.seq.map(|seq| seq.0),
            near: near.map(|near| near.iter().map(NearMemory::of).collect()),
            meta: may_read.then_some(&written.meta),
            uri: None,
        }
    }

    /// Adds the URI of the memory, also for a key that may not read.
    pub(super) fn with_uri(self, written: &'a Written) -> Self {
        Self { uri: Some(&written.meta.uri), ..self }
    }
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
    Ok(json!(GetAnswer {
        uri: &memory.meta.uri,
        layer: level.number(),
        text: &memory.text,
        version_id: memory.version,
        meta: &memory.meta,
    }))
}

/// Layer of a memory.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryText")]
pub(super) struct GetAnswer<'a> {
    /// URI of the memory.
    uri: &'a str,
    /// Layer: 0 is the abstract, 1 the overview, 2 the content.
    layer: u8,
    /// Text of the layer.
    text: &'a str,
    /// Version of the memory.
    version_id: VersionId,
    /// Meta of the memory.
    meta: &'a Meta,
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
    let items: Vec<Value> = versions.items.iter().map(|version| json!(LoggedVersion::of(version))).collect();
    let last = versions.items.last().filter(|_| versions.more).map(|last| last.id.to_string());
    Ok(call.fields.page(items, last.as_deref()))
}

/// Version of a memory.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryVersion")]
pub(super) struct LoggedVersion<'a> {
    /// Commit that created the version.
    seq: u64,
    /// Id of the version.
    version_id: String,
    /// Time of the commit.
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    /// Reason for the commit.
    message: &'a str,
    /// True if the commit deleted the memory.
    deleted: bool,
    /// Meta of the memory; `null` if it cannot be read.
    meta: Option<&'a Meta>,
}

impl<'a> LoggedVersion<'a> {
    fn of(version: &'a MemoryVersion) -> Self {
        let commit = &version.commit;
        Self {
            seq: commit.seq.0,
            version_id: version.id.to_string(),
            created_at: commit.time.to_rfc3339(),
            message: &commit.message,
            deleted: version.deleted,
            meta: version.meta.as_ref(),
        }
    }
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
    Ok(json!(ExistsAnswer { exists: memories.exists(&fields.uri.parse()?).await? }))
}

/// Existence of a memory.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryExists")]
pub(super) struct ExistsAnswer {
    /// True if the memory exists.
    exists: bool,
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
    Ok(json!(TagAnswer { ok: true, meta: call.may_read().then_some(meta) }))
}

/// Answer of a call that tags a memory.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryTagged")]
pub(super) struct TagAnswer {
    /// `true`.
    ok: bool,
    /// Meta after the call; `null` without the scope `memory:read`.
    meta: Option<Meta>,
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
    Ok(json!(RelateAnswer { ok: true, changed: memories.relate(&edge).await?.is_some() }))
}

/// Answer of a call that relates memories.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryRelated")]
pub(super) struct RelateAnswer {
    /// `true`.
    ok: bool,
    /// True if anything was changed.
    changed: bool,
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
    let removed = memories.unrelate(&from, &to, fields.relation_type.as_deref()).await?;
    Ok(json!(UnrelateAnswer { ok: true, removed }))
}

/// Answer of a call that removes relations.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryUnrelated")]
pub(super) struct UnrelateAnswer {
    /// `true`.
    ok: bool,
    /// Number of removed relations.
    removed: usize,
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
    Ok(json!(RelationsAnswer { edges, has_more: around.more }))
}

/// Relations around a memory.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryRelations")]
pub(super) struct RelationsAnswer<'a> {
    /// Relations, nearest first.
    edges: Vec<Hop<'a>>,
    /// True if there are more.
    has_more: bool,
}

/// Relation, and its distance.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FoundRelation")]
struct Hop<'a> {
    /// Steps from the memory, from 1.
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
    Ok(json!(MoveAnswer { ok: true, seq: seq.0 }))
}

/// Answer of a call that moves a memory.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryMoved")]
pub(super) struct MoveAnswer {
    /// `true`.
    ok: bool,
    /// Commit.
    seq: u64,
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
    let seq = memories.delete(&fields.uri.parse()?).await?.0;
    Ok(json!(DeleteAnswer { ok: true, deleted: true, seq }))
}

/// Answer of a call that deletes a memory.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryDeleted")]
pub(super) struct DeleteAnswer {
    /// `true`.
    ok: bool,
    /// `true`.
    deleted: bool,
    /// Commit.
    seq: u64,
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
    let item = |(uri, meta): &(Uri, Meta)| json!(ListedMemory { uri: uri.to_string(), meta });
    let items: Vec<Value> = page.items.iter().map(item).collect();
    Ok(call.fields.page(items, page.next.as_deref()))
}

/// Memory of a list.
#[derive(Serialize, JsonSchema)]
pub(super) struct ListedMemory<'a> {
    /// URI of the memory.
    uri: String,
    /// Meta of the memory.
    meta: &'a Meta,
}
