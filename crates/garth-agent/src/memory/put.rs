//! Puts a memory: makes or changes it, whole, in one commit.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::duplicates::Near;
use super::edge::{Edge, MAX_EDGES};
use super::event::Event;
use super::layers::{MAX_ABSTRACT, MAX_GIVEN_OVERVIEW};
use super::meta::{Meta, Provenance, Status, seconds};
use super::state::{MAX_CONTENT, State};
use super::uri::Uri;
use super::write_ops::{Made, Whole, link_of, upsert, write_event};
use super::{Memories, check_status};
use crate::boxed;
use crate::once::{Outcome, PENDING};
use crate::retry::retry;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{At, Batch, Commit, Op, Precondition, Seq, SetAttrs, Timestamp};

/// Most tags, and bytes of one.
const MAX_TAGS: usize = 64;
const MAX_TAG: usize = 256;

/// What a layer is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LayerText {
    /// What was given before, or made of the content.
    #[default]
    Keep,
    /// Made of the content, whatever was given before.
    Derive,
    /// This.
    Given(String),
}

/// A memory to put. Start from [`Put::new`] and set what differs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Put {
    /// Its text, Markdown, at most [`MAX_CONTENT`] bytes.
    #[doc(hidden)]
    pub content: String,
    /// Its abstract, at most [`MAX_ABSTRACT`] characters.
    #[doc(hidden)]
    pub brief: LayerText,
    /// Its overview.
    #[doc(hidden)]
    pub overview: LayerText,
    /// Its labels; `None` leaves them as they are.
    #[doc(hidden)]
    pub tags: Option<Vec<String>>,
    /// Its edges; `None` leaves them as they are.
    #[doc(hidden)]
    pub edges: Option<Vec<Edge>>,
    /// The memory whose place it takes.
    #[doc(hidden)]
    pub replaces: Option<Uri>,
    /// From when on it is true.
    #[doc(hidden)]
    pub valid_from: Option<Timestamp>,
    /// Until when it was true.
    #[doc(hidden)]
    pub valid_to: Option<Timestamp>,
    /// What its text was made of. Without it a text that stays keeps its own, a new one has none.
    #[doc(hidden)]
    pub provenance: Option<Provenance>,
    /// The version that it must have; 0 if it must not be there.
    #[doc(hidden)]
    pub if_version: Option<u64>,
    /// Takes a text that is empty or blank.
    #[doc(hidden)]
    pub allow_empty: bool,
}

