//! Calls on the context of a session: derived files, packs, swap, children, garbage collection.

pub(in crate::routes) mod answers;

use std::borrow::Cow;
use std::collections::BTreeMap;

use garth_agent::session::{
    ChildChange, Collect, Collection, Compact, Derive, Difference, Format, MAX_ENTRIES, MAX_SWAPPED,
    PackOptions, Packed, Sessions, Source, Spawn, WrittenFiles,
};
use garth_engine::TreePath;
use garth_engine::model::{LogPosition, Seq};
use serde_json::value::RawValue;

use self::answers::{
    ChildChanged, ChildSpawned, ContentDeduplicated, ContentSwappedIn, ContentSwappedOut, ContextDerived,
    EntrySource, EntrySources, FilePinned, PackAnswer, SessionChildren, SessionCollected, SessionCompacted,
    SwappedContents, SwappedPart, WrittenFile, WrittenFilesPage,
};
use super::answers::ResolvedSource;
use super::owned;
use crate::chat_model::ServedModel;
use crate::errors::Refusal;
use crate::fields::{
    Kind, MAX_INTEGER, array, fields, flag, integer, moment, object, string, string_of, strings, words,
};
use crate::routes::call::Call;
use crate::routes::respond::{Json, raw};
use crate::wire::ItemsPage;

/// Limit on the artifacts of a result.
const MAX_ARTIFACTS: usize = 100;
/// Limit on the bytes of swapped content in one answer, 4 MiB.
const MAX_SHOWN: u64 = 4 << 20;
/// Default limit on the bytes of swapped content in an answer.
const DEFAULT_SHOWN: usize = 1 << 20;
/// Limit on the media that a child hands over in one call.
const MAX_MEDIA: usize = 100;
/// Limit on the tokens that a call may name.
const MAX_TOKENS: u64 = 1 << 40;
/// Forms of a pack.
const FORMS: Kind = words(&["markdown", "openai", "anthropic"]);

fields! {
    /// Replaces derived files of a session.
    pub(crate) struct DeriveFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Summary, Markdown. Default: unchanged.
        summary: Option<Cow<'a, str>> = string();
        /// Open work, Markdown. Default: unchanged.
        todo: Option<Cow<'a, str>> = string();
        /// Facts. Default: unchanged.
        facts: Option<Vec<&'a RawValue>> = array("facts").at_most(MAX_ENTRIES);
        /// Decisions. Default: unchanged.
        decisions: Option<Vec<&'a RawValue>> = array("decisions").at_most(MAX_ENTRIES);
        /// References. Default: unchanged.
        refs: Option<Vec<&'a RawValue>> = array("references").at_most(MAX_ENTRIES);
    }
}

pub(in crate::routes) async fn derive(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: DeriveFields<'_>,
) -> Result<Json<ContextDerived>, Refusal> {
    let mut derive = Derive::default();
    (derive.summary, derive.todo) = (owned(fields.summary), owned(fields.todo));
    derive.facts = fields.facts.as_deref().map(lines);
    derive.decisions = fields.decisions.as_deref().map(lines);
    derive.refs = fields.refs.as_deref().map(lines);
    let done = sessions.derive(&fields.name, &derive).await?;
    Json::of(&ContextDerived { ok: true, files: done.files, seq: done.seq.0 })
}

/// Writes objects as JSON Lines, each as it was sent.
fn lines(objects: &[&RawValue]) -> String {
    // A line feed within an object would end its line.
    objects.iter().map(|object| format!("{}\n", object.get().replace(['\n', '\r'], " "))).collect()
}

fields! {
    /// Returns the sources of a derived entry.
    pub(crate) struct WhyFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Id of the entry.
        id: Cow<'a, str> = string_of("id");
    }
}

pub(in crate::routes) async fn why(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: WhyFields<'_>,
) -> Result<Json<EntrySources>, Refusal> {
    let why = sessions.why(&fields.name, &fields.id).await?;
    let sources = why
        .sources
        .iter()
        .map(|(given, found)| EntrySource { given: given.to_string(), resolved: ResolvedSource::of(found) });
    let (file, sources) = (why.kind.file(), sources.collect());
    let entry = serde_json::from_str(&why.entry.line).unwrap_or_default();
    Json::of(&EntrySources { file, entry, sources })
}

