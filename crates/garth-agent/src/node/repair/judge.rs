//! What is to be done with a node: a pure function from the state of its directory to what it is to be.

use std::time::Duration;

use serde_json::{Map, Value};

use super::super::edge::Edge;
use super::super::event::EventType;
use super::super::files::{ABSTRACT, CONTENT, META, OUTBOX, OVERVIEW, RELATIONS, SKILL};
use super::super::layers;
use super::super::made::Made;
use super::super::meta::{Layer, Layers, Meta, Origin, Status, seconds};
use super::super::state::File;
use super::found::{Around, DONE_FILE, Elsewhere, Found};
use super::{Asked, Finding};
use crate::small_file::sha256;
use garth_engine::model::Timestamp;

/// How long a node that is being written step by step has to be left alone, and one that is edited.
pub(super) const WRITING: Duration = Duration::from_secs(60);
pub(super) const EDITING: Duration = Duration::from_secs(1);

/// What repair says of a node.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// All is as it should be, or nothing of a node is there.
    Sound,
    /// It is broken, and was before.
    Broken,
    /// This is to be done, once it is at rest.
    Waits(Finding, Timestamp),
    /// This is to be done.
    Mend(Box<Mend>),
}

/// What is to be done with a node.
#[derive(Clone, Debug)]
pub(super) struct Mend {
    pub(super) finding: Finding,
    pub(super) rest: Duration,
    /// Files that give way, to a name of their own: they are kept, and are not the node's.
    pub(super) aside: Vec<&'static str>,
    /// A skill's text lies where the link to it belongs.
    pub(super) adopt: bool,
    pub(super) edges: Option<Vec<Edge>>,
    pub(super) brief: Option<String>,
    pub(super) overview: Option<String>,
    pub(super) link: bool,
    pub(super) meta: Option<Meta>,
    /// The text of each layer as it is now, for the event that tells of the node.
    pub(super) upsert: Option<[String; 3]>,
    /// Edges to tell of.
    pub(super) tell_edges: Option<Vec<Edge>>,
    pub(super) moved_from: Option<String>,
    /// URIs whose incoming edges are to lead here.
    pub(super) dangling: Vec<String>,
    /// Everything of the node goes.
    pub(super) remove: bool,
    /// What the node tells of another goes: it is a copy.
    pub(super) forget: bool,
}

impl Mend {
    fn new(finding: Finding, rest: Duration) -> Self {
        Self {
            finding,
            rest,
            aside: Vec::new(),
            adopt: false,
            edges: None,
            brief: None,
            overview: None,
            link: false,
            meta: None,
            upsert: None,
            tell_edges: None,
            moved_from: None,
            dangling: Vec::new(),
            remove: false,
            forget: false,
        }
    }

    fn is_nothing(&self) -> bool {
        let writes = self.edges.is_some() || self.brief.is_some() || self.overview.is_some() || self.link;
        let tells = self.upsert.is_some() || self.tell_edges.is_some() || self.moved_from.is_some();
        let moves = !self.aside.is_empty() || self.adopt || self.remove || self.forget;
        !(writes || tells || moves || self.meta.is_some() || !self.dangling.is_empty())
    }
}

/// What a `.meta.json` is.
enum Known {
    Absent,
    Unreadable,
    Meta(Box<Meta>, Fields),
}

/// What became of the fields of a meta as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fields {
    /// All are there.
    All,
    /// Some are missing.
    Some,
    /// Some say nothing: they are lost when it is written.
    Lost,
}

/// The URI that a meta speaks of.
pub(super) fn said(found: &Found, now: Timestamp) -> Option<String> {
    match known(found, now) {
        Known::Meta(meta, _) => Some(meta.uri),
        Known::Absent | Known::Unreadable => None,
    }
}

fn known(found: &Found, now: Timestamp) -> Known {
    let Some(file) = &found.state.meta else { return Known::Absent };
    let Some(bytes) = &file.bytes else { return Known::Unreadable };
    if let Ok(meta) = Meta::parse(bytes) {
        return Known::Meta(Box::new(meta), Fields::All);
    }
    let Ok(fields) = serde_json::from_slice::<Map<String, Value>>(bytes) else { return Known::Unreadable };
    match completed(found, &fields, now) {
        Some((meta, fields)) => Known::Meta(Box::new(meta), fields),
        None => Known::Unreadable,
    }
}

