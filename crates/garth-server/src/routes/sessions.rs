//! Calls on sessions.

pub(super) mod answers;
pub(super) mod context;
pub(super) mod transcripts;

use std::borrow::Cow;
use std::sync::Arc;

use garth_agent::memory::Put;
use garth_agent::session::{
    Append, Change, Create, Draft, Line, List, Listed, Log, MAX_APPENDED, MAX_LISTED, Resolved, Select,
    SessionKey, Sessions, Source, State, Usage,
};
use garth_agent::workspace::Reset;
use serde_json::Value;
use serde_json::value::RawValue;

use self::answers::{
    CurrentSession, LinesAppended, LinesPage, LinesRetracted, ResolvedSource, SessionAnswer, SessionLine,
    SessionWritten,
};
use super::call::Call;
use super::memories;
use super::open::{open, reach};
use super::respond::{Json, raw};
use super::tree::Tree;
use crate::compaction::Of;
use crate::errors::Refusal;
use crate::fields::{
    Kind, MAX_INTEGER, Page, array, fields, flag, integer, object, string, string_of, words,
};
use crate::wire::ItemsPage;

/// Sessions of a page unless the call sets a limit.
const DEFAULT_LISTED: usize = 100;
/// States of a session.
const STATES: Kind = words(&["active", "idle", "done", "error", "cancelled"]);

fields! {
    /// Creates a session.
    pub(super) struct CreateFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Title. Default: none.
        title: Option<Cow<'a, str>> = string();
        /// Model. Default: none.
        model: Option<Cow<'a, str>> = string();
        /// Context window of the model, in tokens. Default: unknown.
        context_window: Option<u64> = integer(1, MAX_INTEGER);
        /// Working directory, an absolute path. Default: `/`.
        cwd: Option<Cow<'a, str>> = string_of("path");
    }
}

pub(super) async fn create(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: CreateFields<'_>,
) -> Result<Json<SessionWritten>, Refusal> {
    let mut create = Create::new(&*fields.name);
    create.title = owned(fields.title);
    create.model = owned(fields.model);
    create.context_window = fields.context_window;
    if let Some(cwd) = owned(fields.cwd) {
        create.cwd = cwd;
    }
    let created = sessions.create(&create).await?;
    Json::of(&SessionWritten { ok: true, session: call.stored(created) })
}

fields! {
    /// Returns a session.
    pub(super) struct GetFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
    }
}

pub(super) async fn get(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: GetFields<'_>,
) -> Result<Json<SessionAnswer>, Refusal> {
    Json::of(&SessionAnswer { session: sessions.get(&fields.name).await? })
}

fields! {
    /// Changes a session. Fields that are left out stay as they are.
    pub(super) struct SetFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// State. Default: unchanged.
        state: Option<Cow<'a, str>> = STATES;
        /// Working directory, an absolute path. Default: unchanged.
        cwd: Option<Cow<'a, str>> = string_of("path");
        /// Title. Default: unchanged.
        title: Option<Cow<'a, str>> = string();
        /// Model. Default: unchanged.
        model: Option<Cow<'a, str>> = string();
        /// Context window of the model, in tokens. Default: unchanged.
        context_window: Option<u64> = integer(0, MAX_INTEGER);
        /// Tokens of packs; 0 is no limit. Default: unchanged.
        budget: Option<u64> = integer(0, MAX_INTEGER);
        /// `true` removes the budget of the session.
        no_budget: bool = flag(), or false;
    }
}

pub(super) async fn set(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: SetFields<'_>,
) -> Result<Json<SessionWritten>, Refusal> {
    if fields.no_budget && fields.budget.is_some() {
        return Err(Refusal::validation(
            "\"no_budget\" removes the \"budget\" that is sent with it: send one",
        ));
    }
    let mut change = Change::default();
    change.state = state(fields.state)?;
    (change.cwd, change.title, change.model) = (owned(fields.cwd), owned(fields.title), owned(fields.model));
    change.context_window = fields.context_window;
    change.budget = if fields.no_budget { Some(None) } else { fields.budget.map(Some) };
    let set = sessions.set(&fields.name, &change).await?;
    Json::of(&SessionWritten { ok: true, session: call.stored(set) })
}

fields! {
    /// Appends messages and events to a session, in one commit.
    pub(super) struct AppendFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Messages.
        messages: Vec<&'a RawValue> = array("messages").at_most(MAX_APPENDED), or Vec::new();
        /// Events.
        events: Vec<&'a RawValue> = array("events").at_most(MAX_APPENDED), or Vec::new();
        /// Run of the messages and events that name no run. Default: none.
        run: Option<Cow<'a, str>> = string();
        /// Id of the last message that the caller knows; a newer one is a conflict. Default: any.
        after: Option<Cow<'a, str>> = string_of("id");
        /// State of the session. Default: unchanged.
        state: Option<Cow<'a, str>> = STATES;
        /// Tokens that a model used: `input_tokens`, `output_tokens`, `total_tokens`. Default: none.
        usage: Option<Usage> = object("usage");
    }
}

