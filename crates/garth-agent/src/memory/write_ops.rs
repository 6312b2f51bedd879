//! Operations that write a memory, in the order that repair relies on: content, relations, abstract and
//! overview, meta, event. Pure: it uses no filesystem.

use super::edge::{self, Edge};
use super::event::{Event, EventType, Payload, records};
use super::file_names::{ABSTRACT, CONTENT, META, OUTBOX, OVERVIEW, RELATIONS};
use super::layers;
use super::meta::{Layer, Layers, Meta, Origin};
use super::state::{State, text_of};
use super::uri::Uri;
use crate::small_file::sha256;
use garth_engine::env::Env;
use garth_engine::error::Result;
use garth_engine::model::{Op, SetAttrs};
use garth_engine::path::TreePath;

/// Abstract and overview of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Abstract (L0).
    pub brief: String,
    /// Overview (L1).
    pub overview: String,
    /// Meta of both.
    pub layers: Layers,
}

impl Made {
    /// Returns the layers of a content. A given layer is kept, and is `stale` if the content has changed;
    /// others are derived from the content.
    pub fn of(content: &str, before: &State) -> Self {
        let known = before.known().and_then(|meta| meta.layers);
        let text =
            |file: &Option<super::state::File>| file.as_ref().and_then(|file| file.text().map(str::to_owned));
        let (brief, brief_layer) =
            layer(content, known.as_ref().map(|layers| &layers.brief), text(&before.brief), layers::brief);
        let (overview, overview_layer) = layer(
            content,
            known.as_ref().map(|layers| &layers.overview),
            text(&before.overview),
            layers::overview,
        );
        Self { brief, overview, layers: Layers { brief: brief_layer, overview: overview_layer } }
    }

    /// Sets an abstract that was given for the content.
    #[must_use]
    pub fn with_brief(mut self, content: &str, text: &str) -> Self {
        self.layers.brief = given(content);
        text.trim_end_matches('\n').clone_into(&mut self.brief);
        self
    }

    /// Sets an overview that was given for the content.
    #[must_use]
    pub fn with_overview(mut self, content: &str, text: &str) -> Self {
        self.layers.overview = given(content);
        text.trim_end_matches('\n').clone_into(&mut self.overview);
        self
    }

    /// Derives the abstract from the content.
    #[must_use]
    pub fn derived_brief(mut self, content: &str) -> Self {
        (self.brief, self.layers.brief) = layer(content, None, None, layers::brief);
        self
    }

    /// Derives the overview from the content.
    #[must_use]
    pub fn derived_overview(mut self, content: &str) -> Self {
        (self.overview, self.layers.overview) = layer(content, None, None, layers::overview);
        self
    }
}

fn given(content: &str) -> Layer {
    Layer { origin: Origin::Given, content_sha256: sha256(content.as_bytes()) }
}

/// Returns one layer of a content.
fn layer(
    content: &str,
    known: Option<&Layer>,
    text: Option<String>,
    make: fn(&str) -> String,
) -> (String, Layer) {
    let content_sha256 = sha256(content.as_bytes());
    // Both are needed: an entry in the meta without its file has no text to keep.
    let given = known.filter(|known| known.origin != Origin::Derived).zip(text);
    match given {
        Some((known, text)) => {
            let same = known.content_sha256 == content_sha256;
            // A layer that became stale describes the content again once that is what it was.
            let origin = if same { Origin::Given } else { Origin::Stale };
            // The hash is that of the content for which it was given.
            let content_sha256 = known.content_sha256.clone();
            (text.trim_end_matches('\n').to_owned(), Layer { origin, content_sha256 })
        }
        None => (make(content), Layer { origin: Origin::Derived, content_sha256 }),
    }
}

/// Files of a memory to be written.
#[derive(Clone, Debug)]
pub struct Whole<'a> {
    /// URI of the memory.
    pub uri: &'a Uri,
    /// Text; `None` if it stays as it is.
    pub content: Option<&'a str>,
    /// Edges; `None` if they stay as they are.
    pub edges: Option<&'a [Edge]>,
    /// Layers; `None` if they stay as they are.
    pub made: Option<&'a Made>,
    /// Meta.
    pub meta: &'a Meta,
    /// True if the filesystem supports attributes.
    pub attributes: bool,
}