impl Put {
    /// A memory with this text.
    pub fn new(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// Sets the abstract.
    #[must_use]
    pub fn brief(self, brief: LayerText) -> Self {
        Self { brief, ..self }
    }

    /// Sets the overview.
    #[must_use]
    pub fn overview(self, overview: LayerText) -> Self {
        Self { overview, ..self }
    }

    /// Sets the tags.
    #[must_use]
    pub fn tags(self, tags: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { tags: Some(tags.into_iter().map(Into::into).collect()), ..self }
    }

    /// Sets the edges.
    #[must_use]
    pub fn edges(self, edges: impl IntoIterator<Item = Edge>) -> Self {
        Self { edges: Some(edges.into_iter().collect()), ..self }
    }

    /// Sets the memory whose place it takes.
    #[must_use]
    pub fn replaces(self, uri: Uri) -> Self {
        Self { replaces: Some(uri), ..self }
    }

    /// Sets the time from which on it is true.
    #[must_use]
    pub fn valid_from(self, time: Timestamp) -> Self {
        Self { valid_from: Some(time), ..self }
    }

    /// Sets the time until which it was true.
    #[must_use]
    pub fn valid_to(self, time: Timestamp) -> Self {
        Self { valid_to: Some(time), ..self }
    }

    /// Sets where its text comes from.
    #[must_use]
    pub fn provenance(self, provenance: Provenance) -> Self {
        Self { provenance: Some(provenance), ..self }
    }

    /// Requires this version of the memory; 0 requires that there is none.
    #[must_use]
    pub fn if_version(self, version: u64) -> Self {
        Self { if_version: Some(version), ..self }
    }

    /// Allows a text that is empty or blank.
    #[must_use]
    pub fn allow_empty(self) -> Self {
        Self { allow_empty: true, ..self }
    }

    pub(super) fn check(&self, uri: &Uri) -> Result<()> {
        let too_large = |message: String| Err(Error::new(ErrorKind::TooLarge, message));
        if self.content.trim().is_empty() && !self.allow_empty {
            let message = "the text is empty: nothing is put; --allow-empty, over HTTP allow_empty, puts a memory \
                           without a text";
            return Err(Error::invalid(message));
        }
        if self.content.len() > MAX_CONTENT {
            return too_large(format!("the text of a memory has at most {MAX_CONTENT} bytes"));
        }
        if let LayerText::Given(text) = &self.brief {
            let length = text.trim_end_matches('\n').chars().count();
            if length > MAX_ABSTRACT {
                let message =
                    format!("an abstract has at most {MAX_ABSTRACT} characters, this one has {length}");
                return too_large(message);
            }
        }
        if matches!(&self.overview, LayerText::Given(text) if text.len() > MAX_GIVEN_OVERVIEW) {
            return too_large(format!("an overview has at most {MAX_GIVEN_OVERVIEW} bytes"));
        }
        check_tags(self.tags.as_deref().unwrap_or_default())?;
        if self.replaces.as_ref() == Some(uri) {
            return Err(Error::invalid("a memory does not replace itself; put it without what it replaces"));
        }
        let is_order = self.valid_from.zip(self.valid_to).is_none_or(|(from, to)| from < to);
        if !is_order {
            return Err(Error::invalid("a memory is valid from a moment before the one until which it is"));
        }
        let edges = self.edges.as_deref().unwrap_or_default();
        if edges.len() > MAX_EDGES {
            return too_large(format!("at most {MAX_EDGES} relations lead from one memory"));
        }
        edges.iter().try_for_each(Edge::check)
    }
}

/// Refuses what are no labels.
pub(super) fn check_tags(tags: &[String]) -> Result<()> {
    if tags.len() <= MAX_TAGS && tags.iter().all(|tag| !tag.is_empty() && tag.len() <= MAX_TAG) {
        return Ok(());
    }
    Err(Error::invalid(format!("a memory has at most {MAX_TAGS} tags, each of 1 to {MAX_TAG} bytes")))
}

/// What a put did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Written {
    /// The memory as it is known now.
    pub meta: Meta,
    /// Whether it was made.
    pub created: bool,
    /// The commit; none if nothing was to change.
    pub seq: Option<Seq>,
    /// Memories of the same owner that say much the same, best first; none where there is no search.
    pub near: Option<Vec<Near>>,
}

impl Outcome for Written {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: self.seq.map(|_| commit.seq), ..self }
    }
}

impl Written {
    /// What the doors answer of it: `created`, `changed`, `seq`, `near` and `meta`.
    pub fn to_json(&self) -> Map<String, Value> {
        let near = |near: &Near| json!({"uri": near.uri.to_string(), "score": near.score});
        let near = self.near.as_ref().map(|all| all.iter().map(near).collect::<Vec<_>>());
        let fields = [
            ("created", json!(self.created)),
            ("changed", json!(self.seq.is_some())),
            ("seq", json!(self.seq.map(|seq| seq.0))),
            ("near", json!(near)),
            ("meta", json!(self.meta)),
        ];
        fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
    }
}

