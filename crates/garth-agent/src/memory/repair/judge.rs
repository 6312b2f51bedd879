//! Judges a memory: a pure function from the content of its directory to the actions of repair.
//!
//! Two rules hold throughout. Text, layers and files of other programs are never lost: an object in the place
//! of a file of the memory is renamed. And a second run finds nothing to do: a mended memory is judged as
//! sound.

use std::time::Duration;

use serde_json::{Map, Value};

use super::super::edge::{self, Edge};
use super::super::event::{EventType, delivered_layers};
use super::super::file_names::{ABSTRACT, CONTENT, META, OUTBOX, OVERVIEW, RELATIONS, SKILL};
use super::super::layers;
use super::super::meta::{Layer, Layers, Meta, Origin, Status, seconds, unknown_status};
use super::super::state::File;
use super::super::write_ops::Made;
use super::inspect::{Around, DONE_FILE, Elsewhere, Found};
use super::report::Finding;
use crate::small_file::sha256;
use garth_engine::model::Timestamp;

/// Time without changes before repair touches a memory that may still be being written, file by file.
pub(super) const WRITING: Duration = Duration::from_secs(60);
/// Time without changes before repair touches a complete memory that was edited.
pub(super) const EDITING: Duration = Duration::from_secs(1);

/// Options of a judgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct JudgeOptions {
    pub(super) now: Timestamp,
    /// Repairs memories that may still be being written.
    pub(super) at_once: bool,
    /// Judges broken memories again.
    pub(super) retry: bool,
}

/// Verdict on a memory.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// Nothing to do: the memory is complete, or there is no memory.
    Sound,
    /// Marked as BROKEN by an earlier run.
    Broken,
    /// Its `.meta.json` has a status that garth does not know. Only the program that wrote it knows its
    /// meaning.
    Unknown(String),
    /// To be mended at this time, unless it changes before.
    Waits(Finding, Timestamp),
    /// To be mended now.
    Mend(Box<Mend>),
}

/// Changes that make a memory complete. `mend` turns them into operations.
#[derive(Clone, Debug)]
pub(super) struct Mend {
    pub(super) finding: Finding,
    pub(super) rest: Duration,
    /// Files in the way of the memory's own. They are renamed, and no longer belong to the memory.
    pub(super) aside: Vec<&'static str>,
    /// Renames `content.md` to `SKILL.md`: the text of a skill is in the place of the link to it.
    pub(super) adopt: bool,
    pub(super) edges: Option<Vec<Edge>>,
    pub(super) brief: Option<String>,
    pub(super) overview: Option<String>,
    pub(super) link: bool,
    pub(super) meta: Option<Meta>,
    /// Abstract, overview and content for an UPSERT_CONTEXT event.
    pub(super) upsert: Option<[String; 3]>,
    /// Edges for an UPSERT_RELATION event.
    pub(super) tell_edges: Option<Vec<Edge>>,
    /// Earlier URI for a MOVE_CONTEXT event.
    pub(super) moved_from: Option<String>,
    /// Earlier URIs. Edges that lead to them are changed to lead here.
    pub(super) dangling: Vec<String>,
    /// Reports that the memory was deleted. Its remaining files stay.
    pub(super) tell_end: bool,
    /// Removes the events of a copy: they are about the memory that it was copied from.
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
            tell_end: false,
            forget: false,
        }
    }

    fn is_nothing(&self) -> bool {
        let writes = self.edges.is_some() || self.brief.is_some() || self.overview.is_some() || self.link;
        let tells = self.upsert.is_some() || self.tell_edges.is_some() || self.moved_from.is_some();
        let tells = tells || self.tell_end;
        let moves = !self.aside.is_empty() || self.adopt || self.forget;
        !(writes || tells || moves || self.meta.is_some() || !self.dangling.is_empty())
    }
}

