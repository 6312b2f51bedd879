//! One call of the API, as its handler sees it: who makes it, on which tree, and with which fields.

use std::sync::Arc;

use axum::http::request::Parts;
use bytes::Bytes;
use futures::future::BoxFuture;
use garth::agent::media::Hydrator;
use garth::agent::workspace::PromptCache;
use garth::datadir::ApiKey;
use garth::model::Moment;
use garth::{AccountStore, Env};

use crate::chat_model::ServedModel;
use crate::compaction::Compactions;
use crate::errors::Refusal;
use crate::fields::Fields;

/// Answer of a handler: the body, in JSON.
pub(super) type Answering<'a> = BoxFuture<'a, Result<Bytes, Refusal>>;

pub(super) struct Call<'a> {
    /// Path of the route.
    pub(super) path: &'static str,
    /// True if the route writes.
    pub(super) writes: bool,
    /// The `{agent}` of the path; empty on a route without one.
    pub(super) agent: &'a str,
    pub(super) head: &'a Parts,
    pub(super) body: &'a Bytes,
    /// Fields of the body.
    pub(super) fields: Fields<'a>,
    pub(super) account: &'a Arc<dyn AccountStore>,
    pub(super) key: &'a ApiKey,
    pub(super) env: &'a Env,
    /// The language model, if the operator has set one.
    pub(super) model: Option<&'a ServedModel>,
    pub(super) compactions: &'a Compactions,
    /// Cache of media that messages refer to.
    pub(super) hydrator: &'a Hydrator,
    /// Cache of texts that recent prompts contain.
    pub(super) prompts: &'a PromptCache,
}

impl Call<'_> {
    /// Returns the moment that a field names. A text that is no time or sequence is the name of a snapshot.
    pub(super) fn moment(&self, name: &str) -> Result<Option<Moment>, Refusal> {
        let Some(text) = self.fields.text(name)? else { return Ok(None) };
        let moment = Moment::parse(&text, self.env.now())?;
        Ok(Some(moment.unwrap_or_else(|| Moment::Snapshot(text.into_owned()))))
    }
}
