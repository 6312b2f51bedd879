//! Prompts of the protocol. There is one: the system prompt that garth builds from the workspace of the
//! agent.

use std::sync::Arc;

use garth_agent::workspace::PromptOptions;
use garth_engine::ErrorKind;
use garth_engine::home::Scope;
use rmcp::model::{GetPromptRequestParams, GetPromptResult, Prompt, PromptMessage, Role};

use crate::errors::{Code, Refusal};
use crate::routes::client::{Client, ClientCall};
use crate::routes::open;
use crate::routes::tree::Tree;

/// Name of the prompt.
const NAME: &str = "workspace";
/// Scopes that the key of the client must have.
const SCOPES: &[Scope] = &[Scope::MemoryRead];
/// Meaning of the prompt, for people who choose it.
const MEANING: &str = "System prompt of the agent, built from its workspace: who it is, what it remembers, \
    and the skills that it has.";

/// Returns the description of the prompt.
pub(super) fn workspace() -> Prompt {
    Prompt::new(NAME, Some(MEANING), None).with_title("Workspace")
}

/// Returns true if the key of the client permits the prompt.
pub(super) fn is_for(client: &Client) -> bool {
    client.allows(SCOPES) && client.reaches(Tree::Workspace)
}

/// Checks that a request names the prompt, which has no arguments.
pub(super) fn check(request: &GetPromptRequestParams) -> Result<(), Refusal> {
    if request.name != NAME {
        let shown: String = request.name.chars().take(100).collect();
        return Err(Refusal::new(
            Code::Validation,
            format!("{shown:?} is not a prompt; the prompt is {NAME}"),
        ));
    }
    match request.arguments.as_ref().is_none_or(|arguments| arguments.is_empty()) {
        true => Ok(()),
        false => Err(Refusal::validation("the prompt has no arguments")),
    }
}

/// Builds the prompt. Stores nothing.
pub(super) async fn get(client: &Arc<Client>) -> Result<GetPromptResult, Refusal> {
    let asked = ClientCall::read(NAME, Tree::Workspace, SCOPES);
    let text = client.answer(asked, |call| {
        Box::pin(async move {
            let opened = open::reach(call, Tree::Workspace).await?;
            let workspace = opened.workspace()?;
            let plain = PromptOptions::default().dry();
            let session = call.reach.request().and_then(|request| request.session.as_deref());
            let Some(session) = session else { return Ok(workspace.prompt(&plain).await?.text) };
            let of_session = plain.clone().session(workspace.audience(), session);
            match workspace.prompt(&of_session).await {
                // The first append creates the session.
                Err(error) if error.is(ErrorKind::NotFound) => Ok(workspace.prompt(&plain).await?.text),
                prompt => Ok(prompt?.text),
            }
        })
    });
    let message = PromptMessage::new_text(Role::User, text.await?);
    Ok(GetPromptResult::new(vec![message]).with_description(MEANING))
}