fields! {
    /// Pins a file to a session, so that every pack contains it.
    pub(crate) struct PinFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Name of the file.
        file: Cow<'a, str> = string();
        /// Text of the file. Default: unpins the file.
        text: Option<Cow<'a, str>> = string();
    }
}

pub(in crate::routes) async fn pin(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: PinFields<'_>,
) -> Result<Json<FilePinned>, Refusal> {
    let seq = sessions.pin(&fields.name, &fields.file, fields.text.as_deref()).await?;
    Json::of(&FilePinned { ok: true, seq: seq.0 })
}

fields! {
    /// Summarizes the older messages of a session.
    pub(crate) struct CompactFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Limit on the tokens of the summary.
        max_tokens: u64 = integer(100, 100_000), or 1000;
        /// Newest messages to leave as they are.
        keep: u64 = integer(0, MAX_INTEGER), or 10;
        /// `true` asks the model of the server. Default: `true` if a model is configured.
        by_model: Option<bool> = flag();
    }
}

pub(in crate::routes) async fn compact(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: CompactFields<'_>,
) -> Result<Json<SessionCompacted>, Refusal> {
    let mut how = Compact::default();
    let model = call.model_to_ask(fields.by_model).await?;
    let allowance = ServedModel::allowance(model.as_ref(), &**call.reach.for_garth()?, call.env).await?;
    (how.model, how.allowance) = (model.as_ref().map(|model| &*model.model), allowance.as_ref());
    (how.max_tokens, how.keep) = (fields.max_tokens, fields.keep);
    let done = sessions.compact(&fields.name, &how).await?;
    let lines = done.lines.map(|lines| [*lines.start(), *lines.end()]);
    let (by_model, seq) = (done.by_model, done.seq.map(|seq| seq.0));
    Json::of(&SessionCompacted { ok: true, lines, by_model, seq, has_more: done.more })
}

fields! {
    /// Packs a session for a model, within a token budget.
    pub(crate) struct PackFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Limit on the tokens of the pack; 0 is no limit. Default: that of the session.
        budget: Option<u64> = integer(0, MAX_TOKENS);
        /// Tokens to reserve for the system prompt.
        prompt_tokens: u64 = integer(0, MAX_TOKENS), or 0;
        /// Tokens to reserve for the descriptions of tools.
        tool_tokens: u64 = integer(0, MAX_TOKENS), or 0;
        /// Tokens to reserve for the output of the model.
        output_tokens: u64 = integer(0, MAX_TOKENS), or 0;
        /// `true` does not continue the pack before.
        fresh: bool = flag(), or false;
        /// Ids of references to include in full.
        expand: Vec<String> = strings().of("id"), or Vec::new();
        /// Form of the answer.
        form: Cow<'a, str> = FORMS, or Cow::Borrowed("markdown");
        /// `true` stores nothing.
        dry: bool = flag(), or false;
    }
}

pub(in crate::routes) async fn pack(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: PackFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let mut options = PackOptions::default();
    options.budget = fields.budget;
    options.reserved.prompt_tokens = fields.prompt_tokens;
    options.reserved.tool_tokens = fields.tool_tokens;
    options.reserved.output_tokens = fields.output_tokens;
    (options.fresh, options.dry, options.expand) = (fields.fresh, fields.dry, fields.expand);
    shown(sessions, &sessions.pack(&fields.name, &options).await?, call, &fields.form).await
}

fields! {
    /// Returns an earlier pack of a session.
    pub(crate) struct ReplayFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Time, sequence or name of a snapshot. Default: now.
        at: Option<Cow<'a, str>> = moment();
        /// Form of the answer.
        form: Cow<'a, str> = FORMS, or Cow::Borrowed("markdown");
    }
}

pub(in crate::routes) async fn replay(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: ReplayFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let at = call.moment_of(fields.at.as_deref()).await?;
    let packed = sessions.replay(&fields.name, at.as_ref()).await?;
    shown(sessions, &packed, call, &fields.form).await
}

/// Returns a pack in a form. Message lists contain the images.
async fn shown(
    sessions: &Sessions<'_>,
    packed: &Packed,
    call: &Call<'_>,
    form: &str,
) -> Result<Box<RawValue>, Refusal> {
    let content = match form.parse::<Format>() {
        // The remaining form, `markdown`, is not a format of messages.
        Err(_) => raw(&packed.markdown)?,
        Ok(format) => {
            let packed = sessions.hydrated(packed, format, call.hydrator, call.key.share()).await?;
            RawValue::from_string(packed.list(format))
                .map_err(|_| Refusal::validation("the list is not valid JSON"))?
        }
    };
    // Not as `Json`, which would not keep the digits.
    raw(&PackAnswer { ok: true, pack: &packed.pack, content })
}