pub(super) async fn append(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: AppendFields<'_>,
) -> Result<Json<LinesAppended>, Refusal> {
    let (messages, events) = (drafts("messages", &fields.messages)?, drafts("events", &fields.events)?);
    let mut append = Append::messages(messages).and_events(events);
    (append.run, append.after) = (owned(fields.run), owned(fields.after));
    append.state = state(fields.state)?;
    append.usage = fields.usage;
    // A client that has lost its messages would not notice.
    if fields.messages.is_empty()
        && fields.events.is_empty()
        && append.state.is_none()
        && append.usage.is_none()
    {
        let message = "there is nothing to append; give at least one of \"messages\", \"events\", \"state\" and \
                       \"usage\"";
        return Err(Refusal::validation(message));
    }
    let done = sessions.append(&fields.name, &append).await?;
    // Only the usage shows that the context window is almost full.
    if append.usage.is_some() {
        let (agent, user) = (call.caller.agent.to_string(), sessions.audience().to_owned());
        let (account, session) = (call.key.share().to_owned(), fields.name.into_owned());
        let of = Of { account, agent, user, session };
        let (env, model) = (call.env.clone(), call.model.cloned());
        let tree = Arc::clone(call.reach.for_garth()?);
        call.compactions.begin(tree, env, model, of);
    }
    let lines = done.lines.as_ref().map(|lines| [*lines.start(), *lines.end()]);
    let (messages, events, seq) = (done.messages, done.events, done.seq.map(|seq| seq.0));
    Json::of(&LinesAppended { ok: true, messages, events, lines, seq })
}

/// Parses the objects of an array and keeps each as it was sent, to the last digit.
fn drafts(name: &str, objects: &[&RawValue]) -> Result<Vec<Draft>, Refusal> {
    let drafts = objects.iter().zip(1..).map(|(object, number): (_, usize)| {
        Draft::parse(object.get())
            .map_err(|error| Refusal::validation(format!("\"{name}\", {number}: {error}")))
    });
    drafts.collect()
}

fields! {
    /// Retracts messages: models no longer get them, and they stay stored.
    pub(super) struct RetractFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Messages to retract.
        source: Cow<'a, str> = string_of("source");
        /// Reason, recorded with the event: at most 4,096 bytes. Default: none.
        reason: Option<Cow<'a, str>> = string();
    }
}

pub(super) async fn retract(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: RetractFields<'_>,
) -> Result<Json<LinesRetracted>, Refusal> {
    let source: Source = fields.source.parse()?;
    let done = sessions.retract(&fields.name, &source, fields.reason.as_deref()).await?;
    let lines = [*done.lines.start(), *done.lines.end()];
    Json::of(&LinesRetracted { ok: true, lines, events: done.events, seq: done.seq.0 })
}

fields! {
    /// Resolves a source to lines or a file.
    pub(super) struct ResolveFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Source.
        source: Cow<'a, str> = string_of("source");
    }
}

pub(super) async fn resolve(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: ResolveFields<'_>,
) -> Result<Json<ResolvedSource>, Refusal> {
    let source: Source = fields.source.parse()?;
    Json::of(&ResolvedSource::of(&sessions.resolve(&fields.name, &source).await?))
}

fields! {
    /// Publishes a derived entry of a session as a memory.
    pub(super) struct PublishFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Id of the entry.
        id: Cow<'a, str> = string_of("id");
        /// Memory to create or change.
        uri: Cow<'a, str> = string_of("uri");
    }
}

pub(super) async fn publish(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: PublishFields<'_>,
) -> Result<Value, Refusal> {
    let uri = fields.uri.parse()?;
    // A repeat returns the recorded answer, and the entry may be deleted by now.
    let put = match call.once.is_repeat() {
        true => Put::default(),
        false => sessions.to_publish(&fields.name, &fields.id).await?,
    };
    let opened = open(call, Tree::Memories).await?;
    Ok(memories::written(call, &opened.memories()?.put(&uri, &put).await?))
}

