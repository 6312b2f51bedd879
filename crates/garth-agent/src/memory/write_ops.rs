//! Operations that write a memory, in the order that repair relies on: content, relations, abstract and
//! overview, meta, event. Pure: it knows no filesystem.

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

/// The text of a layer, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// L0.
    pub brief: String,
    /// L1.
    pub overview: String,
    /// What is known of them.
    pub layers: Layers,
}

impl Made {
    /// The layers of a content. What was given is kept, `stale` where it is of another content; else what was
    /// there is replaced by what is made of the content.
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

    /// With this abstract, given for the content.
    #[must_use]
    pub fn with_brief(mut self, content: &str, text: &str) -> Self {
        self.layers.brief = given(content);
        text.trim_end_matches('\n').clone_into(&mut self.brief);
        self
    }

    /// With this overview, given for the content.
    #[must_use]
    pub fn with_overview(mut self, content: &str, text: &str) -> Self {
        self.layers.overview = given(content);
        text.trim_end_matches('\n').clone_into(&mut self.overview);
        self
    }

    /// With an abstract that is made of the content.
    #[must_use]
    pub fn derived_brief(mut self, content: &str) -> Self {
        (self.brief, self.layers.brief) = layer(content, None, None, layers::brief);
        self
    }

    /// With an overview that is made of the content.
    #[must_use]
    pub fn derived_overview(mut self, content: &str) -> Self {
        (self.overview, self.layers.overview) = layer(content, None, None, layers::overview);
        self
    }
}

fn given(content: &str) -> Layer {
    Layer { origin: Origin::Given, content_sha256: sha256(content.as_bytes()) }
}

/// One layer of a content.
fn layer(
    content: &str,
    known: Option<&Layer>,
    text: Option<String>,
    make: fn(&str) -> String,
) -> (String, Layer) {
    let content_sha256 = sha256(content.as_bytes());
    let given = known.filter(|known| known.origin != Origin::Derived).zip(text);
    match given {
        Some((known, text)) => {
            let same = known.content_sha256 == content_sha256;
            let origin = if same { known.origin } else { Origin::Stale };
            // it describes what it was given for
            let content_sha256 = known.content_sha256.clone();
            (text.trim_end_matches('\n').to_owned(), Layer { origin, content_sha256 })
        }
        None => (make(content), Layer { origin: Origin::Derived, content_sha256 }),
    }
}

/// A whole memory, to be written.
#[derive(Clone, Debug)]
pub struct Whole<'a> {
    /// Which.
    pub uri: &'a Uri,
    /// Its text; none if it stays as it is.
    pub content: Option<&'a str>,
    /// Its edges; none if they stay as they are.
    pub edges: Option<&'a [Edge]>,
    /// Its layers; none if they stay as they are.
    pub made: Option<&'a Made>,
    /// What is known of it.
    pub meta: &'a Meta,
    /// Whether files have attributes there.
    pub attributes: bool,
}

impl Whole<'_> {
    /// Returns the operations that write it, without its event.
    ///
    /// # Errors
    /// `InvalidArgument` for what has no JSON form.
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
        ops.push(text(META, &self.meta.to_json()?));
        Ok(ops)
    }
}

/// What makes the content of a skill be found under the name that memories have for it.
pub fn link_of(uri: &Uri) -> Option<Op> {
    uri.is_skill().then(|| Op::symlink(uri.file(CONTENT), text_of(uri)))
}

/// The path of an event of a memory. In a directory of one owner nobody tells of what others have: one of a
/// memory that came from another lies in the account's own outbox.
pub fn event_file(uri: &Uri, event: &Event) -> TreePath {
    let name = format!("{}.json", event.event_id);
    let of_other = event.uri.parse::<Uri>().is_ok_and(|from| from.space() != uri.space());
    match of_other {
        true => in_account_outbox(&name),
        false => uri.file(&format!("{OUTBOX}/{name}")),
    }
}

/// A name in the account's own outbox.
pub fn in_account_outbox(name: &str) -> TreePath {
    TreePath::from_row(TreePath::from_row("", OUTBOX).key(), name)
}

/// Moves events that outlive their memory to the account's own outbox, where nobody asks any more whose they
/// are: those that speak for another owner stay.
pub fn outlive<'a>(
    uri: &Uri,
    events: impl IntoIterator<Item = &'a (TreePath, Event)>,
) -> impl Iterator<Item = Op> {
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

/// Returns the operation that writes an event of a memory that is gone.
///
/// # Errors
/// `InvalidArgument` for an event that has no JSON form.
pub fn write_event_of_account(event: &Event) -> Result<Op> {
    let file = in_account_outbox(&format!("{}.json", event.event_id));
    Ok(Op::write(file, event.to_json()?).with_parents().create_new())
}

/// The event that tells of a memory as it is: abstract, overview and content.
///
/// # Errors
/// `Io` if the system has no random bytes.
pub fn upsert(env: &Env, uri: &Uri, meta: &Meta, layers: [&str; 3]) -> Result<Event> {
    let file = uri.file(text_of(uri));
    let records = records(uri.account(), meta, file.as_str(), layers);
    let payload = Payload { records: Some(records), ..Payload::default() };
    Event::new(env, EventType::UpsertContext, &meta.uri, payload)
}

/// The event that tells of a memory's edges.
///
/// # Errors
/// `Io` if the system has no random bytes.
pub fn upsert_relation(env: &Env, uri: &Uri, edges: &[Edge]) -> Result<Event> {
    let payload = Payload { edges: Some(edge::told(uri, edges)), ..Payload::default() };
    Event::new(env, EventType::UpsertRelation, &uri.to_string(), payload)
}
