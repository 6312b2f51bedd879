//! Calls that store a fact, or delete one, in one step.

use std::borrow::Cow;

use garth_agent::memory::{Memories, Remember, Space};
use serde_json::{Value, json};

use super::call::Call;
use super::memories::written;
use crate::errors::Refusal;
use crate::fields::{fields, string, string_of, strings, words};

/// Owners of a fact.
const OWNERS: &[&str] = &["user", "agent"];

fields! {
    /// Stores a fact as a memory of the category `notes`. A fact that is stored already is not stored again.
    pub(super) struct RememberFields<'a> {
        /// Text of the fact.
        text: Cow<'a, str> = string();
        /// Owner of the memory: the user, or the agent, which shares it with all of its users.
        owner: Cow<'a, str> = words(OWNERS), or Cow::Borrowed("user");
        /// Tags to add.
        tags: Vec<String> = strings(), or Vec::new();
    }
}

pub(super) async fn remember(
    memories: &Memories<'_>,
    call: &Call<'_>,
    fields: RememberFields<'_>,
) -> Result<Value, Refusal> {
    let fact = fact(call, &fields.text, &fields.owner).tags(fields.tags);
    let done = memories.remember(&fact).await?;
    let mut answer = written(call, &done);
    // Also for a key that may not read, which gets no `meta`.
    answer["uri"] = json!(done.meta.uri);
    Ok(answer)
}

fields! {
    /// Deletes a memory by its URI, or by the text that `remember` stored. Returns the data about it that
    /// remains.
    pub(super) struct ForgetFields<'a> {
        /// Memory. Required without `text`.
        uri: Option<Cow<'a, str>> = string_of("uri");
        /// Text of the fact. Required without `uri`.
        text: Option<Cow<'a, str>> = string();
        /// Owner of the memory that has the text.
        owner: Cow<'a, str> = words(OWNERS), or Cow::Borrowed("user");
    }
}

pub(super) async fn forget(
    memories: &Memories<'_>,
    call: &Call<'_>,
    fields: ForgetFields<'_>,
) -> Result<Value, Refusal> {
    let uri = match (&fields.uri, &fields.text) {
        (Some(uri), None) => uri.parse()?,
        (None, Some(text)) => {
            // A repeat would look for a memory that the first try has deleted.
            match memories.forgotten()? {
                Some(left) => left.uri,
                None => memories.remembered(&fact(call, text, &fields.owner)).await?,
            }
        }
        _ => return Err(Refusal::validation("name the memory by `uri` or by `text`")),
    };
    let left = memories.forget(&uri).await?;
    let mut answer = left.to_json();
    answer["ok"] = json!(true);
    answer["left"] = call.stored(answer["left"].take());
    Ok(answer)
}

fn fact(call: &Call<'_>, text: &str, owner: &str) -> Remember {
    let fact = Remember::new(text);
    match owner {
        "agent" => fact.space(Space::Agent(call.caller.agent.to_string())),
        _ => fact,
    }
}