fields! {
    /// Returns the newest session of a session key that has not ended; creates one if that is asked for.
    pub(super) struct CurrentFields<'a> {
        /// `true` creates a session if there is none, and resets one that is due.
        create: bool = flag(), or false;
        /// Name of a session that is created. Default: a UUID.
        name: Option<Cow<'a, str>> = string_of("id");
        /// Title of a session that is created. Default: none.
        title: Option<Cow<'a, str>> = string();
        /// Model of a session that is created. Default: none.
        model: Option<Cow<'a, str>> = string();
        /// Context window of a session that is created, in tokens. Default: unknown.
        context_window: Option<u64> = integer(1, MAX_INTEGER);
        /// Working directory of a session that is created. Default: `/`.
        cwd: Option<Cow<'a, str>> = string_of("path");
    }
}

pub(super) async fn current(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: CurrentFields<'_>,
) -> Result<Json<CurrentSession>, Refusal> {
    let key = call.caller.key.clone().ok_or_else(|| Refusal::validation("\"key\" is missing"))?;
    if !fields.create {
        let of_new = fields.name.is_some() || fields.title.is_some() || fields.model.is_some();
        if of_new || fields.context_window.is_some() || fields.cwd.is_some() {
            let message = "fields of a new session require \"create\": true";
            return Err(Refusal::validation(message));
        }
        let session = sessions.current(&key).await?;
        return Json::of(&CurrentSession { session, created: false });
    }
    // Without a name, the session is named by a UUID.
    let mut create = Create::new(fields.name.as_deref().unwrap_or_default());
    (create.title, create.model) = (owned(fields.title), owned(fields.model));
    create.context_window = fields.context_window;
    if let Some(cwd) = owned(fields.cwd) {
        create.cwd = cwd;
    }
    let (session, created) = current_or_new(sessions, &key, &create, call).await?;
    Json::of(&CurrentSession { session: Some(session), created })
}

/// Returns the current session of a key, and true if the call created it. A session that is due by the
/// settings of the agent is reset first.
async fn current_or_new(
    sessions: &Sessions<'_>,
    key: &SessionKey,
    create: &Create,
    call: &Call<'_>,
) -> Result<(Listed, bool), Refusal> {
    let opened = reach(call, Tree::Workspace).await?;
    // Without a model, because no request should wait for one.
    let reset = Reset::default();
    let current = opened.workspace()?.current(sessions.audience(), key, Some(create), &reset).await?;
    Ok(match current {
        Some(current) => (current.session, current.created),
        None => sessions.by_key(key, create).await?,
    })
}

fn owned(text: Option<Cow<'_, str>>) -> Option<String> {
    text.map(Cow::into_owned)
}

fn state(word: Option<Cow<'_, str>>) -> Result<Option<State>, Refusal> {
    Ok(word.map(|word| word.parse()).transpose()?)
}

fields! {
    /// Lists sessions by name.
    pub(super) struct ListFields<'a> {
        /// State of the sessions. Default: any.
        state: Option<Cow<'a, str>> = STATES;
        ..page: Page<MAX_LISTED, DEFAULT_LISTED>;
    }
}

pub(super) async fn list(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Json<ItemsPage<Listed>>, Refusal> {
    let mut list = List::default();
    list.state = state(fields.state)?;
    (list.limit, list.after) = (fields.page.limit, fields.page.cursor);
    let (found, next) = sessions.list(&list).await?;
    Json::of(&ItemsPage::new(found, next.as_deref(), &call.fields))
}

fields! {
    /// Returns messages or events of a session.
    pub(super) struct LinesFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Lines to return. Default: `tail:100`.
        source: Option<Cow<'a, str>> = string_of("source");
        /// `true` includes retracted messages.
        retracted: bool = flag(), or false;
    }
}

pub(super) async fn lines(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: LinesFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    // Without messages, the default source leads nowhere.
    if fields.source.is_none() && sessions.end(&fields.name, Log::Messages).await?.lines == 0 {
        let log = Log::Messages.name();
        return raw(&LinesPage { log, items: Vec::new(), has_more: false, next_source: None });
    }
    let source: Source = fields.source.as_deref().unwrap_or("tail:100").parse()?;
    let Resolved::Lines { session, log, lines, .. } = sessions.resolve(&fields.name, &source).await? else {
        return Err(Refusal::validation("\"source\" must lead to lines of messages or events"));
    };
    let mut select = match log {
        Log::Messages => Select::messages(lines),
        Log::Events => Select::events(lines),
    };
    if fields.retracted {
        select = select.with_retracted();
    }
    let page = sessions.lines(&session, &select).await?;
    let next_source = page.next.map(|next| format!("{session}#{}:{next}-{}", log.name(), select.lines.end()));
    let shown = |line: &'_ Line| (line.number, serde_json::from_str::<Box<RawValue>>(&line.text));
    let items = page.items.iter().map(shown);
    let items = items.filter_map(|(line, value)| Some(SessionLine { line, value: value.ok()? })).collect();
    raw(&LinesPage { log: log.name(), items, has_more: next_source.is_some(), next_source })
}
