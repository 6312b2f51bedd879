//! One call of the API as its handler sees it: its caller, its tree, and the state that belongs to it. The
//! handler gets the fields of the call as a type of its own.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use garth_agent::Once;
use garth_agent::access::Reach;
use garth_agent::media::Hydrator;
use garth_agent::models::VectorCache;
use garth_agent::workspace::PromptCache;
use garth_engine::home::ApiKey;
use garth_engine::model::{Idempotency, KeySpace, Moment};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt as _};

use super::identity::Caller;
use super::retry::Retry;
use super::served::Served;
use super::tree::Tree;
use super::twins::{Turn, Twins};
use crate::answers::Rooms;
use crate::auth::Standing;
use crate::chat_model::ServedModel;
use crate::compaction::Compactions;
use crate::consumers::Consumers;
use crate::embedder::ServedEmbedder;
use crate::errors::Refusal;
use crate::fields::Fields;
use crate::limits::Limits;
use crate::maintenance::Maintenance;
use crate::seal::SealingKey;
use crate::stopping::Stopping;

/// Forms of a time or state, for the refusal of a text that is none of them.
const MOMENTS: &str = "give a sequence (42), a snapshot, a version (ver_7-3), a date or RFC 3339 time (2026-01-27, \
    2026-01-27T09:30Z), now, today, yesterday, `last week`, or an age (90s, 15m, 1h, 7d, 2w, 3d12h)";

/// Answer of a handler: the body, in JSON.
pub(super) type Answering<'a> = BoxFuture<'a, Result<Bytes, Refusal>>;

/// Call of the API. It is not `Clone`: the handler of a write takes it by value, so that it cannot run twice.
pub(crate) struct Call<'a> {
    pub(super) tree: Tree,
    /// Fields of the body. A handler gets its own fields as a type.
    pub(crate) fields: Fields<'a>,
    /// Arguments of the path, such as `{file}`, percent-decoded.
    pub(super) arguments: &'a [(String, String)],
    /// Agent, user, chat and class that the call names, completed by those that the API key fixes.
    pub(super) caller: Caller<'a>,
    /// Idempotency key of a write, with the hash of the request.
    pub(super) retry: Option<Retry>,
    /// The write as a request that may be repeated, for the store that carries it out.
    pub(crate) once: Once,
    /// Turn of the write among those with the same key, held until it is answered.
    pub(super) turn: Option<Turn>,
    /// The only way to files: what the API key and the request reach.
    pub(crate) reach: Reach,
    /// Key space of the idempotency records, for a call that writes through a view.
    pub(super) records: Option<KeySpace>,
    pub(crate) key: &'a ApiKey,
    /// The key, to be looked up again before received content is committed.
    pub(super) standing: Standing<'a>,
    pub(crate) env: &'a Env,
    /// Language model, if the operator has set one.
    pub(super) model: Option<&'a ServedModel>,
    /// Embedding service, if the operator has set one.
    pub(crate) embedder: Option<&'a ServedEmbedder>,
    /// Cache of vectors of texts.
    pub(crate) vectors: &'a VectorCache,
    /// Room for answers, for a call that takes it by itself.
    pub(crate) answers: &'a Arc<Rooms>,
    /// Room for files that are sent and received.
    pub(super) transfers: &'a Rooms,
    /// Room for recalls that may wait for the embedding service.
    pub(crate) recalls: &'a Rooms,
    /// Clients that wait for changes.
    pub(super) consumers: &'a Consumers,
    /// Turns of calls that may wait for the language model.
    pub(super) model_calls: &'a Rooms,
    pub(super) compactions: &'a Compactions,
    pub(super) maintenance: &'a Maintenance,
    pub(super) limits: &'a Limits,
    /// Signal that the server stops, for work that takes minutes.
    pub(super) stopping: &'a Stopping,
    /// Cache of media that messages refer to.
    pub(super) hydrator: &'a Hydrator,
    /// Cache of texts that recent prompts contain.
    pub(super) prompts: &'a PromptCache,
    /// Key of cursors that the client must not read.
    pub(super) sealing_key: &'a Arc<SealingKey>,
}