fields! {
    /// Returns the difference between two packs of a session.
    pub(crate) struct CompareFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Time of the first pack: time, sequence or name of a snapshot.
        from: Cow<'a, str> = moment();
        /// Time of the second pack. Default: now.
        to: Option<Cow<'a, str>> = moment();
    }
}

pub(in crate::routes) async fn compare(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: CompareFields<'_>,
) -> Result<Json<Difference>, Refusal> {
    let from = call.moment(&fields.from).await?;
    let to = call.moment_of(fields.to.as_deref()).await?;
    let before = sessions.replay(&fields.name, Some(&from)).await?;
    let after = sessions.replay(&fields.name, to.as_ref()).await?;
    Json::of(&after.since(&before))
}

fields! {
    /// Moves content out of packs; a summary and a reference take its place.
    pub(crate) struct SwapOutFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Content to swap out.
        source: Cow<'a, str> = string_of("source");
        /// Summary, a line.
        summary: Cow<'a, str> = string(), or Cow::Borrowed("");
    }
}

pub(in crate::routes) async fn swap_out(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: SwapOutFields<'_>,
) -> Result<Json<ContentSwappedOut>, Refusal> {
    let source: Source = fields.source.parse()?;
    let entry = sessions.swap_out(&fields.name, &source, &fields.summary).await?;
    Json::of(&ContentSwappedOut { ok: true, entry })
}

fields! {
    /// Returns content to packs that was swapped out.
    pub(crate) struct SwapInFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Id of the content.
        id: Cow<'a, str> = string_of("id");
    }
}

pub(in crate::routes) async fn swap_in(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: SwapInFields<'_>,
) -> Result<Json<ContentSwappedIn>, Refusal> {
    let bytes = sessions.swap_in(&fields.name, &fields.id).await?;
    Json::of(&ContentSwappedIn { ok: true, id: fields.id.into_owned(), bytes })
}

fields! {
    /// Lists the content that is swapped out.
    pub(crate) struct SwappedFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
    }
}

pub(in crate::routes) async fn swapped(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: SwappedFields<'_>,
) -> Result<Json<SwappedContents>, Refusal> {
    Json::of(&SwappedContents { items: sessions.swapped(&fields.name).await? })
}

fields! {
    /// Returns content that was swapped out, after a check of its hash. It stays swapped out.
    pub(crate) struct SwapShowFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Id of the content.
        id: Cow<'a, str> = string_of("id");
        /// First byte.
        offset: usize = integer(0, MAX_SWAPPED), or 0;
        /// Limit on the bytes.
        length: usize = integer(1, MAX_SHOWN), or DEFAULT_SHOWN;
    }
}

pub(in crate::routes) async fn swap_show(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: SwapShowFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let bytes = sessions.swap_content(&fields.name, &fields.id).await?;
    let begin = fields.offset.min(bytes.len());
    let end = begin.saturating_add(fields.length).min(bytes.len());
    raw(&SwappedPart::of(&fields.id, bytes.len(), &bytes[begin..end]))
}

fields! {
    /// Stores equal content of a session once.
    pub(crate) struct DedupFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Sources of the content to compare.
        sources: Vec<String> = strings().of("source");
    }
}

pub(in crate::routes) async fn dedup(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: DedupFields<'_>,
) -> Result<Json<ContentDeduplicated>, Refusal> {
    let sources = fields.sources.iter().map(|source| source.parse()).collect::<Result<Vec<Source>, _>>()?;
    Json::of(&ContentDeduplicated { ok: true, entries: sessions.dedup(&fields.name, &sources).await? })
}

fields! {
    /// Creates a child of a session, with a session of its own.
    pub(crate) struct SpawnFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Id of the child.
        id: Cow<'a, str> = string_of("id");
        /// Task of the child, Markdown.
        handoff: Cow<'a, str> = string(), or Cow::Borrowed("");
        /// Agent that does the work. Default: the agent of the session.
        child_agent: Option<Cow<'a, str>> = string_of("id");
        /// Session of the child. Default: a session named by the id.
        child_session: Option<Cow<'a, str>> = string_of("id");
    }
}

