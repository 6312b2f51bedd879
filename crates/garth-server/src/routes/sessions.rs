//! Calls on sessions: what each one takes, asks of the account, and answers.

pub(super) mod context;
pub(super) mod transcripts;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use garth::agent::AgentTree;
use garth::agent::session::{
    Append, Change, Create, Draft, Line, List, Listed, Log, Resolved, Select, SessionKey, Sessions, Source,
    State, Usage,
};
use garth::agent::workspace::Reset;
use garth::model::Author;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::call::{Answering, Call};
use super::nodes::{self, identity};
use super::respond::raw;
use super::workspace;
use crate::compaction::Of;
use crate::errors::Refusal;
use crate::fields::Fields;

/// Sessions of a page unless the call names a limit.
const DEFAULT_LISTED: usize = 100;

/// Handler of a call on sessions.
pub(super) type Handler = for<'a> fn(&'a Sessions<'a>, &'a Call<'a>) -> Answering<'a>;

/// Answers a call.
pub(super) async fn answer(call: &Call<'_>, handler: Handler) -> Result<Bytes, Refusal> {
    let fields = &call.fields;
    let (agent, user) = (fields.required_text("agent")?, fields.required_text("user")?);
    let mut author = Author::agent(&*agent).with_user(&*user).with_key(&call.key.id);
    if let Some(class) = fields.text("class")? {
        author = author.with_class(&*class);
    }
    let env = call.env.clone();
    if fields.text("chat")?.is_none() {
        let sessions = Sessions::new(&**call.account, &user, &agent, env)?.author(author);
        return handler(&sessions, call).await;
    }
    let who = identity(fields)?.ok_or_else(|| Refusal::validation("\"chat\" goes with \"user\""))?;
    let reach = AgentTree::new(&**call.account, who).create(call.writes).sessions().await?;
    let sessions = Sessions::new(&*reach.fs, &user, &agent, env)?.author(author).only(reach.only);
    handler(&sessions, call).await
}

/// Reads the name of the session that a call is about.
fn session_name<'a>(call: &Call<'a>) -> Result<Cow<'a, str>, Refusal> {
    call.fields.required_text("name")
}

pub(super) async fn create(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let made = sessions.create(&new_session(&call.fields, &session_name(call)?)?).await?;
    Ok(json!({"ok": true, "session": item(&made)}))
}

pub(super) async fn get(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    Ok(json!({"session": item(&sessions.get(&session_name(call)?).await?)}))
}

pub(super) async fn set(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let set = sessions.set(&session_name(call)?, &change(&call.fields)?).await?;
    Ok(json!({"ok": true, "session": item(&set)}))
}

pub(super) async fn append(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let fields = &call.fields;
    let (session, append) = (session_name(call)?.into_owned(), new_lines(fields)?);
    let done = sessions.append(&session, &append).await?;
    if append.usage.is_some() {
        let (agent, user) = (fields.required_text("agent")?, fields.required_text("user")?);
        let of = Of { agent: agent.into_owned(), user: user.into_owned(), session };
        let (tree, env, model) = (Arc::clone(call.account), call.env.clone(), call.model.cloned());
        call.compactions.begin(tree, env, model, of);
    }
    let lines = done.lines.as_ref().map(|lines| [*lines.start(), *lines.end()]);
    let (messages, events, seq) = (done.messages, done.events, done.seq.map(|seq| seq.0));
    Ok(json!({"ok": true, "messages": messages, "events": events, "lines": lines, "seq": seq}))
}

pub(super) async fn withdraw(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let source: Source = call.fields.required_text("source")?.parse()?;
    let reason = call.fields.text("reason")?;
    let done = sessions.withdraw(&session_name(call)?, &source, reason.as_deref()).await?;
    let lines = [*done.lines.start(), *done.lines.end()];
    Ok(json!({"ok": true, "lines": lines, "events": done.events, "seq": done.seq.0}))
}

pub(super) async fn resolve(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let source: Source = call.fields.required_text("source")?.parse()?;
    Ok(resolved(&sessions.resolve(&session_name(call)?, &source).await?))
}

pub(super) async fn publish(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let put = sessions.to_publish(&session_name(call)?, &call.fields.required_text("id")?).await?;
    nodes::put_by(call, &put).await
}

pub(super) async fn current(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let fields = &call.fields;
    let key: SessionKey = fields.required_text("key")?.parse()?;
    if !fields.flag("create")?.unwrap_or(false) {
        let current = sessions.current(&key).await?;
        return Ok(json!({"session": current.as_ref().map(item), "created": false}));
    }
    let create = new_session(fields, fields.text("name")?.as_deref().unwrap_or_default())?;
    let (session, created) = current_or_new(sessions, &key, &create, call).await?;
    Ok(json!({"session": item(&session), "created": created}))
}

/// Returns the current session of a key and whether the call created it. A session that the agent's settings
/// call due is reset first; in a chat, which does not reach the settings, none is.
async fn current_or_new(
    sessions: &Sessions<'_>,
    key: &SessionKey,
    create: &Create,
    call: &Call<'_>,
) -> Result<(Listed, bool), Refusal> {
    let fields = &call.fields;
    if fields.text("chat")?.is_some() {
        return Ok(sessions.by_key(key, create).await?);
    }
    let (agent, user) = (fields.required_text("agent")?, fields.required_text("user")?);
    let workspace = workspace::open(call, &agent)?;
    // Without a model: no request waits for one.
    let current = workspace.current(&user, key, Some(create), &Reset::default()).await?;
    Ok(match current {
        Some(current) => (current.session, current.created),
        None => sessions.by_key(key, create).await?,
    })
}

