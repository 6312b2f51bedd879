//! The routes of an agent's workspace: its prompt, daily memory, and what puts its sessions away. The agent
//! is in the path.

mod archives;
mod media;
mod memory;
mod prompt;
mod skills;

use bytes::Bytes;
use garth::agent::workspace::Workspace;
use garth::datadir::Scope;
use garth::model::{Author, Moment, Timestamp};
use serde_json::Value;

use super::Caller;
use crate::errors::Refusal;
use crate::fields::Fields;

/// A route of a workspace.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Prompt,
    ComparePrompts,
    Remember,
    Memory,
    MemoryDays,
    Reset,
    Archives,
    Transcript,
    ListMedia,
    DeleteMedia,
    ListSkills,
    Skill,
    ReadSkill,
    WriteSkill,
    EditSkill,
    InstallSkill,
    PublishSkill,
}

impl Call {
    pub(super) const ALL: [Self; 17] = [
        Self::Prompt,
        Self::ComparePrompts,
        Self::Remember,
        Self::Memory,
        Self::MemoryDays,
        Self::Reset,
        Self::Archives,
        Self::Transcript,
        Self::ListMedia,
        Self::DeleteMedia,
        Self::ListSkills,
        Self::Skill,
        Self::ReadSkill,
        Self::WriteSkill,
        Self::EditSkill,
        Self::InstallSkill,
        Self::PublishSkill,
    ];

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Prompt => "/v1/agents/{agent}/prompt",
            Self::ComparePrompts => "/v1/agents/{agent}/prompt/compare",
            Self::Remember => "/v1/agents/{agent}/memory/add",
            Self::Memory => "/v1/agents/{agent}/memory/get",
            Self::MemoryDays => "/v1/agents/{agent}/memory/days",
            Self::Reset => "/v1/agents/{agent}/reset",
            Self::Archives => "/v1/agents/{agent}/archives",
            Self::Transcript => "/v1/agents/{agent}/transcript",
            Self::ListMedia => "/v1/agents/{agent}/media/list",
            Self::DeleteMedia => "/v1/agents/{agent}/media/delete",
            Self::ListSkills => "/v1/agents/{agent}/skills/list",
            Self::Skill => "/v1/agents/{agent}/skills/get",
            Self::ReadSkill => "/v1/agents/{agent}/skills/read",
            Self::WriteSkill => "/v1/agents/{agent}/skills/write",
            Self::EditSkill => "/v1/agents/{agent}/skills/edit",
            Self::InstallSkill => "/v1/agents/{agent}/skills/install",
            Self::PublishSkill => "/v1/agents/{agent}/skills/publish",
        }
    }

    /// The scope it takes.
    pub(super) const fn scope(self) -> Scope {
        match self {
            Self::ComparePrompts
            | Self::Memory
            | Self::MemoryDays
            | Self::Archives
            | Self::Transcript
            | Self::ListMedia
            | Self::ListSkills
            | Self::Skill
            | Self::ReadSkill => Scope::MemoryRead,
            // a prompt leaves an event with its session
            Self::Prompt
            | Self::Remember
            | Self::Reset
            | Self::DeleteMedia
            | Self::WriteSkill
            | Self::EditSkill
            | Self::InstallSkill
            | Self::PublishSkill => Scope::MemoryWrite,
        }
    }

    /// Whether its answers may be long.
    pub(super) const fn is_long(self) -> bool {
        !matches!(self, Self::Remember | Self::Reset | Self::DeleteMedia)
    }
}

/// Answers a call.
pub(super) async fn answer(
    caller: &Caller<'_>,
    call: Call,
    agent: &str,
    body: &Bytes,
) -> Result<Bytes, Refusal> {
    let fields = Fields::parse(body)?;
    let workspace = workspace(caller, agent, &fields)?;
    let answer = match call {
        Call::Prompt => prompt::build(&workspace, &fields, caller.env.now()).await?,
        Call::ComparePrompts => prompt::compare(&workspace, &fields, caller.env.now()).await?,
        Call::Remember => memory::add(&workspace, &fields).await?,
        Call::Memory => memory::get(&workspace, &fields, caller.env.now()).await?,
        Call::MemoryDays => memory::days(&workspace, &fields).await?,
        Call::Reset => archives::reset(&workspace, &fields, caller).await?,
        Call::Archives => archives::list(&workspace, &fields).await?,
        Call::Transcript => return archives::transcript(&workspace, &fields).await,
        Call::ListMedia => media::list(caller, agent, &fields).await?,
        Call::DeleteMedia => media::delete(caller, agent, &fields).await?,
        Call::ListSkills => skills::list(&workspace, &fields).await?,
        Call::Skill => skills::get(&workspace, &fields).await?,
        Call::ReadSkill => skills::read(&workspace, &fields).await?,
        Call::WriteSkill => skills::write(&workspace, &fields).await?,
        Call::EditSkill => skills::edit(&workspace, &fields).await?,
        Call::InstallSkill => skills::install(&workspace, &fields, caller).await?,
        Call::PublishSkill => skills::publish(&workspace, &fields, caller).await?,
    };
    Ok(Bytes::from(answer.to_string()))
}

/// The workspace of an agent, in the name of the class and user that a body names.
pub(super) fn workspace<'a>(
    caller: &'a Caller<'_>,
    agent: &str,
    fields: &Fields<'_>,
) -> Result<Workspace<'a>, Refusal> {
    let mut author = Author::agent(agent).with_key(&caller.key.id);
    if let Some(user) = fields.text("user")? {
        author = author.with_user(&*user);
    }
    if let Some(class) = fields.text("class")? {
        author = author.with_class(&*class);
    }
    let workspace = Workspace::new(&**caller.account, agent, caller.env.clone())?;
    Ok(workspace.author(author).cache(caller.prompts, &caller.key.account))
}

/// The user whose session it is.
fn user(fields: &Fields<'_>) -> Result<String, Refusal> {
    Ok(fields.required_text("user")?.into_owned())
}

/// A moment, in any form that tells one.
fn moment(fields: &Fields<'_>, name: &str, now: Timestamp) -> Result<Option<Moment>, Refusal> {
    let Some(text) = fields.text(name)? else { return Ok(None) };
    let moment = Moment::parse(&text, now)?;
    Ok(Some(moment.unwrap_or_else(|| Moment::Snapshot(text.into_owned()))))
}

/// A value that is read by its type.
fn typed<T: serde::de::DeserializeOwned + Default>(
    fields: &Fields<'_>,
    name: &str,
) -> Result<Option<T>, Refusal> {
    let Some(raw) = fields.raw(name)?.filter(|raw| raw.get() != "null") else { return Ok(None) };
    let read = serde_json::from_str(raw.get());
    read.map(Some).map_err(|error| Refusal::validation(format!("\"{name}\": {error}")))
}

fn optional(value: Option<impl Into<Value>>) -> Value {
    value.map_or(Value::Null, Into::into)
}