/// Content of `.meta.json`.
enum StoredMeta {
    Absent,
    Unreadable,
    /// A JSON object whose status garth does not know.
    Unknown(String),
    Meta(Box<Meta>, Fields),
}

/// Fields of a meta that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fields {
    /// All fields are valid.
    All,
    /// Some fields are missing.
    Some,
    /// Some values are invalid. They would be lost when the meta is written, so the file is kept under
    /// another name.
    Lost,
}

/// Returns the URI in the meta. It differs from that of the directory after a move or a copy.
pub(super) fn said(found: &Found, now: Timestamp) -> Option<String> {
    match known(found, now) {
        StoredMeta::Meta(meta, _) => Some(meta.uri),
        StoredMeta::Absent | StoredMeta::Unreadable | StoredMeta::Unknown(_) => None,
    }
}

fn known(found: &Found, now: Timestamp) -> StoredMeta {
    let Some(file) = &found.state.meta else { return StoredMeta::Absent };
    let Some(bytes) = &file.bytes else { return StoredMeta::Unreadable };
    if let Ok(meta) = Meta::parse(bytes) {
        return StoredMeta::Meta(Box::new(meta), Fields::All);
    }
    let Ok(fields) = serde_json::from_slice::<Map<String, Value>>(bytes) else {
        return StoredMeta::Unreadable;
    };
    if let Some(status) = unknown_status(&fields) {
        return StoredMeta::Unknown(status);
    }
    match completed(found, &fields, now) {
        Some((meta, fields)) => StoredMeta::Meta(Box::new(meta), fields),
        None => StoredMeta::Unreadable,
    }
}

/// Returns a meta in which the fields of a new one take the place of missing and invalid ones. Its status is
/// valid: see [`unknown_status`].
fn completed(found: &Found, fields: &Map<String, Value>, now: Timestamp) -> Option<(Meta, Fields)> {
    let Ok(Value::Object(mut whole)) = serde_json::to_value(Meta::new(&found.state.uri, now)) else {
        return None;
    };
    let mut left = Fields::Some;
    let optional = ["layers", "replaces", "valid_from", "valid_to"];
    let own: Vec<String> = whole.keys().cloned().chain(optional.map(str::to_owned)).collect();
    for name in &own {
        let Some(value) = fields.get(name) else { continue };
        // One field at a time, so that an invalid value costs no other field.
        let before = whole.insert(name.clone(), value.clone());
        if serde_json::from_value::<Meta>(Value::Object(whole.clone())).is_err() {
            left = Fields::Lost;
            match before {
                Some(before) => whole.insert(name.clone(), before),
                None => whole.remove(name),
            };
        }
    }
    // Fields that garth does not know belong to others, and a meta keeps them.
    for (name, value) in fields.iter().filter(|(name, _)| !own.contains(name)) {
        whole.insert(name.clone(), value.clone());
    }
    Some((serde_json::from_value(Value::Object(whole)).ok()?, left))
}

/// Judges a memory by its files alone. Returns `None` if that leaves a doubt, and the events and other
/// memories have to be read. A scan reads no more than the files of a sound memory.
pub(super) fn at_first_sight(found: &Found, asked: &JudgeOptions) -> Option<Verdict> {
    if found.is_empty() {
        return None;
    }
    let meta = match known(found, asked.now) {
        StoredMeta::Unknown(status) => return Some(Verdict::Unknown(status)),
        StoredMeta::Meta(meta, Fields::All) => meta,
        StoredMeta::Meta(..) | StoredMeta::Absent | StoredMeta::Unreadable => return None,
    };
    match meta.status {
        Status::Broken if !asked.retry => Some(Verdict::Broken),
        Status::Broken | Status::Pending => None,
        Status::Active => {
            // A waiting event, or edges that a move left behind, would leave `.done` below the version.
            let is_told = found.done >= Some(meta.version) && meta.uri == found.state.uri.to_string();
            let verdict = judge(found, &Around::default(), asked);
            (is_told && matches!(verdict, Verdict::Sound)).then_some(verdict)
        }
    }
}

