//! Uploads: content that a later commit of the same tree uses.

use std::borrow::Cow;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use garth_agent::files::Files;
use serde_json::json;

use super::call::Call;
use super::open::files;
use super::respond;
use super::transfer::{expected, incoming};
use crate::errors::Refusal;
use crate::fields::{FieldGroup as _, fields, string_of, tree_path};

fields! {
    /// Stores the request body for a later commit, which names it by its id and size.
    pub(super) struct UploadFields<'a> {
        /// Path for which the content is meant.
        path: Cow<'a, str> = string_of("path"), or Cow::Borrowed("/");
    }
}

pub(super) async fn upload(call: &Call<'_>, body: &mut Body) -> Result<Response, Refusal> {
    let path = tree_path(&UploadFields::read(&call.fields)?.path)?;
    let fs = files(call, true).await?;
    let files = Files::new(&*fs).once(call.once.clone()).expecting(expected(call, body));
    let content = incoming(call, body).await?;
    let uploaded = files.upload(&path, call.env, content).await?;
    let answer = json!({"staged": uploaded.staged, "expires_at": uploaded.expires_at.to_rfc3339()});
    Ok(respond::json(Bytes::from(answer.to_string())))
}
