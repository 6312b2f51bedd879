//! The routes of sessions: what each one takes, asks of the account, and answers.

mod context;
mod transcripts;

use std::sync::Arc;

use bytes::Bytes;
use garth::agent::AgentTree;
use garth::agent::session::{
    Append, Change, Create, Draft, Line, List, Listed, Log, Resolved, Select, SessionKey, Sessions, Source,
    State, Usage,
};
use garth::agent::workspace::Reset;
use garth::datadir::Scope;
use garth::model::Author;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::Caller;
use super::agents::workspace;
use super::nodes::{self, identity};
use crate::compaction::Of;
use crate::errors::Refusal;
use crate::fields::Fields;

/// Sessions of a page, if nothing else is asked for.
const DEFAULT_LISTED: usize = 100;

/// A route of sessions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Create,
    Get,
    List,
    Current,
    Set,
    Append,
    Lines,
    Withdraw,
    Resolve,
    Import,
    Export,
    Derive,
    Why,
    Pin,
    Compact,
    Pack,
    Replay,
    Compare,
    SwapOut,
    SwapIn,
    Swapped,
    Dedup,
    Spawn,
    Children,
    SetChild,
    Collect,
    Wrote,
    Publish,
}

impl Call {
    pub(super) const ALL: [Self; 28] = [
        Self::Create,
        Self::Get,
        Self::List,
        Self::Current,
        Self::Set,
        Self::Append,
        Self::Lines,
        Self::Withdraw,
        Self::Resolve,
        Self::Import,
        Self::Export,
        Self::Derive,
        Self::Why,
        Self::Pin,
        Self::Compact,
        Self::Pack,
        Self::Replay,
        Self::Compare,
        Self::SwapOut,
        Self::SwapIn,
        Self::Swapped,
        Self::Dedup,
        Self::Spawn,
        Self::Children,
        Self::SetChild,
        Self::Collect,
        Self::Wrote,
        Self::Publish,
    ];

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Create => "/v1/sessions/create",
            Self::Get => "/v1/sessions/get",
            Self::List => "/v1/sessions/list",
            Self::Current => "/v1/sessions/current",
            Self::Set => "/v1/sessions/set",
            Self::Append => "/v1/sessions/append",
            Self::Lines => "/v1/sessions/lines",
            Self::Withdraw => "/v1/sessions/withdraw",
            Self::Resolve => "/v1/sessions/resolve",
            Self::Import => "/v1/sessions/import",
            Self::Export => "/v1/sessions/export",
            Self::Derive => "/v1/sessions/derive",
            Self::Why => "/v1/sessions/why",
            Self::Pin => "/v1/sessions/pin",
            Self::Compact => "/v1/sessions/compact",
            Self::Pack => "/v1/sessions/pack",
            Self::Replay => "/v1/sessions/replay",
            Self::Compare => "/v1/sessions/compare",
            Self::SwapOut => "/v1/sessions/swap-out",
            Self::SwapIn => "/v1/sessions/swap-in",
            Self::Swapped => "/v1/sessions/swapped",
            Self::Dedup => "/v1/sessions/dedup",
            Self::Spawn => "/v1/sessions/spawn",
            Self::Children => "/v1/sessions/children",
            Self::SetChild => "/v1/sessions/set-child",
            Self::Collect => "/v1/sessions/collect",
            Self::Wrote => "/v1/sessions/wrote",
            Self::Publish => "/v1/sessions/publish",
        }
    }

    /// The scope it takes.
    pub(super) const fn scope(self) -> Scope {
        match self {
            Self::Get
            | Self::List
            | Self::Lines
            | Self::Resolve
            | Self::Why
            | Self::Replay
            | Self::Compare
            | Self::Swapped
            | Self::Children
            | Self::Wrote
            | Self::Export => Scope::MemoryRead,
            Self::Create
            | Self::Current
            | Self::Set
            | Self::Append
            | Self::Withdraw
            | Self::Derive
            | Self::Pin
            | Self::Compact
            | Self::Pack
            | Self::SwapOut
            | Self::SwapIn
            | Self::Dedup
            | Self::Spawn
            | Self::SetChild
            | Self::Collect
            | Self::Publish
            | Self::Import => Scope::MemoryWrite,
        }
    }

    /// Whether its answers may be long.
    pub(super) const fn is_long(self) -> bool {
        matches!(self, Self::List | Self::Lines | Self::Export | Self::Pack | Self::Replay)
    }
}

