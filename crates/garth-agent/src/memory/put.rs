//! Puts a memory: creates or changes it completely, in one commit.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::duplicates::Duplicate;
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

/// Limit on the tags.
const MAX_TAGS: usize = 64;
/// Limit on the bytes of a tag.
const MAX_TAG: usize = 256;

/// Text of a layer in a put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LayerText {
    /// Keep a given text; derive any other from the content.
    #[default]
    Keep,
    /// Derive the text from the content, even if one was given before.
    Derive,
    /// Use this text.
    Given(String),
}

/// Memory to put. Start from [`Put::new`] and set the options.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Put {
    /// Text, Markdown, at most [`MAX_CONTENT`] bytes.
    #[doc(hidden)]
    pub content: String,
    /// Abstract, at most [`MAX_ABSTRACT`] characters.
    #[doc(hidden)]
    pub brief: LayerText,
    /// Overview.
    #[doc(hidden)]
    pub overview: LayerText,
    /// Labels; `None` leaves them as they are.
    #[doc(hidden)]
    pub tags: Option<Vec<String>>,
    /// Edges; `None` leaves them as they are.
    #[doc(hidden)]
    pub edges: Option<Vec<Edge>>,
    /// Memory that it replaces.
    #[doc(hidden)]
    pub replaces: Option<Uri>,
    /// Start of its validity.
    #[doc(hidden)]
    pub valid_from: Option<Timestamp>,
    /// End of its validity.
    #[doc(hidden)]
    pub valid_to: Option<Timestamp>,
    /// Origin of the text. Without it an unchanged text keeps its origin, and a new one has none.
    #[doc(hidden)]
    pub provenance: Option<Provenance>,
    /// Version that the memory must have; 0 if it must not exist.
    #[doc(hidden)]
    pub if_version: Option<u64>,
    /// True to accept an empty or blank text.
    #[doc(hidden)]
    pub allow_empty: bool,
}

impl Put {
    /// Returns a put of this text.
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

    /// Sets the memory that it replaces.
    #[must_use]
    pub fn replaces(self, uri: Uri) -> Self {
        Self { replaces: Some(uri), ..self }
    }

    /// Sets the start of its validity.
    #[must_use]
    pub fn valid_from(self, time: Timestamp) -> Self {
        Self { valid_from: Some(time), ..self }
    }

    /// Sets the end of its validity.
    #[must_use]
    pub fn valid_to(self, time: Timestamp) -> Self {
        Self { valid_to: Some(time), ..self }
    }

    /// Sets the origin of the text.
    #[must_use]
    pub fn provenance(self, provenance: Provenance) -> Self {
        Self { provenance: Some(provenance), ..self }
    }

    /// Requires this version of the memory; 0 requires that it does not exist.
    #[must_use]
    pub fn if_version(self, version: u64) -> Self {
        Self { if_version: Some(version), ..self }
    }

    /// Accepts an empty or blank text.
    #[must_use]
    pub fn allow_empty(self) -> Self {
        Self { allow_empty: true, ..self }
    }

    pub(super) fn check(&self, uri: &Uri) -> Result<()> {
        let too_large = |message: String| Err(Error::new(ErrorKind::TooLarge, message));
        if self.content.trim().is_empty() && !self.allow_empty {
            let message = "the text is empty; give a text, or set `allow_empty` to store it all the same";
            return Err(Error::invalid(message));
        }
        if self.content.len() > MAX_CONTENT {
            return too_large(format!("the text of a memory has at most {MAX_CONTENT} bytes"));
        }
        if let LayerText::Given(text) = &self.brief {
            // The final line feed belongs to the file, not to the text.
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
            return Err(Error::invalid("a memory cannot replace itself; omit `replaces`"));
        }
        let is_order = self.valid_from.zip(self.valid_to).is_none_or(|(from, to)| from < to);
        if !is_order {
            return Err(Error::invalid("valid_from must be before valid_to"));
        }
        let edges = self.edges.as_deref().unwrap_or_default();
        if edges.len() > MAX_EDGES {
            return too_large(format!("at most {MAX_EDGES} relations lead from one memory"));
        }
        edges.iter().try_for_each(Edge::check)
    }
}

/// Checks number and length of labels.
pub(super) fn check_tags(tags: &[String]) -> Result<()> {
    if tags.len() <= MAX_TAGS && tags.iter().all(|tag| !tag.is_empty() && tag.len() <= MAX_TAG) {
        return Ok(());
    }
    Err(Error::invalid(format!("a memory has at most {MAX_TAGS} tags, each of 1 to {MAX_TAG} bytes")))
}

/// Result of a put.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Written {
    /// Meta after the put.
    pub meta: Meta,
    /// True if the memory was created.
    pub created: bool,
    /// Commit; `None` if there was nothing to change.
    pub seq: Option<Seq>,
    /// Possible duplicates of the same owner, best first; `None` if the tree has no search.
    pub near: Option<Vec<Duplicate>>,
}

impl Outcome for Written {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: self.seq.map(|_| commit.seq), ..self }
    }
}

