//! Garbage collection: removes packs that can be built again, and unreferenced chunks and blobs. Messages and
//! events are removed only if a policy names them.

mod roots;

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::roots::Roots;
use super::content::dedup::{Deduped, index_text};
use super::expiry::policy::{History, Policy};
use super::expiry::schedule::{MARKED, PAUSE, due_at, mark_of};
use super::handle::Sessions;
use super::log::source::{Resolved, Source, What};
use super::store::files::{BLOBS, CHUNKS, DEDUPED, Log, META, PACK, PACK_TEXT, POLICY, SWAPPED};
use super::store::swap_index::Swapped;
use crate::boxed;
use crate::once::{Outcome, PENDING};
use crate::registry::session_lines::COLLECTED;
use crate::retry::{retry, yield_now};
use crate::small_file::as_read;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{At, Commit, Item, Kind, Op, Page, Precondition, Seq, SetAttrs, Timestamp};
use garth_engine::path::TreePath;

/// Minimum time between two looks at a session whose policy gives up messages that the caller keeps.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Limit on the files that one run removes; the next run continues.
const MAX_REMOVED: usize = 10_000;

/// Options of a collection.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Collect {
    /// Reports what would be removed, and changes nothing.
    pub dry: bool,
    /// Keeps messages and events, whatever the policy says.
    pub keep_history: bool,
}

impl Collect {
    /// Returns the options of a dry run.
    pub fn dry() -> Self {
        Self { dry: true, ..Self::default() }
    }

    /// Keeps messages and events, whatever the policy says.
    #[must_use]
    pub fn keep_history(self) -> Self {
        Self { keep_history: true, ..self }
    }
}

/// Result of a collection, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Collection {
    /// Removed files, with the reason.
    pub removed: Vec<Collected>,
    /// The commit; `None` if nothing was removed.
    pub seq: Option<Seq>,
    /// True if there can be more.
    pub more: bool,
}

impl Outcome for Collection {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: self.seq.map(|_| commit.seq), ..self }
    }
}

/// Removed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CollectedFile", deny_unknown_fields)]
pub struct Collected {
    /// Name of the file in the session.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Reason of the removal, a text for people.
    pub reason: Cow<'static, str>,
}

/// Findings of one run.
#[derive(Default)]
struct Findings {
    collection: Collection,
    ops: Vec<Op>,
    /// Files to remove.
    gone: HashSet<TreePath>,
    conditions: Vec<(At, Precondition)>,
    /// True if messages or events are removed.
    history: bool,
    /// True if messages are removed.
    messages: bool,
    /// Time of the next look, for each of the files that stay.
    due: Vec<(&'static str, Timestamp)>,
}

impl Sessions<'_> {
    /// Collects a session by its `context/gc.policy`.
    ///
    /// # Errors
    /// `Corrupt` for an invalid policy; `RuleViolation` if it gives up messages or events and the
    /// caller may not override rules; `NotFound`; from the filesystem.
    #[boxed]
    pub async fn collect(&self, session: &str, how: &Collect) -> Result<Collection> {
        if how.dry {
            return self.collect_once(session, how).await;
        }
        self.once.run(retry(|| self.collect_once(session, how))).await
    }

