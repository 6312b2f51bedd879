//! Calls that store a fact, or delete one, in one step.

use std::borrow::Cow;

use garth_agent::memory::{Forgotten, Memories, Provenance, Remember, Space};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::call::Call;
use super::memories::WrittenAnswer;
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
    Ok(json!(WrittenAnswer::of(call, &done).with_uri(&done)))
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
    let remains = call.may_read().then(|| Remains::of(&left));
    Ok(json!(ForgetAnswer { ok: true, uri: left.uri.to_string(), seq: left.seq.0, left: remains }))
}

/// Answer of `forget`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryForgotten")]
pub(super) struct ForgetAnswer<'a> {
    /// `true`.
    ok: bool,
    /// URI of the memory that was deleted.
    uri: String,
    /// Commit.
    seq: u64,
    /// Data that remains; `null` without the scope `memory:read`.
    left: Option<Remains<'a>>,
}

/// Data that remains of a deleted memory.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryRemains")]
struct Remains<'a> {
    /// Number of versions that can still be read.
    versions: usize,
    /// True if there are more versions.
    more: bool,
    /// Messages from which the memory was derived; `null` if it was not derived.
    provenance: Option<&'a Provenance>,
}

impl<'a> Remains<'a> {
    fn of(left: &'a Forgotten) -> Self {
        Self { versions: left.versions, more: left.more, provenance: left.provenance.as_ref() }
    }
}

fn fact(call: &Call<'_>, text: &str, owner: &str) -> Remember {
    let fact = Remember::new(text);
    match owner {
        "agent" => fact.space(Space::Agent(call.caller.agent.to_string())),
        _ => fact,
    }
}
