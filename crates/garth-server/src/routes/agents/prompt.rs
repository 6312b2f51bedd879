//! Prompts over HTTP: one now or then, and what differs between two.

use garth::agent::session::Format;
use garth::agent::workspace::{Changed, Inputs, Prompt, PromptOptions, Workspace};
use garth::model::{Moment, Timestamp};
use serde_json::{Value, json};

use super::{moment, typed, user};
use crate::errors::Refusal;
use crate::fields::Fields;

pub(super) async fn build(
    workspace: &Workspace<'_>,
    fields: &Fields<'_>,
    now: Timestamp,
) -> Result<Value, Refusal> {
    let mut options = options(fields)?;
    options.at = moment(fields, "at", now)?;
    options.dry = fields.flag("dry")?.unwrap_or(false);
    let form = fields.text("form")?;
    let form = form.as_deref().unwrap_or("text");
    let format = match form {
        "text" | "markdown" => None,
        other => Some(other.parse::<Format>().map_err(|_| {
            let forms = "\"text\", \"markdown\", \"openai\", \"anthropic\"";
            Refusal::validation(format!("\"form\" must be one of {forms}"))
        })?),
    };
    let prompt = workspace.prompt(&options).await?;
    let content = match format {
        Some(format) => serde_json::from_str(&prompt.list(format)).unwrap_or(Value::Null),
        None if form == "markdown" => json!(prompt.report()),
        None => json!(prompt.text),
    };
    Ok(json!({"ok": true, "prompt": prompt.manifest(), "content": content}))
}

pub(super) async fn compare(
    workspace: &Workspace<'_>,
    fields: &Fields<'_>,
    now: Timestamp,
) -> Result<Value, Refusal> {
    let from = moment(fields, "from", now)?;
    let from = Fields::required("from", from)?;
    let to = moment(fields, "to", now)?;
    let options = options(fields)?;
    let of = async |at: Option<Moment>| -> Result<Prompt, Refusal> {
        let mut options = options.clone().dry();
        options.at = at;
        Ok(workspace.prompt(&options).await?)
    };
    let (before, after) = (of(Some(from)).await?, of(to).await?);
    let difference = after.since(&before);
    let changed = |changed: &[Changed]| -> Vec<Value> {
        let item = |changed: &Changed| {
            let [from, to] = &changed.texts;
            json!({"name": changed.to.name, "from": changed.from, "to": changed.to, "texts": [from, to]})
        };
        changed.iter().map(item).collect()
    };
    Ok(json!({
        "appeared": changed(&difference.appeared), "went": changed(&difference.went),
        "changed": changed(&difference.changed), "tokens": difference.tokens, "bytes": difference.bytes,
        "common_bytes": difference.common_bytes,
    }))
}

/// What both take.
fn options(fields: &Fields<'_>) -> Result<PromptOptions, Refusal> {
    let mut options = PromptOptions::default();
    if let Some(session) = fields.text("session")? {
        options = options.session(user(fields)?, session.into_owned());
    }
    options.inputs = typed::<Inputs>(fields, "inputs")?;
    Ok(options)
}