/// A meta that lacks fields, or has some that say nothing, with those of a new one in their place. One
/// without status is being written.
fn completed(found: &Found, fields: &Map<String, Value>, now: Timestamp) -> Option<(Meta, Fields)> {
    let new = Meta { status: Status::Pending, ..Meta::new(&found.state.uri, now) };
    let Ok(Value::Object(mut whole)) = serde_json::to_value(&new) else { return None };
    let mut left = Fields::Some;
    let optional = ["layers", "replaces", "valid_from", "valid_to"];
    let own: Vec<String> = whole.keys().cloned().chain(optional.map(str::to_owned)).collect();
    for name in &own {
        let Some(value) = fields.get(name) else { continue };
        let before = whole.insert(name.clone(), value.clone());
        if serde_json::from_value::<Meta>(Value::Object(whole.clone())).is_err() {
            left = Fields::Lost;
            match before {
                Some(before) => whole.insert(name.clone(), before),
                None => whole.remove(name),
            };
        }
    }
    for (name, value) in fields.iter().filter(|(name, _)| !own.contains(name)) {
        whole.insert(name.clone(), value.clone());
    }
    Some((serde_json::from_value(Value::Object(whole)).ok()?, left))
}

/// What the files alone say: that all is well, or that it is broken; none if that leaves a doubt.
pub(super) fn at_first_sight(found: &Found, asked: &Asked) -> Option<Verdict> {
    if found.is_empty() {
        return None;
    }
    let Known::Meta(meta, Fields::All) = known(found, asked.now) else { return None };
    match meta.status {
        Status::Broken if !asked.retry => Some(Verdict::Broken),
        Status::Broken | Status::Pending => None,
        Status::Active => {
            let is_told = found.done >= Some(meta.version) && meta.uri == found.state.uri.to_string();
            let verdict = judge(found, &Around::default(), asked);
            (is_told && matches!(verdict, Verdict::Sound)).then_some(verdict)
        }
    }
}

/// What is to be done with a node.
pub(super) fn judge(found: &Found, around: &Around, asked: &Asked) -> Verdict {
    let state = &found.state;
    let text = effective_text(found);
    let mend = match (known(found, asked.now), text.is_some()) {
        (Known::Absent, false) => gone(found, around),
        (Known::Absent, true) => orphan(found, around, asked),
        (Known::Unreadable, true) => orphan(found, around, asked),
        (Known::Unreadable, false) => {
            let meta = Meta::new(&state.uri, asked.now);
            Some(broken(found, &meta, asked))
        }
        (Known::Meta(meta, fields), has_text) => match meta.status {
            Status::Broken if !asked.retry => return Verdict::Broken,
            Status::Broken if usable(text).is_none() => return Verdict::Broken,
            Status::Pending if !(has_text && usable(text).is_some() && has_all(found)) => {
                Some(broken(found, &meta, asked))
            }
            Status::Active if usable(text).is_none() => Some(broken(found, &meta, asked)),
            Status::Active | Status::Broken | Status::Pending => whole(found, around, asked, &meta, fields),
        },
    };
    let Some(mend) = mend.filter(|mend| !mend.is_nothing()) else { return Verdict::Sound };
    let due = found.rests_at(mend.rest);
    if !asked.at_once && due > asked.now {
        return Verdict::Waits(mend.finding, due);
    }
    Verdict::Mend(Box::new(mend))
}

/// The text of the node: of a skill also what lies in the place of the link to it.
fn effective_text(found: &Found) -> Option<&File> {
    match &found.own_content {
        Some((file, _)) if found.state.content.is_none() || found.own_content_is_newer() => Some(file),
        _ => found.state.content.as_ref(),
    }
}

fn usable(text: Option<&File>) -> Option<&str> {
    text.and_then(File::text)
}

fn has_all(found: &Found) -> bool {
    let state = &found.state;
    [&state.relations, &state.brief, &state.overview].iter().all(|file| file.is_some())
}

/// Neither meta nor text is left.
fn gone(found: &Found, around: &Around) -> Option<Mend> {
    let state = &found.state;
    let left = [&state.relations, &state.brief, &state.overview].iter().any(|file| file.is_some());
    if !left && !around.has_outbox {
        return None;
    }
    // what somebody was told of was a node; else it may be one that is being written
    let was_told = found.done.is_some() || !around.events.is_empty() || around.more_events;
    let mut mend = Mend::new(Finding::Deleted, if was_told { EDITING } else { WRITING });
    mend.remove = true;
    Some(mend)
}