pub(super) fn item(session: &Listed) -> Value {
    json!({
        "name": session.name, "state": session.state, "cwd": session.cwd, "created_at": session.created_at,
        "updated_at": session.updated_at, "meta": session.meta,
    })
}

fn owned(fields: &Fields<'_>, name: &str) -> Result<Option<String>, Refusal> {
    Ok(fields.text(name)?.map(Cow::into_owned))
}

/// Reads the session that a call creates.
fn new_session(fields: &Fields<'_>, name: &str) -> Result<Create, Refusal> {
    let mut create = Create::new(name);
    create.key = fields.text("key")?.map(|key| key.parse()).transpose()?;
    (create.title, create.model) = (owned(fields, "title")?, owned(fields, "model")?);
    create.context_window = fields.integer("context_window", 1, u64::MAX)?;
    if let Some(cwd) = owned(fields, "cwd")? {
        create.cwd = cwd;
    }
    Ok(create)
}

fn state(fields: &Fields<'_>) -> Result<Option<State>, Refusal> {
    Ok(fields.text("state")?.map(|state| state.parse()).transpose()?)
}

fn change(fields: &Fields<'_>) -> Result<Change, Refusal> {
    let mut change = Change::default();
    change.state = state(fields)?;
    (change.cwd, change.title) = (owned(fields, "cwd")?, owned(fields, "title")?);
    change.model = owned(fields, "model")?;
    change.context_window = fields.integer("context_window", 0, u64::MAX)?;
    change.budget = match fields.flag("no_budget")?.unwrap_or(false) {
        true => Some(None),
        false => fields.integer("budget", 0, u64::MAX)?.map(Some),
    };
    Ok(change)
}

/// Reads the messages and events that a call appends.
fn new_lines(fields: &Fields<'_>) -> Result<Append, Refusal> {
    let mut append = Append::messages(drafts(fields, "messages")?).and_events(drafts(fields, "events")?);
    (append.run, append.after) = (owned(fields, "run")?, owned(fields, "after")?);
    append.state = state(fields)?;
    append.usage = match fields.raw("usage")?.filter(|usage| usage.get() != "null") {
        Some(usage) => Some(serde_json::from_str::<Usage>(usage.get()).map_err(|error| {
            Refusal::validation(format!(
                "\"usage\" must have input_tokens, output_tokens, total_tokens: {error}"
            ))
        })?),
        None => None,
    };
    Ok(append)
}

/// Reads an array of objects, each as it was sent, to the last digit.
fn drafts(fields: &Fields<'_>, name: &str) -> Result<Vec<Draft>, Refusal> {
    let Some(raw) = fields.raw(name)?.filter(|raw| raw.get() != "null") else { return Ok(Vec::new()) };
    let must = || Refusal::validation(format!("\"{name}\" must be an array of objects"));
    let items: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| must())?;
    let drafts = items.into_iter().zip(1..).map(|(item, number): (_, usize)| {
        Draft::parse(item.get())
            .map_err(|error| Refusal::validation(format!("\"{name}\", {number}: {error}")))
    });
    drafts.collect()
}

pub(super) async fn list(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let fields = &call.fields;
    let mut list = List::default();
    list.state = state(fields)?;
    list.after = owned(fields, "cursor")?;
    let limit = fields.integer("limit", 1, garth::agent::session::MAX_LISTED as u64)?;
    list.limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_LISTED);
    let (found, next) = sessions.list(&list).await?;
    let items: Vec<Value> = found.iter().map(item).collect();
    Ok(match next {
        Some(next) => json!({"items": items, "has_more": true, "next_cursor": next}),
        None => json!({"items": items}),
    })
}

pub(super) async fn lines(sessions: &Sessions<'_>, call: &Call<'_>) -> Result<Box<RawValue>, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let given = fields.text("source")?;
    if given.is_none() && sessions.end(&name, Log::Messages).await?.lines == 0 {
        return raw(&json!({"log": "messages", "items": []}));
    }
    let source: Source = given.as_deref().unwrap_or("tail:100").parse()?;
    let Resolved::Lines { session, log, lines, .. } = sessions.resolve(&name, &source).await? else {
        return Err(Refusal::validation("\"source\" must lead to lines of messages or events"));
    };
    let mut select = match log {
        Log::Messages => Select::messages(lines),
        Log::Events => Select::events(lines),
    };
    if fields.flag("withdrawn")?.unwrap_or(false) {
        select = select.with_withdrawn();
    }
    let page = sessions.lines(&session, &select).await?;
    let next_source = page.next.map(|next| format!("{session}#{}:{next}-{}", log.name(), select.lines.end()));
    let shown = |line: &'_ Line| (line.number, serde_json::from_str::<Box<RawValue>>(&line.text));
    let items = page.items.iter().map(shown);
    let items = items.filter_map(|(line, value)| Some(Shown { line, value: value.ok()? })).collect();
    raw(&Page { log: log.name(), items, has_more: next_source.is_some(), next_source })
}

/// Page of lines, each as it is stored, to the last digit.
#[derive(Serialize)]
struct Page {
    log: &'static str,
    items: Vec<Shown>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_source: Option<String>,
}

#[derive(Serialize)]
struct Shown {
    line: u64,
    value: Box<RawValue>,
}

fn resolved(found: &Resolved) -> Value {
    let fixed = found.fixed();
    match found {
        Resolved::Lines { session, log, lines, bytes, .. } => json!({
            "source": fixed, "session": session, "log": log.name(), "lines": [lines.start(), lines.end()],
            "bytes": [bytes.start, bytes.end],
        }),
        Resolved::File { path, version, size, .. } => json!({
            "source": fixed, "path": path.as_str(), "version_id": version.to_string(), "size": size,
        }),
        _ => json!({"source": fixed}),
    }
}
