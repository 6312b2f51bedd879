//! System prompts: one of now or of an earlier time, and the difference between two.

use garth::agent::session::Format;
use garth::agent::workspace::{Changed, Inputs, Prompt, PromptOptions, Workspace};
use garth::model::Moment;
use serde_json::{Value, json};

use crate::errors::Refusal;
use crate::fields::Fields;
use crate::routes::call::Call;

pub(in crate::routes) async fn build(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let mut options = options(&call.fields)?;
    options.at = call.moment("at")?;
    options.dry = call.fields.flag("dry")?.unwrap_or(false);
    let form = call.fields.text("form")?;
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

pub(in crate::routes) async fn compare(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let from = call.moment("from")?;
    let from = Fields::required("from", from)?;
    let to = call.moment("to")?;
    let options = options(&call.fields)?;
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

/// Reads the options that both calls take.
fn options(fields: &Fields<'_>) -> Result<PromptOptions, Refusal> {
    let mut options = PromptOptions::default();
    if let Some(session) = fields.text("session")? {
        options = options.session(fields.required_text("user")?, session.into_owned());
    }
    options.inputs = fields.parsed::<Inputs>("inputs")?;
    Ok(options)
}