/// Judges a memory.
pub(super) fn judge(found: &Found, around: &Around, asked: &JudgeOptions) -> Verdict {
    let state = &found.state;
    let text = effective_text(found);
    let mend = match (known(found, asked.now), text.is_some()) {
        (StoredMeta::Unknown(status), _) => return Verdict::Unknown(status),
        (StoredMeta::Absent, false) => gone(around),
        // A meta that cannot be read says as little as none. The text can be read, and the rest follows from
        // it.
        (StoredMeta::Absent | StoredMeta::Unreadable, true) => orphan(found, around, asked),
        (StoredMeta::Unreadable, false) => {
            let meta = around.newest_meta.clone().unwrap_or_else(|| Meta::new(&state.uri, asked.now));
            Some(broken(found, &meta, asked))
        }
        (StoredMeta::Meta(meta, fields), has_text) => match meta.status {
            Status::Broken if !asked.retry => return Verdict::Broken,
            // Another attempt without a text would write the same meta again, with a new time.
            Status::Broken if usable(text).is_none() => return Verdict::Broken,
            // PENDING says that the writer had not finished. If all files exist, only its last step is
            // missing. Otherwise a part of the memory was never written, and its content is unknown.
            Status::Pending if !(has_text && usable(text).is_some() && has_all(found)) => {
                Some(broken(found, &meta, asked))
            }
            Status::Active if usable(text).is_none() => Some(broken(found, &meta, asked)),
            Status::Active | Status::Broken | Status::Pending => whole(found, around, asked, &meta, fields),
        },
    };
    let Some(mend) = mend.filter(|mend| !mend.is_nothing()) else { return Verdict::Sound };
    // Files that are still being written look like those of a writer that died. Only their age distinguishes
    // them.
    let due = found.rests_at(mend.rest);
    if !asked.at_once && due > asked.now {
        return Verdict::Waits(mend.finding, due);
    }
    Verdict::Mend(Box::new(mend))
}

/// Returns the text of the memory. For a skill that is also a file in the place of the link to its text: an
/// editor that saves by renaming replaces the link.
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

/// Judges a directory without meta and text: the first files of a new memory, or the remains of one. Its
/// files stay, because their purpose is unknown. If a memory was here, external indexes must be informed of
/// its end.
fn gone(around: &Around) -> Option<Mend> {
    around.ended.as_ref()?;
    let mut mend = Mend::new(Finding::Deleted, EDITING);
    mend.tell_end = true;
    Some(mend)
}

/// Marks a memory as BROKEN: readers do not find it, and each report lists it.
fn broken(found: &Found, meta: &Meta, asked: &JudgeOptions) -> Mend {
    let mut mend = Mend::new(Finding::Broken, WRITING);
    let uri = found.state.uri.to_string();
    // The meta is about this directory from now on: a retry does not judge it as moved or copied.
    let same = if meta.uri == uri { meta.clone() } else { Meta { uri, ..meta.clone() } };
    mend.meta = Some(Meta { status: Status::Broken, updated_at: seconds(asked.now), ..same });
    let is_lost =
        matches!(known(found, asked.now), StoredMeta::Unreadable | StoredMeta::Meta(_, Fields::Lost));
    if is_lost || found.in_the_way.contains(&META) {
        mend.aside.push(META);
    }
    mend
}

