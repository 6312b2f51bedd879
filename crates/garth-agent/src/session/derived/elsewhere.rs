//! Removes entries that other sessions derived from retracted messages. Their files are found by the key of
//! the session that they name.

use std::ops::RangeInclusive;

use super::derive::DerivePlan;
use super::entry::{Entry, EntryKind, MAX_DERIVED};
use super::retracted::lines_retracted_by;
use crate::registry::projections::DERIVED_FROM;
use crate::registry::projections::derived_from::derived_from_key;
use crate::registry::projections::sessions::retracted_keys;
use crate::retry::{retry, yield_now};
use crate::session::handle::Sessions;
use crate::session::log::draft::Draft;
use crate::session::store::files::{Log, PACK_TEXT};
use crate::small_file::{as_read, read_all};
use garth_engine::error::Result;
use garth_engine::model::{At, Author, ByteRange, FindLine, FindQuery, Moment, Op, Precondition};
use garth_engine::path::TreePath;

/// Limit on the files of other sessions that the commit of a retraction rewrites.
const MAX_IN_COMMIT: usize = 64;

/// Limit on the retracted lines of a source whose events are looked up.
const MAX_LINES: usize = 1024;

/// Change of a derived file of another session.
struct Rewrite {
    ops: Vec<Op>,
    condition: (At, Precondition),
}