impl<'a> Call<'a> {
    /// Returns a call without arguments of a path and without an idempotency key.
    pub(super) fn new(
        served: &'a Served,
        (key, standing): (&'a ApiKey, Standing<'a>),
        (tree, caller, reach): (Tree, Caller<'a>, Reach),
        fields: Fields<'a>,
    ) -> Self {
        Self {
            tree,
            caller,
            fields,
            arguments: &[],
            retry: None,
            once: Once::default(),
            turn: None,
            reach,
            records: None,
            key,
            standing,
            env: served.home.env(),
            model: served.model.as_ref(),
            embedder: served.embedder.as_ref(),
            vectors: &served.vectors,
            answers: &served.answers,
            transfers: &served.transfers,
            recalls: &served.recalls,
            consumers: &served.consumers,
            model_calls: &served.model_calls,
            compactions: &served.compactions,
            maintenance: &served.maintenance,
            limits: &served.limits,
            stopping: &served.stopping,
            hydrator: &served.hydrator,
            prompts: &served.prompts,
            sealing_key: &served.sealing_key,
        }
    }
}

impl Call<'_> {
    /// Begins a write with an idempotency key: waits for concurrent writes with the same key, and looks up
    /// whether one of them or an earlier try has committed.
    ///
    /// # Errors
    /// `IdempotencyMismatch`: the key was used with another request.
    pub(super) async fn begin(mut self, twins: &Twins) -> Result<Self, Refusal> {
        self.judge().await?;
        let Some(retry) = &mut self.retry else { return Ok(self) };
        // Before the lookup: two equal requests at once would both find no record, and both work.
        self.turn = Some(twins.wait(self.key.share(), self.reach.label(), retry.key()).await);
        let records = self.reach.records().await?;
        self.records = view_keys(&self.reach, self.tree, &*records);
        self.once = match Once::begin(records.clone(), retry.record()).await {
            // A record of an earlier version of the server has a hash of another form.
            Err(error) if error.is(ErrorKind::IdempotencyMismatch) && retry.turn_older() => {
                Once::begin(records, retry.record()).await.map_err(|_| error)?
            }
            begun => begun?,
        };
        Ok(self)
    }

    /// Adds the audience and class of the caller to the hash of a write with an idempotency key.
    async fn judge(&mut self) -> Result<(), Refusal> {
        if let Some(retry) = &mut self.retry
            && let Some(who) = self.reach.judge().await?
        {
            retry.reaching(who.audience(), &who.class().to_string());
        }
        Ok(())
    }

    /// Begins a write whose body has not been read yet. The body is hashed while it arrives.
    pub(super) async fn begin_before_body(mut self) -> Result<Self, Refusal> {
        self.judge().await?;
        if let Some(retry) = &self.retry {
            let records = self.reach.records().await?;
            self.records = view_keys(&self.reach, self.tree, &*records);
            self.once = Once::before_body(records, retry.record(), self.env, self.key.share());
        }
        Ok(self)
    }

    /// Returns the time or sequence that a field names. Any other text is the name of a snapshot and gives
    /// its sequence: for a free key one of the account, because the tree of an identity has snapshots of its
    /// own. Bound keys and calls on files see those of their own tree.
    pub(crate) async fn moment(&self, text: &str) -> Result<Moment, Refusal> {
        if let Some(moment) = Moment::parse(text, self.env.now())? {
            return Ok(moment);
        }
        // It is looked up in the account as well, whose paths are no paths of the caller.
        let found = self.reach.snapshot(text).await;
        Ok(Moment::Seq(found.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Refusal::from(error).without_path().advising(MOMENTS),
            _ => Refusal::from(error).without_path(),
        })?))
    }

    /// Returns the time or sequence that an optional field names.
    pub(crate) async fn moment_of(&self, text: Option<&str>) -> Result<Option<Moment>, Refusal> {
        match text {
            Some(text) => Ok(Some(self.moment(text).await?)),
            None => Ok(None),
        }
    }

    /// Returns the record by which a repeat of this write returns the first answer, if the request has an
    /// idempotency key.
    pub(super) fn record(&self) -> Option<Idempotency> {
        let record = self.retry.as_ref().map(Retry::record)?;
        // The key space of a view is not where `begin` looks.
        Some(match &self.records {
            Some(keys) => record.kept_in(keys.clone()),
            None => record,
        })
    }

    /// Returns an argument of the path; the empty text if the path has no such argument.
    pub(crate) fn argument(&self, name: &str) -> &str {
        let found = self.arguments.iter().find(|(argument, _)| argument == name);
        found.map_or("", |(_, value)| value)
    }

    /// Waits for the turn of the call, and returns the model to ask: the model of the server, if any, unless
    /// `by_model` is false. The turn ends when the model is dropped and its last request has ended.
    ///
    /// A handler calls this before it changes anything, because a call without a turn must have no effect.
    ///
    /// # Errors
    /// `Unavailable`: too many calls wait for the model.
    pub(super) async fn model_to_ask(&self, by_model: Option<bool>) -> Result<Option<ServedModel>, Refusal> {
        match (by_model, self.model) {
            (Some(true), None) => {
                Err(Refusal::validation("no model is set: start the server with --model-endpoint"))
            }
            (Some(false), _) | (_, None) => Ok(None),
            (_, Some(model)) => {
                let turn = self.model_calls.model(self.key.share()).await?;
                Ok(Some(model.within(turn)))
            }
        }
    }

    /// Returns true if the key of the caller may read content.
    pub(crate) fn may_read(&self) -> bool {
        self.key.allows(self.tree.read_scope())
    }

    /// Returns a part of the answer to a write that contains stored data; `None`, which is `null` in JSON,
    /// for a key that may not read.
    pub(super) fn stored<T>(&self, part: T) -> Option<T> {
        self.may_read().then_some(part)
    }
}

/// Returns the key space of the records, if the call writes through a view, which has one of its own.
fn view_keys(reach: &Reach, tree: Tree, records: &dyn FileSystem) -> Option<KeySpace> {
    let is_view = reach.is_bound() || tree == Tree::Files;
    records.key_space().filter(|_| is_view)
}