/// The node cannot be made whole.
fn broken(found: &Found, meta: &Meta, asked: &Asked) -> Mend {
    let mut mend = Mend::new(Finding::Broken, WRITING);
    let uri = found.state.uri.to_string();
    let same = if meta.uri == uri { meta.clone() } else { Meta { uri, ..meta.clone() } };
    mend.meta = Some(Meta { status: Status::Broken, updated_at: seconds(asked.now), ..same });
    let is_lost = matches!(known(found, asked.now), Known::Unreadable | Known::Meta(_, Fields::Lost));
    if is_lost || found.in_the_way.contains(&META) {
        mend.aside.push(META);
    }
    mend
}

/// Text without meta: the rest is made of it.
fn orphan(found: &Found, around: &Around, asked: &Asked) -> Option<Mend> {
    let state = &found.state;
    let is_node = !state.uri.is_skill()
        || state.linked
        || found.done.is_some()
        || [&state.meta, &state.relations, &state.brief, &state.overview].iter().any(|file| file.is_some());
    if !is_node {
        return None;
    }
    let new = Meta { tags: found.tags.clone(), ..Meta::new(&state.uri, asked.now) };
    if usable(effective_text(found)).is_none() {
        return Some(broken(found, &new, asked));
    }
    let meta = Meta { version: found.done.map_or(1, |done| done.saturating_add(1)), ..new };
    // what is there of it, and says nothing, is kept
    let fields = if state.meta.is_some() { Fields::Lost } else { Fields::All };
    let mut mend = whole(found, around, asked, &meta, fields)?;
    (mend.finding, mend.rest) = (Finding::Orphan, WRITING);
    Some(mend)
}

/// What a layer is to be, and what happened to it.
struct Judged {
    text: String,
    layer: Layer,
    is_written: bool,
    change: Option<Finding>,
}

fn layer(
    content: &str,
    known: Option<&Layer>,
    file: Option<&File>,
    (is_newer, is_newer_than_text): (bool, bool),
    make: fn(&str) -> String,
) -> Judged {
    let sha = sha256(content.as_bytes());
    let made = make(content);
    let derived = Layer { origin: Origin::Derived, content_sha256: sha.clone() };
    let given = Layer { origin: Origin::Given, content_sha256: sha.clone() };
    let Some(text) = file.and_then(File::text).map(|text| text.trim_end_matches('\n').to_owned()) else {
        let change = Some(Finding::Incomplete);
        return Judged { text: made, layer: derived, is_written: true, change };
    };
    let kept = |layer: Layer, change| Judged { text: text.clone(), layer, is_written: false, change };
    let Some(known) = known else {
        return kept(if text == made { derived } else { given }, None);
    };
    let is_of_text = known.content_sha256 == sha;
    let change = (!is_of_text).then_some(Finding::ChangedContent);
    let stale = || Layer { origin: Origin::Stale, content_sha256: known.content_sha256.clone() };
    match known.origin {
        Origin::Derived if text == made => kept(derived, change),
        Origin::Derived if is_of_text || (is_newer && is_newer_than_text) => {
            kept(given, Some(Finding::ChangedLayer))
        }
        Origin::Derived if is_newer => kept(stale(), Some(Finding::ChangedLayer)),
        Origin::Derived => Judged { text: made, layer: derived, is_written: true, change },
        // somebody has given it again
        Origin::Given | Origin::Stale if is_newer && (is_of_text || is_newer_than_text) => {
            kept(given, Some(Finding::ChangedLayer))
        }
        Origin::Given if !is_of_text => kept(stale(), change),
        Origin::Given | Origin::Stale => kept(known.clone(), None),
    }
}

