//! The tools `remember` and `forget`: facts as memories.

use std::borrow::Cow;

use garth_agent::memory::{Memories, Remember, Uri};
use garth_engine::ErrorKind;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{ToolAnswer, counted};
use crate::errors::Refusal;
use crate::fields::{fields, string, string_of, strings};
use crate::routes::call::Call;

/// Limit on the similar memories of an answer.
const MAX_SIMILAR: usize = 5;

fields! {
    /// Stores a fact for later sessions, such as a preference or decision, in one complete sentence;
    /// `recall` finds it. To correct one, store the new fact, then `forget` the old URI. Returns its URI and
    /// similar memories.
    pub(crate) struct RememberFields<'a> {
        /// Text.
        text: Cow<'a, str> = string();
        /// Tags.
        tags: Vec<String> = strings(), or Vec::new();
    }
}

/// Runs the tool `remember`.
pub(super) async fn remember(
    memories: &Memories<'_>,
    _: &Call<'_>,
    fields: RememberFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    if fields.text.trim().is_empty() {
        return Err(Refusal::validation("\"text\" is empty; write the fact as a sentence"));
    }
    let done = memories.remember(&Remember::new(fields.text).tags(fields.tags)).await?;
    let near = done.near.iter().flatten().take(MAX_SIMILAR);
    let similar: Vec<String> = near.map(|near| near.uri.to_string()).collect();
    let word = if done.seq.is_some() { "Remembered as" } else { "Known already as" };
    let mut text = format!("{word} {}, version {}.", done.meta.uri, done.meta.version);
    if !similar.is_empty() {
        text.push_str(&format!("\nSimilar memories:\n{}", similar.join("\n")));
    }
    let has_similar = !similar.is_empty();
    let remembered =
        Remembered { uri: &done.meta.uri, version: done.meta.version, created: done.created, similar };
    let answer = ToolAnswer::new(text, &remembered)?;
    Ok(match has_similar {
        true => answer.hint("`forget` those that say the same or the opposite.".to_owned()),
        false => answer,
    })
}

/// Structured answer of `remember`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Remembered<'a> {
    uri: &'a str,
    version: u64,
    created: bool,
    similar: Vec<String>,
}

fields! {
    /// Deletes a memory by its URI or by its exact text.
    pub(crate) struct ForgetFields<'a> {
        /// URI.
        uri: Option<Cow<'a, str>> = string_of("uri");
        /// Text.
        text: Option<Cow<'a, str>> = string();
    }
}

/// Runs the tool `forget`.
pub(super) async fn forget(
    memories: &Memories<'_>,
    _: &Call<'_>,
    fields: ForgetFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let uri = match (&fields.uri, &fields.text) {
        (Some(uri), None) => uri.parse::<Uri>()?,
        (None, Some(text)) => memories.remembered(&Remember::new(&**text)).await?,
        _ => return Err(Refusal::validation("give either \"uri\" or \"text\"")),
    };
    let left = memories.forget(&uri).await.map_err(hinted)?;
    let versions = counted(left.versions as u64, "version", "versions");
    let uri = left.uri.to_string();
    // The state before the deletion.
    let restore_at = left.seq.0.saturating_sub(1).to_string();
    let text = format!("Forgot {uri}. Its history keeps {versions}.");
    let hint = format!("To bring it back: `restore` with path = \"{uri}\" and at = \"{restore_at}\".");
    let forgotten = Forgotten { uri, versions_left: left.versions, restore_at };
    Ok(ToolAnswer::new(text, &forgotten)?.hint(hint))
}

/// Adds to a refusal how memories are found.
fn hinted(error: garth_engine::Error) -> Refusal {
    let is_missing = error.is(ErrorKind::NotFound);
    let refusal = Refusal::from(error);
    if is_missing { refusal.hinting("`recall` or `search` finds the URIs of memories") } else { refusal }
}

/// Structured answer of `forget`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Forgotten {
    uri: String,
    versions_left: usize,
    restore_at: String,
}