pub(in crate::routes) async fn spawn(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: SpawnFields<'_>,
) -> Result<Json<ChildSpawned>, Refusal> {
    let mut spawn = Spawn::new(fields.id.into_owned(), fields.handoff.into_owned());
    (spawn.agent, spawn.session) = (owned(fields.child_agent), owned(fields.child_session));
    Json::of(&ChildSpawned { ok: true, child: sessions.spawn(&fields.name, &spawn).await? })
}

fields! {
    /// Lists the children of a session.
    pub(crate) struct ChildrenFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
    }
}

pub(in crate::routes) async fn children(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: ChildrenFields<'_>,
) -> Result<Json<SessionChildren>, Refusal> {
    Json::of(&SessionChildren { items: sessions.children(&fields.name).await? })
}

fields! {
    /// Changes a child: its status or its result.
    pub(crate) struct SetChildFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Id of the child.
        id: Cow<'a, str> = string_of("id");
        /// Status of the child. Default: unchanged.
        status: Option<Cow<'a, str>> = words(&["pending", "active", "done", "error", "cancelled"]);
        /// Result, Markdown. Default: unchanged.
        result: Option<Cow<'a, str>> = string();
        /// References that the result names. Default: unchanged.
        refs: Option<Vec<&'a RawValue>> = array("references").at_most(MAX_ENTRIES);
        /// Files of the result: a path for each name. Default: none.
        artifacts: Option<BTreeMap<String, String>> = object("paths").at_most(MAX_ARTIFACTS);
        /// Keys of the media that the child's session hands over to its parent. Default: none.
        media: Vec<String> = strings().of("media key").at_most(MAX_MEDIA), or Vec::new();
    }
}

pub(in crate::routes) async fn set_child(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: SetChildFields<'_>,
) -> Result<Json<ChildChanged>, Refusal> {
    let mut change = ChildChange::default();
    change.status = fields.status.map(|status| status.parse()).transpose()?;
    (change.result, change.refs) = (owned(fields.result), fields.refs.as_deref().map(lines));
    for (name, path) in fields.artifacts.unwrap_or_default() {
        change.artifacts.push((name, TreePath::parse(&path).map_err(garth_engine::Error::from)?));
    }
    change.media = fields.media.iter().map(|key| key.parse()).collect::<Result<_, _>>()?;
    let set = sessions.set_child(&fields.name, &fields.id, &change).await?;
    Json::of(&ChildChanged { ok: true, child: call.stored(set) })
}

fields! {
    /// Deletes files of a session that are not needed any more.
    pub(crate) struct CollectFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// `true` deletes nothing and returns the files that would be deleted.
        dry: bool = flag(), or true;
    }
}

pub(in crate::routes) async fn collect(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: CollectFields<'_>,
) -> Result<Json<SessionCollected>, Refusal> {
    let mut how = Collect::default();
    how.dry = fields.dry;
    let Collection { removed, seq, more, .. } = sessions.collect(&fields.name, &how).await?;
    Json::of(&SessionCollected { ok: true, removed, seq: seq.map(|seq| seq.0), has_more: more })
}

fields! {
    /// Lists the files that a session wrote.
    pub(crate) struct WroteFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// `next_cursor` of the page before. Default: the first page.
        cursor: Option<Cow<'a, str>> = string_of("cursor");
    }
}

pub(in crate::routes) async fn wrote(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: WroteFields<'_>,
) -> Result<Json<WrittenFilesPage>, Refusal> {
    let since = match fields.cursor {
        Some(cursor) => {
            let cursor = call.fields.position(&cursor)?;
            // A position in the log: a sequence, and a number of changes.
            let (seq, changes) = cursor.split_once('-').ok_or_else(Refusal::cursor)?;
            let number = |text: &str| text.parse::<u64>().map_err(|_| Refusal::cursor());
            Some(LogPosition { seq: Seq(number(seq)?), changes: number(changes)? })
        }
        None => None,
    };
    let WrittenFiles { items, next, oldest, .. } = sessions.wrote(&fields.name, since).await?;
    let items = items.iter().map(WrittenFile::of).collect();
    let next = next.map(|next| format!("{}-{}", next.seq.0, next.changes));
    let page = ItemsPage::new(items, next.as_deref(), &call.fields);
    Json::of(&WrittenFilesPage { page, oldest: oldest.map(|oldest| oldest.0) })
}
