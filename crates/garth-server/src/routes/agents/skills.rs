//! Skills over HTTP.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use garth::agent::workspace::{Host, Origin, Workspace};
use garth::datadir::Scope;
use serde_json::{Value, json};

use crate::errors::Refusal;
use crate::fields::Fields;
use crate::routes::call::Call;

pub(in crate::routes) async fn list(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    Ok(json!(workspace.skills(&hosts(&call.fields)?).await?))
}

pub(in crate::routes) async fn get(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let name = call.fields.required_text("name")?;
    let (text, origin, path, why) = workspace.skill(&name, &hosts(&call.fields)?).await?;
    let why = why.map(|(reason, detail)| json!({"reason": reason, "detail": detail}));
    Ok(json!({
        "skill": text, "directory": name, "origin": origin, "path": path.as_str(), "applies": why.is_none(),
        "why": why, "body": text.body,
    }))
}

pub(in crate::routes) async fn read(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let file = workspace.read_skill(&call.fields.required_text("path")?).await?;
    let mut answer = json!({
        "origin": file.origin, "path": file.path.as_str(), "version_id": file.etag.to_string(),
        "size": file.bytes.len(),
    });
    match std::str::from_utf8(&file.bytes) {
        Ok(text) => answer["text"] = json!(text),
        Err(_) => answer["base64"] = json!(STANDARD.encode(&file.bytes)),
    }
    Ok(answer)
}

pub(in crate::routes) async fn write(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let text = call.fields.required_text("text")?.into_owned();
    let (path, seq) = workspace.write_skill(&call.fields.required_text("path")?, text).await?;
    Ok(json!({"ok": true, "path": path.as_str(), "seq": seq.0}))
}

pub(in crate::routes) async fn edit(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let (old, new) = (call.fields.required_text("old")?, call.fields.required_text("new")?);
    let (path, seq) = workspace.edit_skill(&call.fields.required_text("path")?, &old, &new).await?;
    Ok(json!({"ok": true, "path": path.as_str(), "seq": seq.0}))
}

pub(in crate::routes) async fn install(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let origin = match call.fields.flag("global")?.unwrap_or(false) {
        true if !call.key.allows(Scope::Admin) => return Err(Refusal::forbidden(Scope::Admin.as_str())),
        true => Origin::Global,
        false => Origin::Agent,
    };
    let files = call.fields.parsed::<BTreeMap<String, String>>("files")?;
    let files = Fields::required("files", files)?;
    let files: Vec<(String, Bytes)> =
        files.into_iter().map(|(name, text)| (name, Bytes::from(text))).collect();
    let done = workspace.install_skill(&call.fields.required_text("name")?, origin, &files).await?;
    Ok(json!({
        "ok": true, "path": done.path.as_str(), "written": done.written, "same": done.same, "flaws": done.flaws,
        "seq": done.seq.map(|seq| seq.0),
    }))
}

pub(in crate::routes) async fn publish(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let name = call.fields.required_text("name")?;
    let done = workspace.publish_skill(&call.key.account, &name).await?;
    let mut answer = done.to_json();
    answer.insert("ok".to_owned(), json!(true));
    Ok(Value::Object(answer))
}

fn hosts(fields: &Fields<'_>) -> Result<Vec<Host>, Refusal> {
    Ok(fields.parsed::<Vec<Host>>("hosts")?.unwrap_or_default())
}