impl Sessions<'_> {
    /// Adds to `plan` the operations that remove entries of other sessions that were derived from messages of
    /// `session`: those of the first 64 files that this handle reaches.
    pub(super) async fn without_elsewhere(
        &self,
        session: &str,
        gone: &[RangeInclusive<u64>],
        plan: &mut DerivePlan,
    ) -> Result<()> {
        let found = self.fs.find(&self.derived_from(session)?.limit(MAX_IN_COMMIT)).await?;
        for path in found.items.into_iter().map(|item| item.path).filter(|path| self.writes(path)) {
            if let Some(Rewrite { ops, condition }) = self.rewrite(&path, session, (gone, false)).await? {
                plan.ops.extend(ops);
                plan.conditions.push(condition);
            }
        }
        Ok(())
    }

    /// Removes the remaining entries of other sessions that were derived from retracted messages of
    /// `session`, a file a commit: of sessions that this handle does not reach, of further files, and of
    /// those derived during the retraction. A repeat leaves entries that were derived since the retraction.
    ///
    /// # Errors
    /// From the filesystem.
    pub(crate) async fn remove_elsewhere(
        &self,
        session: &str,
        (gone, is_repeat): (&[RangeInclusive<u64>], bool),
    ) -> Result<()> {
        // A session with fewer listeners may have derived entries: this handle sees neither the session nor
        // the entries, but they must not outlast the messages.
        let all = self.on(self.whole()).by(Author::default());
        let mut after = None;
        loop {
            let found = all.fs.find(&all.derived_from(session)?.after(after)).await?;
            for path in found.items.into_iter().map(|item| item.path) {
                retry(|| all.remove_from(&path, session, (gone, is_repeat))).await?;
                yield_now().await;
            }
            after = found.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Does [`Self::remove_elsewhere`] for the messages that these events have retracted.
    pub(crate) async fn remove_retracted_elsewhere(
        &self,
        session: &str,
        events: &[Draft],
        is_repeat: bool,
    ) -> Result<()> {
        let gone = lines_retracted_by(events);
        if gone.is_empty() { Ok(()) } else { self.remove_elsewhere(session, (&gone, is_repeat)).await }
    }

    /// Does [`Self::remove_elsewhere`] for all messages of the session that are retracted by now: finishes
    /// retractions that were interrupted after their first commit.
    pub(crate) async fn finish_retractions(&self, session: &str) -> Result<()> {
        if !self.has_retracted(session).await? {
            return Ok(());
        }
        self.remove_elsewhere(session, (&[1..=u64::MAX], true)).await
    }

    /// Returns true if an entry was in its file when a message among these lines was retracted. False if it
    /// was derived since, from the other messages. True if the past cannot be read: what was retracted must
    /// not stay, and what is missing is derived again.
    pub(super) async fn precedes_retraction(
        &self,
        of: &str,
        lines: &RangeInclusive<u64>,
        (file, kind, entry): (&TreePath, EntryKind, &Entry),
    ) -> Result<bool> {
        let end = *lines.end().min(&self.end(of, Log::Messages).await?.lines);
        let gone = self.retracted(of, *lines.start()..=end).await?;
        let gone = gone.iter().flat_map(|run| *run.start()..=*run.end().min(&end));
        let mut last: Option<FindLine> = None;
        for (count, line) in gone.enumerate() {
            if count == MAX_LINES {
                return Ok(true);
            }
            for key in retracted_keys(line) {
                let found =
                    self.keyed(of, Log::Events, &key, 0, 1).await?.into_iter().find_map(|item| item.line);
                let is_later = |event: &FindLine| last.as_ref().is_none_or(|last| last.number < event.number);
                last = found.filter(is_later).or(last);
            }
        }
        let Some(FindLine { bytes, .. }) = last else { return Ok(false) };
        let range = ByteRange { offset: bytes.start, length: bytes.end - bytes.start };
        let blame = self.fs.blame(&At::from(self.file(of, Log::Events.file())?), range, 1).await;
        let commit = blame.ok().and_then(|blame| blame.runs.first()?.commit);
        let Some(commit) = commit else { return Ok(true) };
        let Ok(then) = self.fs.as_of(&Moment::Seq(commit)).await else { return Ok(true) };
        let Ok(read) = read_all(&*then, std::slice::from_ref(file), MAX_DERIVED).await else {
            return Ok(true);
        };
        let Some(file) = read.into_iter().next().flatten() else { return Ok(false) };
        let Some(text) = file.text() else { return Ok(true) };
        Ok(text.lines().any(|line| Entry::parse(kind, line).is_ok_and(|was| was.line == entry.line)))
    }

    async fn remove_from(
        &self,
        path: &TreePath,
        of: &str,
        (gone, is_repeat): (&[RangeInclusive<u64>], bool),
    ) -> Result<()> {
        let Some(Rewrite { ops, condition }) = self.rewrite(path, of, (gone, is_repeat)).await? else {
            return Ok(());
        };
        let Some((session, _)) = self.derived_file(path) else { return Ok(()) };
        // In the name of the session that has the file: what is left of it is still its own.
        let class = self.class_of(&session).await?;
        let author =
            class.into_iter().fold(Author::default(), |author, class| author.with_class(class.as_str()));
        let batch = self.clone().by(author).batch(&session, ops, "remove what was retracted from session");
        self.fs.commit(batch.require(condition.0, condition.1)).await?;
        Ok(())
    }

    /// Returns the change of a derived file of another session; `None` if nothing is removed.
    async fn rewrite(
        &self,
        path: &TreePath,
        of: &str,
        gone: (&[RangeInclusive<u64>], bool),
    ) -> Result<Option<Rewrite>> {
        let Some((session, kind)) = self.derived_file(path).filter(|(session, _)| session != of) else {
            return Ok(None);
        };
        let file = read_all(self.fs, std::slice::from_ref(path), MAX_DERIVED).await?.pop().flatten();
        let text = file.as_ref().and_then(|file| file.text()).unwrap_or_default();
        let Some(left) = self.entries_without((&session, kind, text), of, gone).await? else {
            return Ok(None);
        };
        let ops = vec![
            Op::write(path.clone(), left),
            Op::write(self.file(&session, PACK_TEXT)?, String::new()).with_parents(),
        ];
        Ok(Some(Rewrite { ops, condition: (At::from(path), as_read(file.as_ref())) }))
    }

    /// Returns the session and the kind of a derived file.
    fn derived_file(&self, path: &TreePath) -> Option<(String, EntryKind)> {
        let session = path.parent()?.parent()?.name()?.to_owned();
        let is_file = |kind: &EntryKind| self.file(&session, kind.file()).is_ok_and(|file| file == *path);
        let kind = EntryKind::ALL.into_iter().find(is_file)?;
        Some((session, kind))
    }

    fn derived_from(&self, session: &str) -> Result<FindQuery> {
        Ok(FindQuery::new(DERIVED_FROM).equal(&derived_from_key(session)).within(self.home()?))
    }
}
