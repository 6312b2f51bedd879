//! Creation of an agent. It decides who owns the agent, so it is a call on the administration of the account.

use std::borrow::Cow;
use std::sync::Arc;

use garth_agent::workspace::{Init, Initialized, Workspace, Zone, new_agent_id};
use garth_engine::model::Author;
use garth_engine::{AccountStore, TreePath};

use super::answers::AgentCreated;
use crate::errors::Refusal;
use crate::fields::{fields, flag, string, string_of};
use crate::routes::call::Call;
use crate::routes::respond::Json;

fields! {
    /// Creates an agent: the files of its workspace, with texts to start from, in one commit. Existing files
    /// stay as they are.
    pub(crate) struct CreateFields<'a> {
        /// User who owns the agent, and whose sessions see its own memory; `*` for every user. Default: the
        /// unnamed user.
        owner: Option<Cow<'a, str>> = string_of("id");
        /// Time zone of its days, an IANA name.
        time_zone: Cow<'a, str> = string(), or Cow::Borrowed("UTC");
        /// `false` leaves out `BOOTSTRAP.md`, by which a new agent asks who it is and whom it serves.
        bootstrap: bool = flag(), or true;
    }
}

pub(in crate::routes) async fn create(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: CreateFields<'_>,
) -> Result<Json<AgentCreated>, Refusal> {
    initialize(account, call, call.argument("agent"), fields).await
}

fields! {
    /// Creates an agent with the id that the call names, or with a new one: its workspace, in one
    /// commit.
    pub(crate) struct CreateNamedFields<'a> {
        /// Id of the agent: 1 to 128 bytes without `/` and control characters, not `.` or `..`. Default: a
        /// new UUID.
        agent_id: Option<Cow<'a, str>> = string_of("id");
        ..workspace: CreateFields<'a>;
    }
}

pub(in crate::routes) async fn create_named(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    fields: CreateNamedFields<'_>,
) -> Result<Json<AgentCreated>, Refusal> {
    let agent = match fields.agent_id {
        Some(agent) => agent,
        None => Cow::Owned(new_agent_id(call.env)?),
    };
    initialize(account, call, &agent, fields.workspace).await
}

async fn initialize(
    account: &Arc<dyn AccountStore>,
    call: &Call<'_>,
    agent: &str,
    fields: CreateFields<'_>,
) -> Result<Json<AgentCreated>, Refusal> {
    let mut options = Init::default().time_zone(Zone::named(&fields.time_zone)?);
    if let Some(owner) = fields.owner {
        options = options.owner(owner);
    }
    if !fields.bootstrap {
        options = options.without_bootstrap();
    }
    let workspace = Workspace::new(&**account, agent)?.env(call.env.clone()).once(call.once.clone());
    let created = workspace.author(Author::key(&*call.key.id)).init(&options).await;
    let created = created.map_err(|error| Refusal::from(error).naming_path())?;
    // The id that this request drew is not used if the request repeats an earlier one.
    let agent = agent_of(&created).unwrap_or(agent);
    let paths = |paths: &[TreePath]| paths.iter().map(TreePath::to_string).collect();
    Json::of(&AgentCreated {
        ok: true,
        agent: agent.to_owned(),
        made: paths(&created.made),
        kept: paths(&created.kept),
        seq: created.seq.map(|seq| seq.0),
    })
}

/// Returns the agent whose workspace was created, `/agents/{agent}`.
fn agent_of(created: &Initialized) -> Option<&str> {
    created.made.iter().chain(&created.kept).next()?.segments().nth(1)
}