    async fn collect_once(&self, session: &str, how: &Collect) -> Result<Collection> {
        let (meta_file, mut meta) = self.meta(session).await?;
        let (file, policy) = self.policy(session).await?;
        let now = self.env.now();
        let mut found = Findings::default();
        // A run under the old policy must not remove what a new one keeps.
        found.conditions.push((At::from(self.file(session, POLICY)?), as_read(file.as_ref())));
        // The order matters: a pack that stays refers to chunks, and removing a chunk can release the blob
        // found in it.
        self.due_pack(session, &policy, now, &mut found).await?;
        let pack_stays = !found.collection.removed.iter().any(|one| one.name == PACK);
        let (roots, unchanged) = self.roots(session, pack_stays).await?;
        found.conditions.extend(unchanged);
        self.due_chunks(session, &policy, now, &roots, &mut found).await?;
        self.due_blobs(session, &policy, now, &roots, &mut found).await?;
        if let (Some(history), Some(since)) = (policy.history, &meta.finished_at) {
            self.due_history(session, &policy, history, (since, now), how, &mut found).await?;
        }
        let marks = if how.dry { Vec::new() } else { self.new_marks(session, &found).await? };
        let Findings { mut collection, mut ops, mut conditions, history, messages, .. } = found;
        if how.dry {
            return Ok(collection);
        }
        if collection.removed.is_empty() && marks.is_empty() {
            let batch = self.batch(session, ops, "collect nothing of session")?;
            return self.once.unchanged(self.fs, batch, collection).await;
        }
        ops.extend(marks);
        if !collection.removed.is_empty() {
            let count = collection.removed.len().to_string();
            let what = policy.history.filter(|_| history).map(|(what, _)| what.as_str());
            let mut fields = vec![("files", &*count)];
            fields.extend(what.map(|what| ("history", what)));
            if let Some(what) = what.filter(|_| messages) {
                meta.other.insert(COLLECTED.to_owned(), what.into());
                ops.push(self.meta_op(session, &meta)?);
                conditions.push((self.is_there(session)?, as_read(Some(&meta_file))));
            }
            // Last: the log of events may be emptied by this commit, and the event has to stay.
            self.add_event(&mut ops, session, "context.collected", &fields).await?;
        }
        let batch = self.batch(session, ops, "collect context of session")?;
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        let batch = batch.require(self.is_there(session)?, Precondition::Exists);
        collection.seq = Some(PENDING);
        // Logs are append-only: the rule refuses whoever may not override it, and the error says what it
        // takes.
        self.once.commit(self.fs, batch, collection).await.map_err(|error| match error.is(ErrorKind::RuleViolation) {
            true if history => Error::new(
                ErrorKind::RuleViolation,
                format!("{session}: gc.policy removes messages or events, which requires the right to override rules"),
            ),
            _ => error,
        })
    }

    /// Removes the pack if it is old and can be built again.
    async fn due_pack(
        &self,
        session: &str,
        policy: &Policy,
        now: Timestamp,
        found: &mut Findings,
    ) -> Result<()> {
        let path = self.file(session, PACK)?;
        let Some(entry) = self.fs.lookup(&path).await? else { return Ok(()) };
        found.conditions.push((At::from(&path), Precondition::Etag(entry.etag)));
        // A `pack.json` of another program cannot be rebuilt, and stays.
        match self.packed(session, None).await {
            Err(error) if error.is(ErrorKind::NotFound) || error.is(ErrorKind::Corrupt) => return Ok(()),
            pack => drop(pack?),
        }
        if !is_older(entry.mtime, policy.pack_ttl, now) {
            found.due.push((PACK, due_at(entry.mtime, policy.pack_ttl)));
            return Ok(());
        }
        // Tried rather than assumed: sources may be beyond retention.
        if self.replay(session, None).await.is_err() {
            return Ok(());
        }
        // Without its description, the text can be neither extended nor replayed.
        for name in [PACK, PACK_TEXT] {
            let path = self.file(session, name)?;
            if let Some(entry) = self.fs.lookup(&path).await? {
                found.remove(name.to_owned(), entry.size, "it can be built again", path);
            }
        }
        Ok(())
    }