/// The node is to be whole and active. It has a text.
fn whole(found: &Found, around: &Around, asked: &Asked, before: &Meta, fields: Fields) -> Option<Mend> {
    let state = &found.state;
    let content = usable(effective_text(found))?.to_owned();
    let mut mend = Mend::new(Finding::Incomplete, EDITING);
    if fields == Fields::Lost {
        mend.aside.push(META);
    }
    let mut meta = before.clone();
    let moved = settle_place(found, around, asked, &mut meta, &mut mend);
    let known = before.layers.as_ref();
    let brief = layer(
        &content,
        known.map(|layers| &layers.brief),
        state.brief.as_ref(),
        found.newer(true),
        layers::brief,
    );
    let overview = layer(
        &content,
        known.map(|layers| &layers.overview),
        state.overview.as_ref(),
        found.newer(false),
        layers::overview,
    );
    let made = Made {
        brief: brief.text.clone(),
        overview: overview.text.clone(),
        layers: Layers { brief: brief.layer, overview: overview.layer },
    };
    mend.brief = brief.is_written.then(|| made.brief.clone());
    mend.overview = overview.is_written.then(|| made.overview.clone());
    meta.layers = Some(made.layers.clone());
    give_way(found, &mut mend);
    let edges = settle_edges(found, around, &moved, &mut mend);
    settle_skill(found, &mut mend);
    let changes = [brief.change, overview.change];
    let change = changes.into_iter().flatten().max();
    let is_first = before.status != Status::Active;
    meta.status = Status::Active;
    let counts = change.is_some() || before.status == Status::Broken || matches!(moved, Elsewhere::Gone(_));
    if counts && found.state.meta.is_some() && !matches!(moved, Elsewhere::There(_)) {
        meta.version = meta.version.saturating_add(1);
    }
    let texts = [made.brief.clone(), made.overview.clone(), content];
    let is_told = !matches!(moved, Elsewhere::There(_))
        && is_told(found, around, before, matches!(moved, Elsewhere::Gone(_)), &texts);
    let is_new = found.state.meta.is_none() || change.is_some() || is_first;
    if is_new || !is_told {
        // whoever did the events of a version does those of later ones
        let done = if matches!(moved, Elsewhere::There(_)) { None } else { found.done };
        meta.version = meta.version.max(done.map_or(1, |done| done.saturating_add(1)));
        let is_known = is_first && !counts && is_waiting(around, &state.uri.to_string(), &texts);
        mend.upsert = (!is_known).then_some(texts);
    } else if matches!(&moved, Elsewhere::Gone(old) if old.space() != state.uri.space()) {
        // its records name the owner that it had
        let is_known = is_waiting(around, &state.uri.to_string(), &texts);
        mend.upsert = (!is_known).then_some(texts);
    }
    mend.tell_edges = edges;
    mend.dangling.extend(around.dangling.iter().cloned());
    if meta != *before || found.state.meta.is_none() || fields != Fields::All {
        if counts || is_first {
            meta.updated_at = seconds(asked.now);
        }
        mend.meta = Some(meta);
    }
    mend.finding = named(&mend, &moved, is_first, change, !is_told, found);
    if is_first {
        mend.rest = WRITING;
    }
    Some(mend)
}

/// What it is called, the weightiest first.
fn named(
    mend: &Mend,
    moved: &Elsewhere,
    is_first: bool,
    change: Option<Finding>,
    untold: bool,
    found: &Found,
) -> Finding {
    match (moved, change) {
        (Elsewhere::Gone(_), _) => Finding::Moved,
        (Elsewhere::There(_), _) => Finding::Copied,
        (Elsewhere::Here, _) if is_first => Finding::Activated,
        (Elsewhere::Here, Some(change)) => change,
        (Elsewhere::Here, None) if !mend.aside.is_empty() || mend.adopt || mend.link => Finding::Misplaced,
        (Elsewhere::Here, None) if mend.meta.is_some() || mend.edges.is_some() => Finding::Incomplete,
        (Elsewhere::Here, None) if !mend.dangling.is_empty() => Finding::Moved,
        (Elsewhere::Here, None) if untold || found.done.is_none() => Finding::MissingEvent,
        (Elsewhere::Here, None) => Finding::Incomplete,
    }
}

/// Makes the meta speak of the node that is here.
fn settle_place(
    found: &Found,
    around: &Around,
    asked: &Asked,
    meta: &mut Meta,
    mend: &mut Mend,
) -> Elsewhere {
    let about = Meta::new(&found.state.uri, asked.now);
    let was = meta.uri.clone();
    (meta.uri, meta.category, meta.owner_space) = (about.uri, about.category, about.owner_space);
    meta.context_type = about.context_type;
    if was == meta.uri {
        return Elsewhere::Here;
    }
    match &around.elsewhere {
        Elsewhere::Gone(old) => {
            let is_known = around.events.iter().any(|(_, event)| {
                event.event_type == EventType::MoveContext
                    && event.uri == was
                    && event.payload.new_uri.as_ref() == Some(&meta.uri)
            });
            mend.moved_from = (!is_known).then_some(was);
            mend.dangling.push(old.to_string());
        }
        Elsewhere::There(_) | Elsewhere::Here => {
            meta.version = 1;
            meta.created_at = seconds(asked.now);
            mend.forget = around.has_outbox;
        }
    }
    match &around.elsewhere {
        // one that was not looked for counts as there
        Elsewhere::Here => Elsewhere::There(String::new()),
        known => known.clone(),
    }
}

