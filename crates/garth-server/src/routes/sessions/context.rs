//! Calls on what is made of a session for a model: derived files, packs, swap, children, collection.

use garth::TreePath;
use garth::agent::session::{
    Child, ChildChange, Collect, Collection, Compact, Derive, Format, Item, PackOptions, Packed, Resolved,
    Sessions, Source, Spawn, Swapped, Wrote,
};
use garth::model::{LogPosition, Seq};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{owned, resolved, session_name};
use crate::chat_model::ServedModel;
use crate::errors::Refusal;
use crate::fields::Fields;
use crate::routes::call::Call;
use crate::routes::respond::raw;

/// Limit on the tokens that a call may name.
const MAX_TOKENS: u64 = 1 << 40;

pub(in crate::routes) async fn derive(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let mut derive = Derive::default();
    (derive.summary, derive.todo) = (owned(fields, "summary")?, owned(fields, "todo")?);
    derive.facts = lines(fields, "facts")?;
    derive.decisions = lines(fields, "decisions")?;
    derive.refs = lines(fields, "refs")?;
    let done = sessions.derive(&name, &derive).await?;
    Ok(json!({"ok": true, "files": done.files, "seq": done.seq.0}))
}

/// Reads an array of objects as JSON Lines, each as it was sent.
fn lines(fields: &Fields<'_>, name: &str) -> Result<Option<String>, Refusal> {
    let Some(raw) = fields.raw(name)?.filter(|raw| raw.get() != "null") else { return Ok(None) };
    let must = || Refusal::validation(format!("\"{name}\" must be an array of objects"));
    let items: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| must())?;
    // A line feed between the parts of an object would end its line.
    let line = |item: &&RawValue| format!("{}\n", item.get().replace(['\n', '\r'], " "));
    Ok(Some(items.iter().map(line).collect()))
}

pub(in crate::routes) async fn why(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let why = sessions.why(&name, &fields.required_text("id")?).await?;
    let source = |(given, found): &(Source, Resolved)| {
        let mut shown = resolved(found);
        shown["given"] = json!(given.to_string());
        shown
    };
    let sources: Vec<Value> = why.sources.iter().map(source).collect();
    let entry: Value = serde_json::from_str(&why.entry.line).unwrap_or_default();
    Ok(json!({"file": why.kind.file(), "entry": entry, "sources": sources}))
}

pub(in crate::routes) async fn pin(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let (file, text) = (fields.required_text("file")?, fields.text("text")?);
    let seq = sessions.pin(&name, &file, text.as_deref()).await?;
    Ok(json!({"ok": true, "seq": seq.0}))
}

pub(in crate::routes) async fn compact(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let mut how = Compact::default();
    let model = match fields.flag("by_model")? {
        Some(true) if call.model.is_none() => {
            return Err(Refusal::validation("no model is set: start the server with --model-endpoint"));
        }
        Some(false) => None,
        _ => call.model,
    };
    let allowance = ServedModel::allowance(model, &**call.account, call.env).await?;
    (how.model, how.allowance) = (model.map(|model| &*model.model), allowance.as_ref());
    how.max_tokens = fields.integer("max_tokens", 100, 100_000)?.unwrap_or(how.max_tokens);
    how.keep = fields.integer("keep", 0, u64::MAX)?.unwrap_or(how.keep);
    let done = sessions.compact(&name, &how).await?;
    let lines = done.lines.map(|lines| [*lines.start(), *lines.end()]);
    let (by_model, seq) = (done.by_model, done.seq.map(|seq| seq.0));
    Ok(json!({"ok": true, "lines": lines, "by_model": by_model, "seq": seq, "has_more": done.more}))
}

pub(in crate::routes) async fn pack(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let tokens = |name: &str| fields.integer(name, 0, MAX_TOKENS);
    let mut options = PackOptions::default();
    options.budget = tokens("budget")?;
    options.reserved.prompt_tokens = tokens("prompt_tokens")?.unwrap_or_default();
    options.reserved.tool_tokens = tokens("tool_tokens")?.unwrap_or_default();
    options.reserved.output_tokens = tokens("output_tokens")?.unwrap_or_default();
    options.fresh = fields.flag("fresh")?.unwrap_or_default();
    options.dry = fields.flag("dry")?.unwrap_or_default();
    options.expand = fields.texts("expand")?.unwrap_or_default();
    shown(sessions, &sessions.pack(&name, &options).await?, call).await
}

pub(in crate::routes) async fn replay(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let name = session_name(call)?;
    let packed = sessions.replay(&name, call.moment("at")?.as_ref()).await?;
    shown(sessions, &packed, call).await
}

