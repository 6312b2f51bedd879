//! System prompts: the current one, an earlier one, and the difference between two.

use std::borrow::Cow;

use garth_agent::session::Format;
use garth_agent::workspace::{Inputs, Prompt, PromptOptions, Workspace};
use garth_engine::model::Moment;
use serde_json::Value;

use super::answers::{PromptAnswer, PromptDifference};
use crate::errors::Refusal;
use crate::fields::{Kind, fields, flag, moment, object, words};
use crate::routes::call::Call;
use crate::routes::respond::Json;

/// Forms of a prompt.
const FORMS: Kind = words(&["text", "markdown", "openai", "anthropic"]);

fields! {
    /// Returns the system prompt of an agent. For a session, appends an event.
    pub(crate) struct BuildFields<'a> {
        /// Time of the prompt: time, sequence or name of a snapshot. Default: now.
        at: Option<Cow<'a, str>> = moment();
        /// Parts that the caller knows: `hosts`, `runtime`, `clock`. Default: those of the last prompt.
        inputs: Option<Inputs> = object("inputs");
        /// Form of the answer.
        form: Cow<'a, str> = FORMS, or Cow::Borrowed("text");
        /// `true` stores nothing.
        dry: bool = flag(), or false;
    }
}

pub(in crate::routes) async fn build(
    workspace: &Workspace<'_>,
    call: &Call<'_>,
    fields: BuildFields<'_>,
) -> Result<Value, Refusal> {
    let mut options = options(workspace, call, fields.inputs)?;
    options.at = call.moment_of(fields.at.as_deref()).await?;
    options.dry = fields.dry;
    let prompt = workspace.prompt(&options).await?;
    // The other forms are lists of messages.
    let content = match (&*fields.form, fields.form.parse::<Format>()) {
        (_, Ok(format)) => serde_json::from_str(&prompt.list(format)).unwrap_or(Value::Null),
        ("markdown", _) => prompt.report().into(),
        _ => prompt.text.clone().into(),
    };
    Ok(Json::of(&PromptAnswer { ok: true, prompt: prompt.description(), content })?.into_value())
}

fields! {
    /// Returns the difference between two system prompts of an agent.
    pub(crate) struct CompareFields<'a> {
        /// Time of the first prompt: time, sequence or name of a snapshot.
        from: Cow<'a, str> = moment();
        /// Time of the second prompt. Default: now.
        to: Option<Cow<'a, str>> = moment();
        /// Parts that the caller knows: `hosts`, `runtime`, `clock`. Default: those of the last prompt.
        inputs: Option<Inputs> = object("inputs");
    }
}

pub(in crate::routes) async fn compare(
    workspace: &Workspace<'_>,
    call: &Call<'_>,
    fields: CompareFields<'_>,
) -> Result<Json<PromptDifference>, Refusal> {
    let from = call.moment(&fields.from).await?;
    let to = call.moment_of(fields.to.as_deref()).await?;
    let options = options(workspace, call, fields.inputs)?;
    let of = async |at: Option<Moment>| -> Result<Prompt, Refusal> {
        // This call is a read, so it stores no prompt.
        let mut options = options.clone().dry();
        options.at = at;
        Ok(workspace.prompt(&options).await?)
    };
    let (before, after) = (of(Some(from)).await?, of(to).await?);
    Json::of(&PromptDifference::of(after.since(&before)))
}

/// Returns the options of a prompt, common to both calls.
fn options(
    workspace: &Workspace<'_>,
    call: &Call<'_>,
    inputs: Option<Inputs>,
) -> Result<PromptOptions, Refusal> {
    // garth itself supplies both, by the identity of the caller.
    if inputs.as_ref().is_some_and(|inputs| !inputs.others.is_empty()) {
        return Err(Refusal::validation(
            "\"inputs\" must not contain \"others\": garth adds the memories of other agents",
        ));
    }
    if inputs.as_ref().is_some_and(|inputs| inputs.paths.is_some()) {
        let message = "\"inputs\" must not contain \"paths\": a prompt has the paths of the caller's tree";
        return Err(Refusal::validation(message));
    }
    let mut options = PromptOptions::default();
    if let Some(session) = &call.caller.session {
        options = options.session(workspace.audience(), &**session);
    }
    options.inputs = inputs;
    Ok(options)
}
