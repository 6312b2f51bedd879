//! The workspace that a call names: that of an agent, for the class and user of the call.

use garth::agent::workspace::Workspace;
use garth::model::Author;

use super::call::Call;
use crate::errors::Refusal;

/// Opens the workspace of an agent.
pub(super) fn open<'a>(call: &Call<'a>, agent: &str) -> Result<Workspace<'a>, Refusal> {
    let mut author = Author::agent(agent).with_key(&call.key.id);
    if let Some(user) = call.fields.text("user")? {
        author = author.with_user(&*user);
    }
    if let Some(class) = call.fields.text("class")? {
        author = author.with_class(&*class);
    }
    let workspace = Workspace::new(&**call.account, agent, call.env.clone())?;
    Ok(workspace.author(author).cache(call.prompts, &call.key.account))
}