/// Answers a call.
pub(super) async fn answer(caller: &Caller<'_>, call: Call, body: &Bytes) -> Result<Bytes, Refusal> {
    let fields = Fields::parse(body)?;
    let changes = matches!(call.scope(), Scope::MemoryWrite);
    let text = |name: &str| fields.text(name);
    let (agent, user) = (fields.required_text("agent")?, fields.required_text("user")?);
    let mut author = Author::agent(&*agent).with_user(&*user).with_key(&caller.key.id);
    if let Some(class) = text("class")? {
        author = author.with_class(&*class);
    }
    let env = caller.env.clone();
    let answer = match text("chat")? {
        Some(_) => {
            let who = identity(&fields)?.ok_or_else(|| Refusal::validation("\"chat\" goes with \"user\""))?;
            let reach = AgentTree::new(&**caller.account, who).create(changes).sessions().await?;
            let sessions = Sessions::new(&*reach.fs, &user, &agent, env)?.author(author).only(reach.only);
            answer_of(&sessions, call, &fields, caller).await?
        }
        None => {
            let sessions = Sessions::new(&**caller.account, &user, &agent, env)?.author(author);
            answer_of(&sessions, call, &fields, caller).await?
        }
    };
    Ok(Bytes::from(Box::<str>::from(answer).into_string()))
}

async fn answer_of(
    sessions: &Sessions<'_>,
    call: Call,
    fields: &Fields<'_>,
    caller: &Caller<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let now = caller.env.now();
    let name = || fields.required_text("name");
    let answer = match call {
        Call::Create => {
            let made = sessions.create(&create(fields, &name()?)?).await?;
            json!({"ok": true, "session": item(&made)})
        }
        Call::Get => json!({"session": item(&sessions.get(&name()?).await?)}),
        Call::List => list(sessions, fields).await?,
        Call::Current => {
            let key: SessionKey = fields.required_text("key")?.parse()?;
            match fields.flag("create")?.unwrap_or(false) {
                true => {
                    let create = create(fields, fields.text("name")?.as_deref().unwrap_or_default())?;
                    let (session, created) = current(sessions, &key, &create, fields, caller).await?;
                    json!({"session": item(&session), "created": created})
                }
                false => {
                    json!({"session": sessions.current(&key).await?.as_ref().map(item), "created": false})
                }
            }
        }
        Call::Set => json!({"ok": true, "session": item(&sessions.set(&name()?, &change(fields)?).await?)}),
        Call::Append => {
            let (session, append) = (name()?.into_owned(), append(fields)?);
            let done = sessions.append(&session, &append).await?;
            if append.usage.is_some() {
                let (agent, user) = (fields.required_text("agent")?, fields.required_text("user")?);
                let of = Of { agent: agent.into_owned(), user: user.into_owned(), session };
                let (tree, env, model) =
                    (Arc::clone(caller.account), caller.env.clone(), caller.model.cloned());
                caller.compactions.begin(tree, env, model, of);
            }
            let lines = done.lines.as_ref().map(|lines| [*lines.start(), *lines.end()]);
            let (messages, events, seq) = (done.messages, done.events, done.seq.map(|seq| seq.0));
            json!({"ok": true, "messages": messages, "events": events, "lines": lines, "seq": seq})
        }
        Call::Lines => return lines(sessions, &name()?, fields).await,
        Call::Withdraw => {
            let source: Source = fields.required_text("source")?.parse()?;
            let reason = fields.text("reason")?;
            let done = sessions.withdraw(&name()?, &source, reason.as_deref()).await?;
            let lines = [*done.lines.start(), *done.lines.end()];
            json!({"ok": true, "lines": lines, "events": done.events, "seq": done.seq.0})
        }
        Call::Resolve => {
            let source: Source = fields.required_text("source")?.parse()?;
            resolved(&sessions.resolve(&name()?, &source).await?)
        }
        Call::Import => return transcripts::import(sessions, &name()?, fields).await,
        Call::Export => return transcripts::export(sessions, &name()?, fields).await,
        Call::Derive => context::derive(sessions, &name()?, fields).await?,
        Call::Why => context::why(sessions, &name()?, fields).await?,
        Call::Pin => context::pin(sessions, &name()?, fields).await?,
        Call::Compact => context::compact(sessions, &name()?, fields, caller).await?,
        Call::Pack => return context::pack(sessions, &name()?, fields, caller).await,
        Call::Replay => return context::replay(sessions, &name()?, fields, caller).await,
        Call::Compare => context::compare(sessions, &name()?, fields, now).await?,
        Call::SwapOut => context::swap_out(sessions, &name()?, fields).await?,
        Call::SwapIn => context::swap_in(sessions, &name()?, fields).await?,
        Call::Swapped => json!({"items": sessions.swapped(&name()?).await?}),
        Call::Dedup => context::dedup(sessions, &name()?, fields).await?,
        Call::Spawn => context::spawn(sessions, &name()?, fields).await?,
        Call::Children => context::children(sessions, &name()?).await?,
        Call::SetChild => context::set_child(sessions, &name()?, fields).await?,
        Call::Wrote => context::wrote(sessions, &name()?, fields).await?,
        Call::Publish => {
            let put = sessions.to_publish(&name()?, &fields.required_text("id")?).await?;
            nodes::put_by(caller, fields, &put).await?
        }
        Call::Collect => context::collect(sessions, &name()?, fields).await?,
    };
    raw(&answer)
}