/// Returns a pack in the form that the call names; lists contain the images.
async fn shown(sessions: &Sessions<'_>, packed: &Packed, call: &Call<'_>) -> Result<Box<RawValue>, Refusal> {
    let pack = raw(&packed.pack)?;
    let form = call.fields.text("form")?;
    let content = match form.as_deref().unwrap_or("markdown") {
        "markdown" => raw(&packed.markdown)?,
        format => {
            let format: Format = format.parse().map_err(|_| {
                Refusal::validation("\"form\" must be one of \"markdown\", \"openai\", \"anthropic\"")
            })?;
            let packed = sessions.hydrated(packed, call.hydrator, &call.key.account).await?;
            RawValue::from_string(packed.list(format))
                .map_err(|_| Refusal::validation("the list is no JSON"))?
        }
    };
    RawValue::from_string(format!(r#"{{"ok":true,"pack":{pack},"content":{content}}}"#))
        .map_err(|_| Refusal::validation("the answer is no JSON"))
}

pub(in crate::routes) async fn compare(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let name = session_name(call)?;
    let from = Fields::required("from", call.moment("from")?)?;
    let before = sessions.replay(&name, Some(&from)).await?;
    let after = sessions.replay(&name, call.moment("to")?.as_ref()).await?;
    let difference = after.since(&before);
    let changed: Vec<Value> =
        difference.changed.iter().map(|changed| json!({"from": changed.from, "to": changed.to})).collect();
    let items = |items: &[Item]| json!(items);
    Ok(json!({
        "entered": items(&difference.entered), "left": items(&difference.left), "changed": changed,
        "tokens": difference.tokens, "bytes": difference.bytes, "common_bytes": difference.common_bytes,
    }))
}

pub(in crate::routes) async fn swap_out(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let source: Source = fields.required_text("source")?.parse()?;
    let summary = fields.text("summary")?.unwrap_or_default();
    let entry: Swapped = sessions.swap_out(&name, &source, &summary).await?;
    Ok(json!({"ok": true, "entry": entry}))
}

pub(in crate::routes) async fn swap_in(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let id = fields.required_text("id")?;
    let content = sessions.swap_in(&name, &id).await?;
    Ok(json!({"ok": true, "id": id, "bytes": content.len()}))
}

pub(in crate::routes) async fn swapped(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    Ok(json!({"items": sessions.swapped(&session_name(call)?).await?}))
}

pub(in crate::routes) async fn dedup(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let given = fields.texts("sources")?.unwrap_or_default();
    let sources = given.iter().map(|source| source.parse()).collect::<Result<Vec<Source>, _>>()?;
    Ok(json!({"ok": true, "entries": sessions.dedup(&name, &sources).await?}))
}

pub(in crate::routes) async fn spawn(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let mut spawn = Spawn::new(
        fields.required_text("id")?.into_owned(),
        fields.text("handoff")?.unwrap_or_default().into_owned(),
    );
    (spawn.agent, spawn.session) = (owned(fields, "child_agent")?, owned(fields, "child_session")?);
    Ok(json!({"ok": true, "child": child(&sessions.spawn(&name, &spawn).await?)}))
}

pub(in crate::routes) async fn children(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let name = session_name(call)?;
    let all: Vec<Value> = sessions.children(&name).await?.iter().map(child).collect();
    Ok(json!({"items": all}))
}

pub(in crate::routes) async fn set_child(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let mut change = ChildChange::default();
    change.status = fields.text("status")?.map(|status| status.parse()).transpose()?;
    (change.result, change.refs) = (owned(fields, "result")?, lines(fields, "refs")?);
    if let Some(given) = fields.raw("artifacts")?.filter(|raw| raw.get() != "null") {
        let must = || Refusal::validation("\"artifacts\" must be an object: a path for each name");
        let paths: std::collections::BTreeMap<String, String> =
            serde_json::from_str(given.get()).map_err(|_| must())?;
        for (name, path) in paths {
            change.artifacts.push((name, TreePath::parse(&path).map_err(garth::Error::from)?));
        }
    }
    let set = sessions.set_child(&name, &fields.required_text("id")?, &change).await?;
    Ok(json!({"ok": true, "child": child(&set)}))
}

fn child(child: &Child) -> Value {
    json!({
        "id": child.id, "agent": child.agent, "session": child.session, "status": child.status.as_str(),
    })
}

pub(in crate::routes) async fn collect(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let mut how = Collect::default();
    how.dry = fields.flag("dry")?.unwrap_or(true);
    let Collection { removed, seq, more, .. } = sessions.collect(&name, &how).await?;
    let item = |one: &garth::agent::session::Collected| json!({"name": one.name, "bytes": one.bytes, "reason": one.reason});
    let removed: Vec<Value> = removed.iter().map(item).collect();
    Ok(json!({"ok": true, "removed": removed, "seq": seq.map(|seq| seq.0), "has_more": more}))
}

pub(in crate::routes) async fn wrote(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let bad = || Refusal::validation("\"cursor\" must be one that an answer gave");
    let since = match fields.text("cursor")? {
        Some(cursor) => {
            let (seq, changes) = cursor.split_once('-').ok_or_else(bad)?;
            let number = |text: &str| text.parse::<u64>().map_err(|_| bad());
            LogPosition { seq: Seq(number(seq)?), changes: number(changes)? }
        }
        None => LogPosition::default(),
    };
    let (files, next) = sessions.wrote(&name, since).await?;
    let item = |file: &Wrote| {
        let bytes: Vec<[u64; 2]> = file.bytes.iter().map(|bytes| [bytes.start, bytes.end]).collect();
        json!({"path": file.path.as_str(), "size": file.size, "bytes": bytes, "more": file.more})
    };
    let items: Vec<Value> = files.iter().map(item).collect();
    Ok(match next {
        Some(next) => {
            json!({"items": items, "has_more": true, "next_cursor": format!("{}-{}", next.seq.0, next.changes)})
        }
        None => json!({"items": items}),
    })
}