    /// Removes unreferenced chunks, and index entries of cuts that no pack needs.
    async fn due_chunks(
        &self,
        session: &str,
        policy: &Policy,
        now: Timestamp,
        roots: &Roots,
        found: &mut Findings,
    ) -> Result<()> {
        let (file, index) = self.swap_index(session).await?;
        // An index that cannot be read may name any chunk: then none is removed.
        let is_blind = file.as_ref().is_some_and(|file| file.text().is_none());
        // Entries of cuts do not keep their chunks: the pack itself is a root while it needs them.
        let kept: HashSet<&str> =
            index.iter().filter(|entry| !entry.cut).map(|entry| entry.id.as_str()).collect();
        let mut gone = HashSet::new();
        let mut due = None;
        for item in self.files_in(session, CHUNKS, found).await? {
            let name = item.name.as_str();
            let is_kept = is_blind || kept.contains(name) || roots.has(name);
            let Some(entry) = item.entry.as_ref() else { continue };
            if is_kept || !is_older(entry.mtime, policy.swap_ttl, now) {
                // A referenced chunk has no due time of its own. It is examined again after `swap_ttl`.
                let again = due_at(if is_kept { now } else { entry.mtime }, policy.swap_ttl);
                due = Some(due.map_or(again, |due: Timestamp| due.min(again)));
                continue;
            }
            let path = self.file(session, &format!("{CHUNKS}/{name}"))?;
            found.remove(format!("{CHUNKS}/{name}"), entry.size, "nothing refers to it", path);
            gone.insert(name.to_owned());
        }
        found.due.extend(due.map(|due| (SWAPPED, due)));
        if index.iter().any(|entry| gone.contains(&entry.id)) {
            let left: Vec<Swapped> = index.into_iter().filter(|entry| !gone.contains(&entry.id)).collect();
            let text = left.iter().map(Swapped::line).collect::<Result<String>>()?;
            let path = self.file(session, SWAPPED)?;
            found.conditions.push((At::from(&path), as_read(file.as_ref())));
            found.ops.push(Op::write(path, text));
        } else {
            found.conditions.push((At::from(self.file(session, SWAPPED)?), as_read(file.as_ref())));
        }
        Ok(())
    }

    /// Removes blobs with too few references.
    async fn due_blobs(
        &self,
        session: &str,
        policy: &Policy,
        now: Timestamp,
        roots: &Roots,
        found: &mut Findings,
    ) -> Result<()> {
        let (file, index) = self.dedup_index(session).await?;
        let blobs = self.files_in(session, BLOBS, found).await?;
        let known: HashSet<&str> = index.iter().map(|entry| entry.hash.as_str()).collect();
        // An index that cannot be read may name any blob. Without an index nothing refers to a blob.
        let is_blind = file.as_ref().is_some_and(|file| file.text().is_none());
        let stays = |name: &str| is_blind || policy.dedup_min_refs == 0 || roots.has(name);
        let blob = |name: &str| self.file(session, &format!("{BLOBS}/{name}"));
        let mut going = found.gone.clone();
        for item in blobs.iter().filter(|item| !known.contains(item.name.as_str())) {
            going.extend((!stays(item.name.as_str())).then(|| blob(item.name.as_str())).transpose()?);
        }
        let mut live = Vec::with_capacity(index.len());
        for entry in &index {
            yield_now().await;
            live.push(self.live_refs(session, entry).await?);
        }
        // A blob that was found in a chunk or blob that is removed has one reference less. So blobs are
        // judged again until no further one is removed.
        let mut gone = vec![false; index.len()];
        loop {
            let before = going.len();
            for ((entry, live), gone) in index.iter().zip(&live).zip(&mut gone) {
                let refs = live.iter().filter(|(_, file)| file.as_ref().is_none_or(|at| !going.contains(at)));
                *gone = !stays(&entry.hash) && (refs.count() as u64) < policy.dedup_min_refs;
                going.extend(gone.then(|| blob(&entry.hash)).transpose()?);
            }
            if going.len() == before {
                break;
            }
        }
        let mut left: Vec<Deduped> = Vec::new();
        for ((entry, live), gone) in index.iter().zip(live).zip(gone) {
            let is_live = |file: &Option<TreePath>| file.as_ref().is_none_or(|at| !going.contains(at));
            // The log itself has this content: the entry stays without a blob, as long as the log does.
            let refs = live.into_iter().filter(|(_, file)| if gone { file.is_none() } else { is_live(file) });
            let entry = Deduped { refs: refs.map(|(text, _)| text).collect(), ..entry.clone() };
            left.extend((!gone || !entry.refs.is_empty()).then_some(entry));
        }
        for item in blobs {
            let (name, path) = (item.name.as_str(), blob(item.name.as_str())?);
            if !going.contains(&path) {
                found.due.retain(|(name, _)| *name != DEDUPED);
                found.due.push((DEDUPED, due_at(now, policy.swap_ttl)));
                continue;
            }
            let bytes = item.entry.as_ref().map_or(0, |entry| entry.size);
            found.remove(format!("{BLOBS}/{name}"), bytes, "too little refers to it", path);
        }
        let path = self.file(session, DEDUPED)?;
        found.conditions.push((At::from(&path), as_read(file.as_ref())));
        // Dropping dead references is not worth a commit of its own.
        if left != index && !found.collection.removed.is_empty() {
            found.ops.push(Op::write(path, index_text(&left)?));
        }
        Ok(())
    }

