//! Uploads: content that a later commit of the same tree uses.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use garth_agent::files::Files;
use garth_engine::model::{At, StagedBody};
use garth_engine::{FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::call::Call;
use super::open::files;
use super::respond;
use super::transfer::{expected, incoming};
use super::tree_calls::top;
use crate::errors::Refusal;
use crate::fields::{FieldGroup as _, fields, path_field, string_of};

fields! {
    /// Stores the request body for a later commit, which names it by its id and size.
    pub(super) struct UploadFields<'a> {
        /// Path for which the content is meant. Default: `/`, or the prefix of the key.
        path: Option<Cow<'a, str>> = string_of("path");
    }
}

pub(super) async fn upload(call: &Call<'_>, body: &mut Body) -> Result<Response, Refusal> {
    let path = place(call, UploadFields::read(&call.fields)?.path)?;
    let fs = files(call, true).await?;
    let files = Files::new(&*fs).once(call.once.clone()).expecting(expected(call, body));
    let content = incoming(call, body).await?;
    let uploaded = files.upload(&path, call.env, content).await?;
    let answer = UploadAnswer { expires_at: uploaded.expires_at.to_rfc3339(), staged: uploaded.staged };
    Ok(respond::json(Bytes::from(json!(answer).to_string())))
}

/// Upload.
#[derive(Serialize, JsonSchema)]
pub(super) struct UploadAnswer {
    /// Time after which the content may be discarded, unless a commit has used it.
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    /// Content, as operations name it.
    staged: StagedBody,
}

fields! {
    /// Discards an upload that no commit will use, and frees its room. Does nothing if there is no such
    /// upload.
    pub(super) struct DiscardFields<'a> {
        /// Id of the upload, 32 hexadecimal digits.
        id: Cow<'a, str> = string_of("id");
        /// Path for which the content was meant. Default: `/`, or the prefix of the key.
        path: Option<Cow<'a, str>> = string_of("path");
    }
}

/// Discards an upload. No reader has seen it, and a repeat does nothing, so the call needs no record.
pub(super) async fn discard(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: DiscardFields<'_>,
) -> Result<Value, Refusal> {
    let (id, at) = (id(&fields.id)?, At::Path(place(call, fields.path)?));
    fs.discard(&at, &StagedBody { id, size: 0 }).await?;
    Ok(json!(DiscardAnswer { ok: true }))
}

/// Answer to the discarding of an upload.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UploadDiscarded")]
pub(super) struct DiscardAnswer {
    /// `true`.
    ok: bool,
}

/// Returns the path of an upload.
fn place(call: &Call<'_>, path: Option<Cow<'_, str>>) -> Result<TreePath, Refusal> {
    match path {
        Some(path) => path_field("path", &path),
        None => Ok(top(call).cloned().unwrap_or_else(TreePath::root)),
    }
}

fn id(text: &str) -> Result<u128, Refusal> {
    // One spelling only, that of the answer to the upload.
    let id = u128::from_str_radix(text, 16).ok().filter(|id| format!("{id:032x}") == text);
    id.ok_or_else(|| Refusal::validation("\"id\" must be that of an upload, 32 hexadecimal digits"))
}