/// The session that goes on under a key; one that is due by the agent's settings is reset first. In a chat,
/// where the settings are not, it is as it is.
async fn current(
    sessions: &Sessions<'_>,
    key: &SessionKey,
    create: &Create,
    fields: &Fields<'_>,
    caller: &Caller<'_>,
) -> Result<(Listed, bool), Refusal> {
    if fields.text("chat")?.is_some() {
        return Ok(sessions.by_key(key, create).await?);
    }
    let (agent, user) = (fields.required_text("agent")?, fields.required_text("user")?);
    let workspace = workspace(caller, &agent, fields)?;
    // a model is asked beside the requests
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
    Ok(fields.text(name)?.map(std::borrow::Cow::into_owned))
}

fn create(fields: &Fields<'_>, name: &str) -> Result<Create, Refusal> {
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

fn append(fields: &Fields<'_>) -> Result<Append, Refusal> {
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

/// Objects as they were sent, to the last digit.
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

async fn list(sessions: &Sessions<'_>, fields: &Fields<'_>) -> Result<Value, Refusal> {
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

async fn lines(sessions: &Sessions<'_>, name: &str, fields: &Fields<'_>) -> Result<Box<RawValue>, Refusal> {
    let given = fields.text("source")?;
    if given.is_none() && sessions.end(name, Log::Messages).await?.lines == 0 {
        return raw(&json!({"log": "messages", "items": []}));
    }
    let source: Source = given.as_deref().unwrap_or("tail:100").parse()?;
    let Resolved::Lines { session, log, lines, .. } = sessions.resolve(name, &source).await? else {
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

/// A page of lines, each as it is kept, to the last digit.
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

fn raw(answer: &impl Serialize) -> Result<Box<RawValue>, Refusal> {
    to_raw_value(answer).map_err(|_| Refusal::validation("the answer is no JSON"))
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
