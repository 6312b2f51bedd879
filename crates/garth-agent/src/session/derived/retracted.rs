//! Removes text that was derived from retracted messages from the derived files, also those of other
//! sessions. Packs, search and recall then need no check of their own. The history of the files keeps the
//! text.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

use super::derive::DerivePlan;
use super::entry::{Entry, EntryKind, MAX_DERIVED, lines_of, parse_entries};
use super::summary_lines::{covered, without};
use crate::registry::projections::sessions::{WITHDRAWN, retracted};
use crate::session::handle::Sessions;
use crate::session::log::draft::Draft;
use crate::session::log::retractions::Retractions;
use crate::session::log::source::{Resolved, Source, What};
use crate::session::store::files::{CHUNKS, Log, PACK_TEXT, SUMMARY, SWAPPED, TODO};
use crate::session::store::swap_index::Swapped;
use crate::small_file::{File, as_read, read_all};
use garth_engine::error::{ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{At, Moment, Op};

/// Fate of an entry when messages are retracted.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Stays,
    Goes,
    /// Goes if it was in its file when this event was written.
    GoesIfIn(u64),
}

impl Sessions<'_> {
    /// Returns the operations that remove text derived from messages that `events` retract.
    pub(crate) async fn without_retracted(&self, session: &str, events: &[Draft]) -> Result<DerivePlan> {
        let mut plan = DerivePlan { ops: Vec::new(), conditions: Vec::new(), files: Vec::new() };
        let gone = lines_retracted_by(events);
        let Some(first) = gone.iter().map(|lines| *lines.start()).min() else { return Ok(plan) };
        // The next pack writes this file again. The commit of a pack that is being built at this time detects
        // the change.
        plan.ops.push(Op::write(self.file(session, PACK_TEXT)?, String::new()).with_parents());
        self.without_elsewhere(session, &gone, &mut plan).await?;
        self.blank_swapped(session, &gone, &mut plan).await?;
        let names = [SUMMARY, TODO].into_iter().chain(EntryKind::ALL.map(EntryKind::file));
        let names: Vec<&'static str> = names.collect();
        let paths = names.iter().map(|name| self.file(session, name)).collect::<Result<Vec<_>>>()?;
        let read = read_all(self.fs, &paths, MAX_DERIVED).await?;
        for ((name, path), file) in names.into_iter().zip(paths).zip(&read) {
            // Entries that are derived concurrently may come from these messages.
            plan.conditions.push((At::from(&path), as_read(file.as_ref())));
            let Some(file) = file.as_ref() else { continue };
            let text = file.text().unwrap_or_default();
            let kind = EntryKind::ALL.into_iter().find(|kind| kind.file() == name);
            let left = match kind {
                _ if text.trim().is_empty() => continue,
                Some(kind) => self.entries_without((session, kind, text), session, (&gone, None)).await?,
                None => self.text_without(session, file, text, (&gone, first)).await?,
            };
            if let Some(left) = left {
                plan.ops.push(Op::write(path, left));
                plan.files.push(name);
            }
        }
        Ok(plan)
    }

    /// Removes the summaries of swapped ranges that contain retracted messages.
    async fn blank_swapped(
        &self,
        session: &str,
        gone: &[RangeInclusive<u64>],
        plan: &mut DerivePlan,
    ) -> Result<()> {
        let (file, mut index) = self.swap_index(session).await?;
        let has_gone = |entry: &Swapped| {
            entry.lines().is_some_and(|lines| gone.iter().any(|gone| overlap(gone, &lines)))
        };
        let mut is_changed = false;
        for entry in index.iter_mut().filter(|entry| has_gone(entry) && !entry.summary.is_empty()) {
            entry.summary.clear();
            is_changed = true;
        }
        let path = self.file(session, SWAPPED)?;
        if is_changed {
            let text = index.iter().map(Swapped::line).collect::<Result<String>>()?;
            plan.ops.push(Op::write(path.clone(), text));
        }
        plan.conditions.push((At::from(path), as_read(file.as_ref())));
        Ok(())
    }

    /// Returns the entries of a file without those that have a source among the messages `gone` of the
    /// session `of`; `None` if no entry has one. A repeat, which passes the retractions of `of`, leaves
    /// entries that were derived since the retraction, from the other messages of that source.
    pub(super) async fn entries_without(
        &self,
        (session, kind, text): (&str, EntryKind, &str),
        of: &str,
        gone: (&[RangeInclusive<u64>], Option<&Retractions>),
    ) -> Result<Option<String>> {
        // Another program wrote this file. The sources of its text are unknown, so it stays.
        let Ok(mut entries) = parse_entries(kind, text) else { return Ok(None) };
        let mut lost: HashSet<String> = HashSet::new();
        // Entries by the event that decides about them: the past is read once for all entries of an event.
        let mut doubtful: BTreeMap<u64, Vec<&Entry>> = BTreeMap::new();
        for entry in &entries {
            match self.fate_of((session, of), entry, gone).await? {
                Fate::Stays => {}
                Fate::Goes => {
                    lost.insert(entry.id.clone());
                }
                Fate::GoesIfIn(event) => doubtful.entry(event).or_default().push(entry),
            }
        }
        let path = self.file(session, kind.file())?;
        lost.extend(self.older_than(of, (&path, kind), doubtful).await?);
        entries.retain(|entry| !lost.contains(&entry.id));
        Ok((!lost.is_empty()).then(|| lines_of(&entries)))
    }

    /// Returns the fate of an entry of `session` when the messages `gone` of the session `of` are retracted.
    async fn fate_of(
        &self,
        (session, of): (&str, &str),
        entry: &Entry,
        (gone, done): (&[RangeInclusive<u64>], Option<&Retractions>),
    ) -> Result<Fate> {
        let mut last: Option<u64> = None;
        // The summary of a reference describes its target.
        let target = entry.target();
        for source in entry.fixed_sources().into_iter().chain(&target) {
            let lines = match &source.what {
                What::Path(path) => self.lines_of_file((session, of), source, path).await?,
                _ => self.lines_of_source((session, of), source).await?,
            };
            let Some(lines) = lines else { continue };
            for gone in gone.iter().filter(|gone| overlap(gone, &lines)) {
                let Some(done) = done.filter(|done| !done.have_all(&lines)) else { return Ok(Fate::Goes) };
                let both = *gone.start().max(lines.start())..=*gone.end().min(lines.end());
                // An entry that the last of these events removed, and that is there again, was derived since.
                last = last.max(done.last_event(&both));
            }
        }
        Ok(last.map_or(Fate::Stays, Fate::GoesIfIn))
    }

    /// Returns true if all of some messages are retracted.
    async fn are_retracted(&self, session: &str, lines: &RangeInclusive<u64>) -> Result<bool> {
        let first = self.retracted(session, *lines.start()..=*lines.start()).await?;
        // The lookup of a long range costs more. If its first line is not retracted, none is needed.
        if first.is_empty() {
            return Ok(false);
        }
        // A file that is the whole log has no last line.
        let end = *lines.end().min(&self.end(session, Log::Messages).await?.lines);
        let gone = self.retracted(session, *lines.start()..=end).await?;
        // Adjacent lines are in one run: if all lines are retracted, the first run has them all.
        Ok(gone.first().is_some_and(|run| run.contains(lines.start()) && run.contains(&end)))
    }

    /// Returns true if all messages that a source of a session names are retracted.
    pub(super) async fn is_retracted(&self, session: &str, source: &Source) -> Result<bool> {
        let of = source.session.as_deref().unwrap_or(session);
        match self.lines_of_source((session, of), source).await? {
            Some(lines) => self.are_retracted(of, &lines).await,
            None => Ok(false),
        }
    }

    /// Returns the lines of messages of the session `of` to which a source of `session` refers.
    async fn lines_of_source(
        &self,
        (session, of): (&str, &str),
        source: &Source,
    ) -> Result<Option<RangeInclusive<u64>>> {
        // Line numbers of another session do not refer to these messages.
        if source.session.as_deref().unwrap_or(session) != of {
            return Ok(None);
        }
        match &source.what {
            What::Lines(Log::Messages, lines) => return Ok(Some(lines.clone())),
            What::Lines(Log::Events, _) | What::Path(_) => return Ok(None),
            _ => {}
        }
        match self.resolve(session, source).await {
            Ok(Resolved::Lines { session: found, log: Log::Messages, lines, .. }) if found == of => {
                Ok(Some(lines))
            }
            Ok(_) => Ok(None),
            Err(error) if error.is(ErrorKind::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the lines of messages of the session `of` in a file: its log, or a chunk that refers to lines.
    async fn lines_of_file(
        &self,
        (session, of): (&str, &str),
        source: &Source,
        path: &str,
    ) -> Result<Option<RangeInclusive<u64>>> {
        let has_messages = path.ends_with(Log::Messages.file()) || path.contains(CHUNKS);
        if !has_messages {
            return Ok(None);
        }
        let Some(Resolved::File { path, .. }) = self.resolve(session, source).await.optional()? else {
            return Ok(None);
        };
        if path == self.file(of, Log::Messages.file())? {
            return Ok(Some(1..=u64::MAX));
        }
        let chunks = self.file(of, CHUNKS)?;
        if path.parent().as_ref() != Some(&chunks) {
            return Ok(None);
        }
        match self.lines_of_chunk(of, &path).await? {
            Some(lines) => self.lines_of_source((of, of), &lines.parse()?).await,
            None => Ok(None),
        }
    }

    /// Returns the remaining text of a summary or of `todo.md`; `None` if nothing is removed.
    async fn text_without(
        &self,
        session: &str,
        file: &File,
        text: &str,
        (gone, first): (&[RangeInclusive<u64>], u64),
    ) -> Result<Option<String>> {
        let covered = covered(text);
        if covered > 0 {
            // The summary covers none of the retracted messages.
            if first > covered {
                return Ok(None);
            }
            // Each excerpt names its message.
            let is_gone = |line: u64| gone.iter().any(|lines| lines.contains(&line));
            return Ok(Some(without(text, is_gone).unwrap_or_default()));
        }
        // The text names no sources: it may have been derived from any message before it.
        let page = self.raw_lines(session, Log::Messages, first..=first, 1).await?;
        let start = page.items.first().map_or(0, |line| line.bytes.start);
        let messages = At::from(self.file(session, Log::Messages.file())?);
        let then = match self.fs.as_of(&Moment::Seq(file.etag.seq)).await {
            Ok(then) => then.stat(&messages).await.map(|entry| entry.size),
            Err(error) => Err(error),
        };
        Ok(match then {
            // The file was written before the first of these messages. If the past cannot be read, its text
            // is removed.
            Ok(size) if size <= start => None,
            _ => Some(String::new()),
        })
    }
}

/// Returns the lines that events retract.
pub(super) fn lines_retracted_by(events: &[Draft]) -> Vec<RangeInclusive<u64>> {
    let is_one = |event: &&Draft| event.text("type").as_deref() == Some(WITHDRAWN);
    // The projection parses events in the same way: lines without its keys count as not retracted.
    events.iter().filter(is_one).filter_map(|event| retracted(event.line().as_bytes())).collect()
}

fn overlap(one: &RangeInclusive<u64>, other: &RangeInclusive<u64>) -> bool {
    one.start() <= other.end() && other.start() <= one.end()
}