impl Written {
    /// Returns the JSON form of the interfaces: `created`, `changed`, `seq`, `near` and `meta`.
    pub fn to_json(&self) -> Map<String, Value> {
        let near = |near: &Duplicate| json!({"uri": near.uri.to_string(), "score": near.score});
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
    /// Creates or changes a memory, in one commit. If nothing differs, there is no commit.
    ///
    /// # Errors
    /// - `InvalidArgument`, `TooLarge`: a field is invalid.
    /// - `AccessDenied`: the URI is of another account.
    /// - `Conflict`: the memory has another version, or the one to replace was replaced before.
    /// - `NotFound`: the memory to replace does not exist.
    /// - `Corrupt`: garth does not know the status of the memory.
    /// - Errors of the filesystem.
    #[boxed]
    pub async fn put(&self, uri: &Uri, put: &Put) -> Result<Written> {
        self.check(uri)?;
        self.check_change(uri)?;
        // A repeat returns the recorded outcome before any check: the memory to replace may be deleted by
        // now.
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
        // Versions continue after those of a meta that cannot be read.
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
                None => format!("{uri} does not exist"),
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
        // By its URI, not by the old meta: a memory that was copied by other means has the fields of its
        // origin.
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
        // The origin of the old text does not apply to a new one.
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
            // A repeated put must not end the replaced memory a second time, which would conflict.
            let done = meta.replaces.as_deref() == Some(&*replaced.to_string());
            if !done {
                let from = put.valid_from.unwrap_or(now);
                meta.replaces = Some(replaced.to_string());
                meta.valid_from = Some(seconds(from));
                self.end(replaced, from, &mut ops, &mut conditions).await?;
            }
        }
        // Compared without version and time, which are only changed below: a put of the same values makes no
        // commit.
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
        // The text comes first, as in every memory.
        ops.splice(at..at, rest);
        let event = upsert(&self.env, uri, &meta, [&made.brief, &made.overview, &put.content])?;
        ops.push(write_event(uri, &event)?);
        let created = there.is_none();
        let message = format!("{} {uri}", if created { "make" } else { "change" });
        let batch = self.batch(ops, conditions).message(message);
        let written = Written { meta, created, seq: Some(PENDING), near: None };
        self.commit_put(batch, written, self.near(uri, &put.content)).await
    }

    /// Commits a put, and searches for possible duplicates. A failed search must not hide a successful
    /// commit.
    async fn commit_put(
        &self,
        batch: Batch,
        mut written: Written,
        near: impl Future<Output = Result<Option<Vec<Duplicate>>>>,
    ) -> Result<Written> {
        if self.once.records() {
            // Before the commit: the outcome that it records includes the duplicates.
            written.near = near.await.unwrap_or_default();
            return self.once.commit(self.fs, batch, written).await;
        }
        // Searches while the commit waits for the disk.
        let commit = self.once.commit(self.fs, batch, written);
        let (written, near) = futures::future::join(commit, near).await;
        Ok(Written { near: near.unwrap_or_default(), ..written? })
    }

    /// Sets the end of validity of a memory that another one replaces.
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
            let message = format!("{uri} was replaced before; replace its successor");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        meta.valid_to = Some(seconds(until));
        let event = self.revised(&state, &mut meta, ops)?;
        ops.push(write_event(uri, &event)?);
        // Two puts that replace the same memory at once must not both succeed.
        conditions.extend(state.unchanged());
        Ok(())
    }

    /// Writes the meta of a memory with unchanged text, as a new version. Returns the event about it.
    pub(super) fn revised(&self, state: &State, meta: &mut Meta, ops: &mut Vec<Op>) -> Result<Event> {
        meta.version = meta.version.saturating_add(1);
        meta.updated_at = seconds(self.env.now());
        let whole =
            Whole { uri: &state.uri, content: None, edges: None, made: None, meta, attributes: false };
        ops.extend(whole.ops()?);
        self.upsert(state, &state.uri, meta)
    }

    /// Returns the event about a memory whose files are as they were read.
    pub(super) fn upsert(&self, state: &State, uri: &Uri, meta: &Meta) -> Result<Event> {
        let text = |file: &Option<super::state::File>| {
            file.as_ref().and_then(|file| file.text()).unwrap_or_default().to_owned()
        };
        let [brief, overview, content] = [&state.brief, &state.overview, &state.content].map(text);
        let layers = [brief.trim_end_matches('\n'), overview.trim_end_matches('\n'), &content];
        upsert(&self.env, uri, meta, layers)
    }

    /// Adds and removes labels of a memory.
    ///
    /// # Errors
    /// `InvalidArgument`; `AccessDenied`; `NotFound`; from the filesystem.
    #[boxed]
    pub async fn tag(&self, uri: &Uri, add: &[String], remove: &[String]) -> Result<Meta> {
        self.check(uri)?;
        self.check_change(uri)?;
        // Limits the number before each one is compared with all others.
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

/// Returns each tag once, in their order.
fn distinct<'a>(tags: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for tag in tags {
        if !kept.contains(tag) {
            kept.push(tag.clone());
        }
    }
    kept
}