impl Memories<'_> {
    /// Makes a memory, or changes it, in one commit. What is given already as it is makes none.
    ///
    /// # Errors
    /// `InvalidArgument`, `TooLarge`; `AccessDenied` for another account's; `Conflict` for a version that it
    /// does not have, or a memory to replace that was replaced before; `NotFound` for one to replace that is
    /// not there; `Corrupt` for one whose status garth does not know; from the filesystem.
    #[boxed]
    pub async fn put(&self, uri: &Uri, put: &Put) -> Result<Written> {
        self.check(uri)?;
        self.check_change(uri)?;
        // A repeat is answered by the record, and what it would put may be gone.
        let put_it = async {
            put.check(uri)?;
            if let Some(replaced) = &put.replaces {
                self.check(replaced)?;
            }
            retry(|| self.put_once(uri, put)).await
        };
        self.once.run(put_it).await
    }

    pub(super) async fn put_once(&self, uri: &Uri, put: &Put) -> Result<Written> {
        let state = State::read(self.fs, uri).await?;
        check_status(uri, state.meta.as_ref())?;
        let known = state.known();
        // versions count on after those of a meta that cannot be read
        let before = match known.is_none() && state.meta.is_some() {
            true => self.newest_meta(uri).await?,
            false => known.clone(),
        };
        let there = before.as_ref().filter(|meta| meta.status == Status::Active);
        if let Some(due) = put.if_version
            && due != there.map_or(0, |meta| meta.version)
        {
            let message = match there {
                Some(meta) => format!("{uri} has version {}, not {due}", meta.version),
                None => format!("{uri} is not there"),
            };
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let now = self.env.now();
        let mut made = Made::of(&put.content, &state);
        match &put.brief {
            LayerText::Keep => {}
            LayerText::Derive => made = made.derived_brief(&put.content),
            LayerText::Given(text) => made = made.with_brief(&put.content, text),
        }
        match &put.overview {
            LayerText::Keep => {}
            LayerText::Derive => made = made.derived_overview(&put.content),
            LayerText::Given(text) => made = made.with_overview(&put.content, text),
        }
        let mut meta = match &before {
            Some(before) => Meta { level: 3, status: Status::Active, ..before.clone() },
            None => Meta::new(uri, now),
        };
        let about = Meta::new(uri, now);
        meta = Meta {
            uri: about.uri,
            category: about.category,
            context_type: about.context_type,
            owner_space: about.owner_space,
            layers: Some(made.layers.clone()),
            ..meta
        };
        if let Some(tags) = &put.tags {
            meta.tags = distinct(tags);
        }
        if let Some(from) = put.valid_from {
            meta.valid_from = Some(seconds(from));
        }
        if let Some(to) = put.valid_to {
            meta.valid_to = Some(seconds(to));
        }
        let same_text = state.content.as_ref().and_then(|file| file.text()) == Some(&put.content);
        if put.provenance.is_some() || !same_text {
            meta.provenance.clone_from(&put.provenance);
        }
        let (mut ops, mut conditions) = (Vec::new(), state.unchanged());
        let edges = match (&put.edges, state.edges()) {
            (Some(edges), _) => Some(self.edges_from(uri, edges)?),
            (None, None) => Some(Vec::new()),
            (None, Some(_)) => None,
        };
        if let Some(replaced) = &put.replaces {
            let done = meta.replaces.as_deref() == Some(&*replaced.to_string());
            if !done {
                let from = put.valid_from.unwrap_or(now);
                meta.replaces = Some(replaced.to_string());
                meta.valid_from = Some(seconds(from));
                self.end(replaced, from, &mut ops, &mut conditions).await?;
            }
        }
        let same_edges = edges.as_ref().is_none_or(|edges| state.edges().as_ref() == Some(edges));
        if there.is_some() && known.as_ref() == Some(&meta) && same_text && same_edges {
            let unchanged = Written { meta, created: false, seq: None, near: None };
            return self.once.unchanged(self.fs, self.nothing(format!("put {uri}")), unchanged).await;
        }
        if before.is_some() {
            meta.version = meta.version.saturating_add(1);
            meta.updated_at = seconds(now);
        }
        let whole = Whole {
            uri,
            content: Some(&put.content),
            edges: edges.as_deref(),
            made: Some(&made),
            meta: &meta,
            attributes: self.has_attributes(uri),
        };
        let (first, rest) = (whole.ops()?, link_of(uri).filter(|_| !state.linked));
        let at = ops.len() + 1;
        ops.extend(first);
        // its text comes first, as in every memory
        ops.splice(at..at, rest);
        let event = upsert(&self.env, uri, &meta, [&made.brief, &made.overview, &put.content])?;
        ops.push(write_event(uri, &event)?);
        let created = there.is_none();
        let message = format!("{} {uri}", if created { "make" } else { "change" });
        let batch = self.batch(ops, conditions).message(message);
        let written = Written { meta, created, seq: Some(PENDING), near: None };
        self.commit_put(batch, written, self.near(uri, &put.content)).await
    }

    /// Commits a put, and looks for possible duplicates. A search that fails must not hide what is committed.
    async fn commit_put(
        &self,
        batch: Batch,
        mut written: Written,
        near: impl Future<Output = Result<Option<Vec<Near>>>>,
    ) -> Result<Written> {
        if self.once.records() {
            written.near = near.await.unwrap_or_default();
            return self.once.commit(self.fs, batch, written).await;
        }
        // The search takes the time that the commit waits for the disk.
        let commit = self.once.commit(self.fs, batch, written);
        let (written, near) = futures::future::join(commit, near).await;
        Ok(Written { near: near.unwrap_or_default(), ..written? })
    }

    /// Notes until when a memory was true, as another takes its place.
    async fn end(
        &self,
        uri: &Uri,
        until: Timestamp,
        ops: &mut Vec<Op>,
        conditions: &mut Vec<(At, Precondition)>,
    ) -> Result<()> {
        let state = State::read(self.fs, uri).await?;
        let mut meta = self.active(&state)?;
        if meta.valid_to.is_some() {
            let message = format!("{uri} is not true any more: replace what replaced it");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        meta.valid_to = Some(seconds(until));
        let event = self.revised(&state, &mut meta, ops)?;
        ops.push(write_event(uri, &event)?);
        conditions.extend(state.unchanged());
        Ok(())
    }

    /// Writes the meta of a memory whose text stays, as a version of its own; gives the event that tells of
    /// it.
    pub(super) fn revised(&self, state: &State, meta: &mut Meta, ops: &mut Vec<Op>) -> Result<Event> {
        meta.version = meta.version.saturating_add(1);
        meta.updated_at = seconds(self.env.now());
        let whole =
            Whole { uri: &state.uri, content: None, edges: None, made: None, meta, attributes: false };
        ops.extend(whole.ops()?);
        self.upsert(state, &state.uri, meta)
    }

    /// The event that tells of a memory whose files are as they were read.
    pub(super) fn upsert(&self, state: &State, uri: &Uri, meta: &Meta) -> Result<Event> {
        let text = |file: &Option<super::state::File>| {
            file.as_ref().and_then(|file| file.text()).unwrap_or_default().to_owned()
        };
        let [brief, overview, content] = [&state.brief, &state.overview, &state.content].map(text);
        let layers = [brief.trim_end_matches('\n'), overview.trim_end_matches('\n'), &content];
        upsert(&self.env, uri, meta, layers)
    }

    /// Adds labels to a memory and takes others away.
    ///
    /// # Errors
    /// `InvalidArgument`; `AccessDenied`; `NotFound`; from the filesystem.
    #[boxed]
    pub async fn tag(&self, uri: &Uri, add: &[String], remove: &[String]) -> Result<Meta> {
        self.check(uri)?;
        self.check_change(uri)?;
        // Before any of them is compared with all others.
        check_tags(add)?;
        if remove.len() > MAX_TAGS {
            return Err(Error::invalid(format!("at most {MAX_TAGS} tags are taken away at once")));
        }
        self.once.run(retry(|| self.tag_once(uri, add, remove))).await
    }

    async fn tag_once(&self, uri: &Uri, add: &[String], remove: &[String]) -> Result<Meta> {
        let state = State::read(self.fs, uri).await?;
        let before = self.active(&state)?;
        let mut meta = before.clone();
        meta.tags.retain(|tag| !remove.contains(tag));
        meta.tags = distinct(meta.tags.iter().chain(add));
        check_tags(&meta.tags)?;
        if meta == before {
            return self.once.unchanged(self.fs, self.nothing(format!("tag {uri}")), meta).await;
        }
        let mut ops = Vec::new();
        let event = self.revised(&state, &mut meta, &mut ops)?;
        let attrs = SetAttrs::new().tags(meta.tags.clone());
        if self.has_attributes(uri) {
            ops.insert(0, Op::set_attrs(uri.file(super::state::text_of(uri)), attrs));
        }
        ops.push(write_event(uri, &event)?);
        let batch = self.batch(ops, state.unchanged()).message(format!("tag {uri}"));
        self.once.commit(self.fs, batch, meta).await
    }
}

/// Each once, in their order.
fn distinct<'a>(tags: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for tag in tags {
        if !kept.contains(tag) {
            kept.push(tag.clone());
        }
    }
    kept
}
