//! Reads a memory's directory for repair: its files and their last changes; if these leave a doubt, also its
//! events and the memory that its meta names.

use std::time::Duration;

use super::super::Memories;
use super::super::event::{Event, EventType};
use super::super::file_names::{ABSTRACT, CONTENT, DLQ, META, OUTBOX, OVERVIEW, RELATIONS};
use super::super::meta::Meta;
use super::super::state::{File, MAX_CONTENT, State, read_all, text_of};
use super::super::uri::Uri;
use super::removed::Ended;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystemExt;
use garth_engine::model::{At, ByteRange, Entry, Listing, Page, Seq, Timestamp};
use garth_engine::path::TreePath;

/// Limit on the names of a directory that are listed, and on the events of a memory that are read, newest
/// first.
const MAX_NAMES: usize = 1000;
const MAX_EVENTS: usize = 64;

/// Path in a memory's directory of the file with the version up to which events are delivered.
pub(super) const DONE_FILE: &str = ".outbox/.done";

/// Directory of a memory, as read for repair.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Files of the memory.
    pub(super) state: State,
    /// Last change of each file, in the order of the fields of [`State`].
    pub(super) marks: [Option<Mark>; 5],
    /// Names of the memory's files in whose place is another kind of object.
    pub(super) in_the_way: Vec<&'static str>,
    /// File of a skill in the place of the link to its text.
    pub(super) own_content: Option<(File, Mark)>,
    /// Labels of the text itself.
    pub(super) tags: Vec<String>,
    /// Version up to which events are delivered.
    pub(super) done: Option<u64>,
    /// Last change of any of its files.
    pub(super) changed: Timestamp,
}

/// Change, comparable with others of the same directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// Commit.
    Commit(Seq),
    /// Time, on a filesystem without commits.
    Time(Timestamp),
}

/// Further facts, read only if the files are ambiguous.
#[derive(Clone, Debug, Default)]
pub(super) struct Around {
    /// Events that wait or failed, newest first.
    pub(super) events: Vec<(TreePath, Event)>,
    /// True if there are more events than were read.
    pub(super) more_events: bool,
    /// True if there is a directory for events.
    pub(super) has_outbox: bool,
    /// All names in the directory, if they are few enough.
    pub(super) names: Option<Vec<String>>,
    /// Location of the memory that the meta names, if it is another one.
    pub(super) elsewhere: Elsewhere,
    /// URIs that the memory had and that edges of others still lead to.
    pub(super) dangling: Vec<String>,
    /// Newest readable meta of the memory, if the current one cannot be read.
    pub(super) newest_meta: Option<Meta>,
    /// End of the memory that was here, if no event about it was written yet.
    pub(super) ended: Option<Ended>,
}

/// Memory that a meta names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// The memory in this directory.
    #[default]
    Here,
    /// An existing memory, or one of another owner: this one is a copy.
    There(String),
    /// A memory that no longer exists: it was moved here.
    Gone(Uri),
}

impl Found {
    const BRIEF: usize = 3;
    const OVERVIEW: usize = 4;
    const CONTENT: usize = 1;
    const META: usize = 0;

    /// Returns the files that are read for each memory, those of [`State`] first.
    fn paths(uri: &Uri) -> Vec<TreePath> {
        let names = [META, text_of(uri), RELATIONS, ABSTRACT, OVERVIEW, DONE_FILE, CONTENT];
        names[..if uri.is_skill() { 7 } else { 6 }].iter().map(|name| uri.file(name)).collect()
    }