/// What lies in the place of a file that is to be written, or is none that can be read, gives way.
fn give_way(found: &Found, mend: &mut Mend) {
    let state = &found.state;
    for name in [META, RELATIONS, ABSTRACT, OVERVIEW, OUTBOX, DONE_FILE] {
        if found.in_the_way.contains(&name) && !mend.aside.contains(&name) {
            mend.aside.push(name);
        }
    }
    // what is there, and is no text
    for (name, file) in [(ABSTRACT, &state.brief), (OVERVIEW, &state.overview)] {
        if file.as_ref().is_some_and(|file| file.text().is_none()) {
            mend.aside.push(name);
        }
    }
    if state.relations.is_some() && state.edges().is_none() {
        mend.aside.push(RELATIONS);
    }
}

/// The edges that are to be written; those to tell of.
fn settle_edges(found: &Found, around: &Around, moved: &Elsewhere, mend: &mut Mend) -> Option<Vec<Edge>> {
    let own = found.state.uri.to_string();
    let Some(edges) = found.state.edges() else {
        mend.edges = Some(Vec::new());
        return None;
    };
    if *moved == Elsewhere::Here {
        return None;
    }
    let renamed: Vec<Edge> =
        edges.iter().map(|edge| Edge { from_uri: own.clone(), ..edge.clone() }).collect();
    if renamed != edges {
        mend.edges = Some(renamed.clone());
    }
    let is_told = around.events.iter().any(|(_, event)| {
        event.event_type == EventType::UpsertRelation
            && event.uri == own
            && event.payload.edges.as_ref() == Some(&renamed)
    });
    (!renamed.is_empty() && !is_told).then_some(renamed)
}

/// The text of a skill is [`SKILL`], and [`CONTENT`] a link to it.
fn settle_skill(found: &Found, mend: &mut Mend) {
    if !found.state.uri.is_skill() {
        return;
    }
    let in_the_way = found.in_the_way.contains(&CONTENT);
    match &found.own_content {
        Some(_) if found.state.content.is_none() || found.own_content_is_newer() => {
            mend.adopt = true;
            if found.state.content.is_some() || found.in_the_way.contains(&SKILL) {
                mend.aside.push(SKILL);
            }
            mend.link = true;
        }
        Some(_) => {
            mend.aside.push(CONTENT);
            mend.link = true;
        }
        None if in_the_way => {
            mend.aside.push(CONTENT);
            mend.link = true;
        }
        None => mend.link = !found.state.linked,
    }
}

/// Whether whoever keeps an index has heard of a version of the node, or will.
fn is_told(found: &Found, around: &Around, meta: &Meta, is_moved: bool, texts: &[String; 3]) -> bool {
    let own = found.state.uri.to_string();
    let moves = names_of(around, &own).len() as u64 - 1;
    let done = found.done.map(|done| done.saturating_add(if is_moved { 0 } else { moves }));
    let of = if is_moved { &meta.uri } else { &own };
    done >= Some(meta.version) || around.more_events || is_waiting(around, of, texts)
}

/// The URIs that the node has in events, its own first.
fn names_of(around: &Around, own: &str) -> Vec<String> {
    let mut names = vec![own.to_owned()];
    // newest first, so that each move is met before those that it followed
    for (_, event) in &around.events {
        let is_move = event.event_type == EventType::MoveContext;
        let leads = event.payload.new_uri.as_ref().is_some_and(|new| names.contains(new));
        if is_move && leads && !names.contains(&event.uri) {
            names.push(event.uri.clone());
        }
    }
    names
}

/// Whether an event waits, or has failed, that tells of these texts.
fn is_waiting(around: &Around, own: &str, texts: &[String; 3]) -> bool {
    let names = names_of(around, own);
    around.events.iter().any(|(_, event)| {
        let is_own = event.event_type == EventType::UpsertContext && names.contains(&event.uri);
        let records = event.payload.records.as_deref().unwrap_or_default();
        is_own
            && (0u8..).zip(texts).all(|(level, text)| {
                records.iter().any(|record| {
                    let is_text = record.text.as_deref().map(|text| text.trim_end_matches('\n'))
                        == Some(text.trim_end_matches('\n'));
                    let is_meant = || {
                        let reference = record.text_ref.as_ref();
                        reference.is_some_and(|reference| reference.sha256 == sha256(text.as_bytes()))
                    };
                    record.level == level && (is_text || is_meant())
                })
            })
    })
}