/// Completes a memory of which only the text can be read. Everything else is derived from the text, or comes
/// from the newest version of the meta that can be read.
fn orphan(found: &Found, around: &Around, asked: &JudgeOptions) -> Option<Mend> {
    let state = &found.state;
    // A skill without any other file of a memory is a plain skill, which has no meta. It may have a file of
    // its own by the name of the link to its text.
    let is_link = state.linked && found.own_content.is_none();
    let is_memory = !state.uri.is_skill()
        || is_link
        || found.done.is_some()
        || around.has_outbox
        || [&state.meta, &state.relations, &state.brief, &state.overview].iter().any(|file| file.is_some());
    if !is_memory {
        return None;
    }
    let new = Meta::new(&state.uri, asked.now);
    let new = match &around.newest_meta {
        Some(last) => {
            let (status, version) = (new.status, last.version.saturating_add(1));
            Meta { status, version, tags: found.tags.clone(), ..last.clone() }
        }
        None => Meta { tags: found.tags.clone(), ..new },
    };
    if usable(effective_text(found)).is_none() {
        return Some(broken(found, &new, asked));
    }
    // A version up to `.done` would count as delivered, although no index has received this text.
    let next = found.done.map_or(1, |done| done.saturating_add(1));
    let meta = Meta { version: new.version.max(next), ..new };
    // An unreadable meta is kept under another name.
    let fields = if state.meta.is_some() { Fields::Lost } else { Fields::All };
    let mut mend = whole(found, around, asked, &meta, fields)?;
    (mend.finding, mend.rest) = (Finding::Orphan, WRITING);
    Some(mend)
}

/// Verdict on a layer.
struct JudgedLayer {
    text: String,
    layer: Layer,
    /// The file has to be written.
    is_written: bool,
    change: Option<Finding>,
}

/// Judges a layer. The meta says which content it describes, and whether it was derived or given; the order
/// of the last changes says who wrote after whom. `is_newer`: the layer changed after the meta, so the meta
/// does not describe it. `is_newer_than_text`: it changed after the text, so whoever wrote it could know the
/// text.
///
/// Only a derived layer is ever overwritten, and only if nobody has edited it.
fn layer(
    content: &str,
    known: Option<&Layer>,
    file: Option<&File>,
    (is_newer, is_newer_than_text): (bool, bool),
    make: fn(&str) -> String,
) -> JudgedLayer {
    let sha = sha256(content.as_bytes());
    let made = make(content);
    let derived = Layer { origin: Origin::Derived, content_sha256: sha.clone() };
    let given = Layer { origin: Origin::Given, content_sha256: sha.clone() };
    let Some(text) = file.and_then(File::text).map(|text| text.trim_end_matches('\n').to_owned()) else {
        let change = Some(Finding::Incomplete);
        return JudgedLayer { text: made, layer: derived, is_written: true, change };
    };
    let kept = |layer: Layer, change| JudgedLayer { text: text.clone(), layer, is_written: false, change };
    // No record of the origin. A text that garth would not derive is somebody's own.
    let Some(known) = known else {
        return kept(if text == made { derived } else { given }, None);
    };
    let is_of_text = known.content_sha256 == sha;
    let change = (!is_of_text).then_some(Finding::ChangedContent);
    let stale = || Layer { origin: Origin::Stale, content_sha256: known.content_sha256.clone() };
    match known.origin {
        Origin::Derived if text == made => kept(derived, change),
        // Another text than the one derived of this content: somebody wrote it, for this content.
        Origin::Derived if is_of_text || (is_newer && is_newer_than_text) => {
            kept(given, Some(Finding::ChangedLayer))
        }
        // Edited, and then the content changed: the layer is kept, but does not describe the content.
        Origin::Derived if is_newer => kept(stale(), Some(Finding::ChangedLayer)),
        // Only the content changed.
        Origin::Derived => JudgedLayer { text: made, layer: derived, is_written: true, change },
        // Given again, for the content as it is now.
        Origin::Given | Origin::Stale if is_newer && (is_of_text || is_newer_than_text) => {
            kept(given, Some(Finding::ChangedLayer))
        }
        // The record stays that of the content for which the layer was given.
        Origin::Given if !is_of_text => kept(stale(), change),
        // The content is again the one that the layer describes.
        Origin::Stale if is_of_text => kept(given, Some(Finding::ChangedContent)),
        Origin::Given | Origin::Stale => kept(known.clone(), None),
    }
}