    fn of(uri: &Uri, has_log: bool, answers: Vec<Result<(Entry, bytes::Bytes)>>) -> Result<Self> {
        let state = State {
            uri: uri.clone(),
            meta: None,
            content: None,
            relations: None,
            brief: None,
            overview: None,
            linked: !uri.is_skill(),
        };
        let mut found = Self {
            state,
            marks: [None; 5],
            in_the_way: Vec::new(),
            own_content: None,
            tags: Vec::new(),
            done: None,
            changed: Timestamp(0),
        };
        let names = [META, text_of(uri), RELATIONS, ABSTRACT, OVERVIEW, DONE_FILE, CONTENT];
        for ((place, name), answer) in names.into_iter().enumerate().zip(answers) {
            match answer {
                Ok((entry, bytes)) => found.take(place, &entry, &bytes, has_log),
                Err(error) => match error.kind() {
                    // The `content.md` of a skill is a link to its text, so this is correct.
                    ErrorKind::NotPermitted if place == 6 => found.state.linked = true,
                    ErrorKind::IsADirectory | ErrorKind::NotPermitted => found.in_the_way.push(name),
                    ErrorKind::NotADirectory if place == 5 && error.path() == Some(&uri.file(OUTBOX)) => {
                        found.in_the_way.push(OUTBOX);
                    }
                    _ if error.is_absent() => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(found)
    }

    fn take(&mut self, place: usize, entry: &Entry, bytes: &[u8], has_log: bool) {
        let whole = (bytes.len() <= MAX_CONTENT).then(|| bytes.to_vec());
        let file = File::of(entry, whole);
        let mark = if has_log { Mark::Commit(entry.etag.seq) } else { Mark::Time(entry.mtime) };
        if place != 5 {
            self.changed = self.changed.max(entry.ctime);
        }
        if place == Self::CONTENT {
            self.tags.clone_from(&entry.attributes.tags);
        }
        let state = &mut self.state;
        match place {
            0 => state.meta = Some(file),
            1 => state.content = Some(file),
            2 => state.relations = Some(file),
            3 => state.brief = Some(file),
            4 => state.overview = Some(file),
            5 => self.done = done(bytes),
            _ => {
                state.linked = true;
                self.own_content = Some((file, mark));
            }
        }
        if let Some(slot) = self.marks.get_mut(place) {
            *slot = Some(mark);
        }
    }

    /// Returns whether the abstract (or the overview) was changed after the meta, and after the text.
    pub(super) fn newer(&self, is_brief: bool) -> (bool, bool) {
        let layer = self.marks[if is_brief { Self::BRIEF } else { Self::OVERVIEW }];
        let text = match &self.own_content {
            Some((_, mark)) if self.own_content_is_newer() => Some(*mark),
            _ => self.marks[Self::CONTENT],
        };
        (layer > self.marks[Self::META], layer > text)
    }

    /// Returns true if a file in the place of a skill's link was changed after its text.
    pub(super) fn own_content_is_newer(&self) -> bool {
        self.own_content.as_ref().map(|(_, mark)| *mark) > self.marks[Self::CONTENT]
    }

    /// Returns true if there is no file of a memory.
    pub(super) fn is_empty(&self) -> bool {
        let state = &self.state;
        let files = [&state.meta, &state.content, &state.relations, &state.brief, &state.overview];
        files.iter().all(|file| file.is_none()) && self.done.is_none() && self.own_content.is_none()
    }

    /// Returns true if neither the meta nor the text is here, nor something in the place of them.
    fn has_neither_meta_nor_text(&self) -> bool {
        let state = &self.state;
        let is_in_the_way = |name: &&str| [META, text_of(&state.uri), CONTENT].contains(name);
        state.meta.is_none()
            && state.content.is_none()
            && self.own_content.is_none()
            && !self.in_the_way.iter().any(is_in_the_way)
    }

    /// Returns the time at which the last change is `rest` ago.
    pub(super) fn rests_at(&self, rest: Duration) -> Timestamp {
        Timestamp(self.changed.0.saturating_add(i64::try_from(rest.as_nanos()).unwrap_or(i64::MAX)))
    }
}

/// Parses `.done`: a version.
fn done(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let field = || serde_json::from_str::<serde_json::Value>(text).ok()?.get("version")?.as_u64();
    text.parse().ok().or_else(field)
}

impl Memories<'_> {
    /// Reads the directories of some memories, few bytes at a time, and shows each.
    pub(super) async fn read_found(
        &self,
        memories: &[Uri],
        mut each: impl FnMut(&Uri, Result<Found>),
    ) -> Result<()> {
        // One more byte shows that a file is too long.
        let range = ByteRange { offset: 0, length: MAX_CONTENT as u64 + 1 };
        let mut waiting = memories.iter().map(|uri| (uri, Found::paths(uri)));
        let mut items: Vec<(At, ByteRange)> = Vec::new();
        for uri in memories {
            items.extend(Found::paths(uri).into_iter().map(|path| (At::from(path), range)));
        }
        let mut left = &items[..];
        let mut answers: Vec<Result<(Entry, bytes::Bytes)>> = Vec::new();
        let mut next = waiting.next();
        while let Some((uri, paths)) = &next {
            if answers.len() < paths.len() {
                let fetched = self.fs.fetch_many(left).await?.items;
                if fetched.is_empty() {
                    return Err(Error::new(ErrorKind::Io, "the storage returned no answer"));
                }
                left = &left[fetched.len()..];
                answers.extend(fetched);
                continue;
            }
            let rest = answers.split_off(paths.len());
            let own = std::mem::replace(&mut answers, rest);
            each(uri, Found::of(uri, self.has_log(uri), own));
            next = waiting.next();
        }
        Ok(())
    }

    pub(super) fn has_log(&self, uri: &Uri) -> bool {
        self.fs.capabilities(&uri.dir()).log
    }

    /// Reads further data about a memory whose files leave a doubt.
    pub(super) async fn around_found(&self, found: &mut Found, elsewhere: Option<&str>) -> Result<Around> {
        let uri = &found.state.uri;
        if let Some(dir) = self.fs.lookup(&uri.dir()).await? {
            found.changed = found.changed.max(dir.ctime);
        }
        let mut around = Around::default();
        let dir = uri.dir();
        around.names = self.names_of(&dir).await?;
        let outbox = uri.file(OUTBOX);
        if let Some(names) = self.names_of(&outbox).await? {
            around.has_outbox = true;
            let mut paths: Vec<TreePath> = names
                .iter()
                .filter(|name| name.ends_with(".json"))
                .map(|name| TreePath::from_row(outbox.key(), name))
                .collect();
            if names.iter().any(|name| name == DLQ) {
                let dlq = TreePath::from_row(outbox.key(), DLQ);
                let failed = self.names_of(&dlq).await?.unwrap_or_default();
                around.more_events |= failed.len() == MAX_NAMES;
                paths.extend(failed.iter().map(|name| TreePath::from_row(dlq.key(), name)));
            }
            // Newest first: ids sort by their time.
            paths.sort_unstable_by(|one, other| other.name().cmp(&one.name()));
            around.more_events |= paths.len() > MAX_EVENTS || names.len() == MAX_NAMES;
            for path in paths.into_iter().take(MAX_EVENTS) {
                let [file] = read_all(self.fs, std::array::from_ref(&path)).await?;
                let event = file.and_then(|file| Event::parse(file.bytes.as_ref()?).ok());
                around.events.extend(event.map(|event| (path, event)));
            }
        }
        around.elsewhere = self.elsewhere(uri, elsewhere).await?;
        let is_lost = found.state.meta.is_some() && found.state.known().is_none();
        if is_lost || found.in_the_way.contains(&META) {
            around.newest_meta = self.newest_meta(uri).await?;
        }
        // The end of a memory whose directory was removed is found in the log, by `Follow`.
        if around.names.is_some() && found.has_neither_meta_nor_text() {
            around.ended = self.ended(uri).await?;
        }
        let own = uri.to_string();
        for (_, event) in &around.events {
            let is_own = event.payload.new_uri.as_ref() == Some(&own);
            if event.event_type != EventType::MoveContext || !is_own || event.uri == own {
                continue;
            }
            let Ok(old) = event.uri.parse::<Uri>() else { continue };
            let is_own = old.account() == uri.account() && old.space() == uri.space();
            if is_own && !around.dangling.contains(&event.uri) && self.is_dangling(&old).await? {
                around.dangling.push(event.uri.clone());
            }
        }
        Ok(around)
    }

    /// Returns the first names of a directory; `None` if it does not exist.
    async fn names_of(&self, dir: &TreePath) -> Result<Option<Vec<String>>> {
        let page = Page::default().limit(MAX_NAMES);
        let listing = self.fs.list(&dir.into(), &page).await.optional()?;
        let names = |listing: Listing| listing.items.into_iter().map(|item| item.name.as_str().to_owned());
        Ok(listing.map(|listing| names(listing).collect()))
    }

    /// Locates the memory that a meta names.
    async fn elsewhere(&self, uri: &Uri, said: Option<&str>) -> Result<Elsewhere> {
        let Some(said) = said.filter(|said| *said != uri.to_string()) else { return Ok(Elsewhere::Here) };
        let copy = Elsewhere::There(said.to_owned());
        let Some(old) = said.parse::<Uri>().ok() else { return Ok(copy) };
        // A caller who may write only in one owner's directories must not claim another owner's memory by a
        // meta that names it. On a tree without a log, such a meta may come from a move by garth that was cut
        // short.
        let is_of_owner = old.space() == uri.space() || !self.has_log(uri);
        let is_same = old.account() == uri.account() && is_of_owner;
        if !is_same || old.is_skill() != uri.is_skill() {
            return Ok(copy);
        }
        let [meta, text] = read_all(self.fs, &[META, text_of(&old)].map(|name| old.file(name))).await?;
        Ok(if meta.is_none() && text.is_none() { Elsewhere::Gone(old) } else { copy })
    }

    /// Returns true if edges lead to a memory that does not exist.
    async fn is_dangling(&self, old: &Uri) -> Result<bool> {
        if self.fs.lookup(old.file(META)).await?.is_some() {
            return Ok(false);
        }
        let (memories, more) = self.incoming(old, 1, usize::MAX).await?;
        Ok(more || !memories.is_empty())
    }
}