impl Whole<'_> {
    /// Returns the operations that write it, without its event.
    ///
    /// # Errors
    /// `InvalidArgument` for a value that has no JSON form.
    pub fn ops(&self) -> Result<Vec<Op>> {
        let mut ops = Vec::new();
        let text = |name: &str, text: &str| Op::write(self.uri.file(name), text.to_owned()).with_parents();
        if let Some(content) = self.content {
            let write = text(text_of(self.uri), content);
            let attrs = || SetAttrs::new().content_type("text/markdown").tags(self.meta.tags.clone());
            ops.push(if self.attributes { write.with_attrs(attrs()) } else { write });
        }
        if let Some(edges) = self.edges {
            ops.push(text(RELATIONS, &edge::to_json(edges)?));
        }
        if let Some(made) = self.made {
            ops.push(text(ABSTRACT, &format!("{}\n", made.brief)));
            ops.push(text(OVERVIEW, &format!("{}\n", made.overview)));
        }
        // Last of the files: it makes the memory visible, so all that it vouches for must be written before.
        ops.push(text(META, &self.meta.to_json()?));
        Ok(ops)
    }
}

/// Returns the link from [`CONTENT`], the common name of a memory's text, to the text of a skill.
pub fn link_of(uri: &Uri) -> Option<Op> {
    uri.is_skill().then(|| Op::symlink(uri.file(CONTENT), text_of(uri)))
}

/// Returns the path of an event of a memory. An event about a memory of another owner is stored in the
/// account's own outbox, because in an owner's directory it would be rejected.
pub fn event_file(uri: &Uri, event: &Event) -> TreePath {
    let name = format!("{}.json", event.event_id);
    let of_other = event.uri.parse::<Uri>().is_ok_and(|from| from.space() != uri.space());
    match of_other {
        true => in_account_outbox(&name),
        false => uri.file(&format!("{OUTBOX}/{name}")),
    }
}

/// Returns a path in the account's own outbox.
pub fn in_account_outbox(name: &str) -> TreePath {
    TreePath::from_row(TreePath::from_row("", OUTBOX).key(), name)
}

/// Returns the operations that move events which outlive their memory to the account's own outbox. Events
/// there are no longer checked against an owner, so those about other owners are not moved.
pub fn outlive<'a>(
    uri: &Uri,
    events: impl IntoIterator<Item = &'a (TreePath, Event)>,
) -> impl Iterator<Item = Op> {
    // The same check as in the outbox, while the directory still shows who wrote the event.
    let is_own = |path: &TreePath, event: &Event| event.check(uri.account(), path.name(), Some(uri)).is_ok();
    let outliving =
        events.into_iter().filter(move |(path, event)| event.outlives_memory() && is_own(path, event));
    outliving.map(|(path, _)| {
        Op::rename(path.clone(), in_account_outbox(path.name().unwrap_or_default())).with_parents()
    })
}

/// Returns the operation that writes an event of a memory.
///
/// # Errors
/// `InvalidArgument` for an event that has no JSON form.
pub fn write_event(uri: &Uri, event: &Event) -> Result<Op> {
    Ok(Op::write(event_file(uri, event), event.to_json()?).with_parents().create_new())
}

/// Returns the operation that writes an event of a deleted memory.
///
/// # Errors
/// `InvalidArgument` for an event that has no JSON form.
pub fn write_event_of_account(event: &Event) -> Result<Op> {
    let file = in_account_outbox(&format!("{}.json", event.event_id));
    Ok(Op::write(file, event.to_json()?).with_parents().create_new())
}

/// Returns the event with the current state of a memory: abstract, overview and content.
///
/// # Errors
/// `Io` if the system has no random bytes.
pub fn upsert(env: &Env, uri: &Uri, meta: &Meta, layers: [&str; 3]) -> Result<Event> {
    let file = uri.file(text_of(uri));
    let records = records(uri.account(), meta, file.as_str(), layers);
    let payload = Payload { records: Some(records), ..Payload::default() };
    Event::new(env, EventType::UpsertContext, &meta.uri, payload)
}

/// Returns the event with the current edges of a memory.
///
/// # Errors
/// `Io` if the system has no random bytes.
pub fn upsert_relation(env: &Env, uri: &Uri, edges: &[Edge]) -> Result<Event> {
    let payload = Payload { edges: Some(edge::told(uri, edges)), ..Payload::default() };
    Event::new(env, EventType::UpsertRelation, &uri.to_string(), payload)
}