/// Completes a memory that has a text, and makes it ACTIVE.
fn whole(
    found: &Found,
    around: &Around,
    asked: &JudgeOptions,
    before: &Meta,
    fields: Fields,
) -> Option<Mend> {
    let state = &found.state;
    let content = usable(effective_text(found))?.to_owned();
    let mut mend = Mend::new(Finding::Incomplete, EDITING);
    if fields == Fields::Lost {
        mend.aside.push(META);
    }
    let mut meta = before.clone();
    // First, because the rest compares and reports by URI, version and owner.
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
    // `Finding` is ordered: a changed content outranks a changed layer, and that a missing one.
    let change = changes.into_iter().flatten().max();
    let is_first = before.status != Status::Active;
    meta.status = Status::Active;
    // A version names one state of the memory, for events and for `.done`. Without a meta the version is new
    // already, and a copy begins with 1.
    let counts = change.is_some() || before.status == Status::Broken || matches!(moved, Elsewhere::Gone(_));
    if counts && found.state.meta.is_some() && !matches!(moved, Elsewhere::There(_)) {
        meta.version = meta.version.saturating_add(1);
    }
    let texts = delivered_layers([&made.brief, &made.overview, &content]);
    let is_told = !matches!(moved, Elsewhere::There(_))
        && is_told(found, around, before, matches!(moved, Elsewhere::Gone(_)), &texts);
    let is_new = found.state.meta.is_none() || change.is_some() || is_first;
    if is_new || !is_told {
        // The version has to be above `.done`, or the version counts as delivered before its event is. A copy
        // loses its `.done`, which is that of the other memory.
        let done = if matches!(moved, Elsewhere::There(_)) { None } else { found.done };
        meta.version = meta.version.max(done.map_or(1, |done| done.saturating_add(1)));
        // A writer may have got as far as its event.
        let is_known = is_first && !counts && is_waiting(around, &state.uri.to_string(), &texts);
        mend.upsert = (!is_known).then_some(texts);
    } else if matches!(&moved, Elsewhere::Gone(old) if old.space() != state.uri.space()) {
        // The event of a move carries only the URIs, but records in an index also name the owner.
        let is_known = is_waiting(around, &state.uri.to_string(), &texts);
        mend.upsert = (!is_known).then_some(texts);
    }
    mend.tell_edges = edges;
    mend.dangling.extend(around.dangling.iter().cloned());
    if meta != *before || found.state.meta.is_none() || fields != Fields::All {
        // Fields that were filled in are no update of the memory.
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

/// Returns the finding that names the changes, the weightiest first: one memory has one finding in a report.
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

/// Adapts the meta to its directory, and returns what became of the memory that it was about.
fn settle_place(
    found: &Found,
    around: &Around,
    asked: &JudgeOptions,
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
            // A move by garth writes its event before the meta. If it was cut short in between, the event
            // exists already.
            let is_known = around.events.iter().any(|(_, event)| {
                event.event_type == EventType::MoveContext
                    && event.uri == was
                    && event.payload.new_uri.as_ref() == Some(&meta.uri)
            });
            mend.moved_from = (!is_known).then_some(was);
            mend.dangling.push(old.to_string());
        }
        // A copy is a new memory. Its version, its events and `.done` are those of the other one.
        Elsewhere::There(_) | Elsewhere::Here => {
            meta.version = 1;
            meta.created_at = seconds(asked.now);
            mend.forget = around.has_outbox;
        }
    }
    match &around.elsewhere {
        // Not looked up: only `at_first_sight` gets here, and does not use this verdict.
        Elsewhere::Here => Elsewhere::There(String::new()),
        known => known.clone(),
    }
}