    /// Returns the sources of an entry that still exist, each with its file, or `None` for lines of a log.
    async fn live_refs(&self, session: &str, entry: &Deduped) -> Result<Vec<(String, Option<TreePath>)>> {
        let mut live = Vec::new();
        for text in &entry.refs {
            let Ok(source) = text.parse::<Source>() else { continue };
            match self.resolve(session, &source).await {
                // `swap:ID` leads to lines only while its chunk exists.
                Ok(Resolved::Lines { .. }) => live.push((text.clone(), self.chunk_of(session, &source)?)),
                Ok(Resolved::File { path, .. }) => live.push((text.clone(), Some(path))),
                Err(error) if error.is(ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(live)
    }

    /// Returns the chunk that a source names.
    fn chunk_of(&self, session: &str, source: &Source) -> Result<Option<TreePath>> {
        let What::Swap(id) = &source.what else { return Ok(None) };
        let of = source.session.as_deref().unwrap_or(session);
        self.file(of, &format!("{CHUNKS}/{id}")).map(Some)
    }

    /// Archives or deletes messages and events of a finished session, if the policy says so.
    async fn due_history(
        &self,
        session: &str,
        policy: &Policy,
        (what, ttl): (History, Duration),
        (since, now): (&str, Timestamp),
        how: &Collect,
        found: &mut Findings,
    ) -> Result<()> {
        let since = Timestamp::parse_rfc3339(since)?;
        if !is_older(since, ttl, now) {
            found.due.push((META, due_at(since, ttl)));
            return Ok(());
        }
        // A caller that may remove messages can run later: the session becomes due again, but not
        // continuously.
        if how.keep_history {
            found.due.push((META, due_at(now, ttl.max(DAY))));
            return Ok(());
        }
        let logs = [(Log::Messages, policy.keep_messages), (Log::Events, policy.keep_events)];
        let has_retracted = self.has_retracted(session).await?;
        for (log, _) in logs.into_iter().filter(|(_, keep)| !keep) {
            // Without the events that retracted them, retracted messages would be shown again.
            if log == Log::Events && policy.keep_messages && has_retracted {
                continue;
            }
            let path = self.file(session, log.file())?;
            // A log that was collected before would give an empty archive.
            let Some(entry) = self.fs.lookup(&path).await?.filter(|entry| entry.size > 0) else { continue };
            found.conditions.push((At::from(&path), Precondition::Etag(entry.etag)));
            let reason = match what {
                History::Archive => {
                    let to = self.free_archive(session, log, now).await?;
                    found.ops.push(Op::mkdir_all(self.file(session, "archive")?));
                    found.ops.push(Op::copy(path.clone(), to.clone()));
                    if has_retracted {
                        // Search leaves out retracted lines of a log by key. An archive has no such keys.
                        found.ops.push(Op::set_attrs(to.clone(), SetAttrs::new().searchable(false)));
                    }
                    // An archive only grows: if another collection took the name, this one looks again.
                    found.conditions.push((At::from(to), Precondition::Absent));
                    "the policy archives it"
                }
                History::Delete => "the policy deletes it",
            };
            found.ops.push(Op::truncate(path, 0));
            found.messages |= log == Log::Messages;
            let (name, bytes, reason) = (log.file().to_owned(), entry.size, reason.into());
            found.collection.removed.push(Collected { name, bytes, reason });
            found.history = true;
        }
        Ok(())
    }

    /// Returns a path for an archive of a log that is free: `archive/messages.jsonl` for the first, then
    /// `archive/messages-part{ms}.jsonl`.
    async fn free_archive(&self, session: &str, log: Log, now: Timestamp) -> Result<TreePath> {
        let (name, ending) = log.file().split_once('.').unwrap_or((log.file(), ""));
        let mut path = self.file(session, &format!("archive/{}", log.file()))?;
        let mut number = now.0 / 1_000_000;
        // Two collections in one millisecond get different numbers.
        while self.fs.lookup(&path).await?.is_some() {
            path = self.file(session, &format!("archive/{name}-part{number}.{ending}"))?;
            number += 1;
        }
        Ok(path)
    }

    /// Returns the new marks of the files that stay. Marks in the future are left as they are.
    async fn new_marks(&self, session: &str, found: &Findings) -> Result<Vec<Op>> {
        let (now, mut ops) = (self.env.now(), Vec::new());
        let is_written = |name: &str| found.collection.removed.iter().any(|one| one.name == name);
        for name in MARKED.into_iter().filter(|name| !is_written(name)) {
            let path = self.file(session, name)?;
            let Some(mark) = self.fs.lookup(&path).await?.as_ref().and_then(mark_of) else { continue };
            // A mark in the future is not due, or was just set by another writer: setting it again would be a
            // needless commit.
            if mark <= now {
                let due = found.due.iter().find(|(of, _)| *of == name).map(|(_, due)| *due);
                // A run removes a bounded number of files: the rest is due again soon.
                let due = due.or_else(|| found.collection.more.then(|| now.plus_seconds(PAUSE)));
                let attrs = self.marked(&path, due);
                ops.push(Op::set_attrs(path, attrs));
            }
        }
        Ok(ops)
    }

    /// Returns the files of a directory of the session, as many as one run can remove.
    async fn files_in(&self, session: &str, dir: &str, found: &mut Findings) -> Result<Vec<Item>> {
        let dir = At::from(self.file(session, dir)?);
        let (mut files, mut page) = (Vec::new(), Page::default().with_entries());
        loop {
            let Some(listing) = self.fs.list(&dir, &page).await.optional()? else {
                return Ok(files);
            };
            let last = listing.items.last().map(|item| item.name.clone());
            files.extend(listing.items.into_iter().filter(|item| item.kind == Kind::File));
            // A directory of any size must neither fill the memory nor make one commit too large.
            if files.len() >= MAX_REMOVED {
                found.collection.more = true;
                return Ok(files);
            }
            match last.filter(|_| listing.more) {
                Some(last) => page.after = Some(last),
                None => return Ok(files),
            }
        }
    }
}

impl Findings {
    fn remove(&mut self, name: String, bytes: u64, reason: &'static str, path: TreePath) {
        self.collection.removed.push(Collected { name, bytes, reason: reason.into() });
        self.gone.insert(path.clone());
        self.ops.push(Op::remove_file(path));
    }
}

fn is_older(than: Timestamp, ttl: Duration, now: Timestamp) -> bool {
    let ttl = i64::try_from(ttl.as_nanos()).unwrap_or(i64::MAX);
    now.0.saturating_sub(than.0) >= ttl
}