/// Renames objects that are in the way: directories and links in the place of files, and files that cannot be
/// read and will be written again.
fn give_way(found: &Found, mend: &mut Mend) {
    let state = &found.state;
    for name in [META, RELATIONS, ABSTRACT, OVERVIEW, OUTBOX, DONE_FILE] {
        if found.in_the_way.contains(&name) && !mend.aside.contains(&name) {
            mend.aside.push(name);
        }
    }
    // `layer` makes a text in place of a file that is none.
    for (name, file) in [(ABSTRACT, &state.brief), (OVERVIEW, &state.overview)] {
        if file.as_ref().is_some_and(|file| file.text().is_none()) {
            mend.aside.push(name);
        }
    }
    if state.relations.is_some() && state.edges().is_none() {
        mend.aside.push(RELATIONS);
    }
}

/// Sets the edges to write, and returns those to deliver. Edges that were edited by hand are not delivered,
/// because relations have no version.
fn settle_edges(found: &Found, around: &Around, moved: &Elsewhere, mend: &mut Mend) -> Option<Vec<Edge>> {
    let own = found.state.uri.to_string();
    let Some(edges) = found.state.edges() else {
        mend.edges = Some(Vec::new());
        return None;
    };
    if *moved == Elsewhere::Here {
        return None;
    }
    // Each edge names the memory that it leads from, which has another URI now.
    let renamed: Vec<Edge> =
        edges.iter().map(|edge| Edge { from_uri: own.clone(), ..edge.clone() }).collect();
    if renamed != edges {
        mend.edges = Some(renamed.clone());
    }
    let is_told = around.events.iter().any(|(_, event)| {
        event.event_type == EventType::UpsertRelation
            && event.uri == own
            && event.payload.edges.as_ref() == Some(&edge::told(&found.state.uri, &renamed))
    });
    (!renamed.is_empty() && !is_told).then_some(renamed)
}

/// Restores the layout of a skill: [`SKILL`] has the text, and [`CONTENT`] is a link to it.
fn settle_skill(found: &Found, mend: &mut Mend) {
    if !found.state.uri.is_skill() {
        return;
    }
    let in_the_way = found.in_the_way.contains(&CONTENT);
    match &found.own_content {
        // The newer of two texts wins, as in `effective_text`: it is the one that somebody saved last. The
        // other one is kept under another name.
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

/// Returns true if the events of a version have been delivered, or an event with its texts waits.
fn is_told(found: &Found, around: &Around, meta: &Meta, is_moved: bool, texts: &[String; 3]) -> bool {
    let own = found.state.uri.to_string();
    let moves = names_of(around, &own).len() as u64 - 1;
    // A move counts the version up, and `.done` follows only when its event is delivered. A waiting move
    // leaves `.done` behind by one, though no text is untold. After a move by hand the meta has not been
    // counted up yet.
    let done = found.done.map(|done| done.saturating_add(if is_moved { 0 } else { moves }));
    // Events that were waiting before a move by hand name the memory by its earlier URI.
    let of = if is_moved { &meta.uri } else { &own };
    // If there are more events than are read, an unread one may be about this version. A later run decides,
    // when fewer wait.
    done >= Some(meta.version) || around.more_events || is_waiting(around, of, texts)
}

/// Returns the URIs that the memory has in events, its own first.
fn names_of(around: &Around, own: &str) -> Vec<String> {
    let mut names = vec![own.to_owned()];
    // Events are newest first, so that each move is met before those that led to it.
    for (_, event) in &around.events {
        let is_move = event.event_type == EventType::MoveContext;
        let leads = event.payload.new_uri.as_ref().is_some_and(|new| names.contains(new));
        if is_move && leads && !names.contains(&event.uri) {
            names.push(event.uri.clone());
        }
    }
    names
}

/// Returns true if an event with these texts waits, or has failed and waits for an operator.
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
                    // An event refers to a long text by its hash.
                    let is_meant = || {
                        let reference = record.text_ref.as_ref();
                        reference.is_some_and(|reference| reference.sha256 == sha256(text.as_bytes()))
                    };
                    record.level == level && (is_text || is_meant())
                })
            })
    })
}
