//! Removes entries that other sessions derived from retracted messages. Their files are found by the key of
//! the session that they name.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

use super::derive::DerivePlan;
use super::entry::{Entry, EntryKind, MAX_DERIVED};
use super::retracted::lines_retracted_by;
use crate::registry::projections::DERIVED_FROM;
use crate::registry::projections::derived_from::derived_from_key;
use crate::retry::{retry, yield_now};
use crate::session::handle::Sessions;
use crate::session::log::draft::Draft;
use crate::session::log::retractions::Retractions;
use crate::session::store::files::{Log, PACK_TEXT};
use crate::small_file::{as_read, read_all};
use garth_engine::error::Result;
use garth_engine::model::{At, Author, ByteRange, FindQuery, Moment, Op, Precondition, Seq};
use garth_engine::path::TreePath;

/// Limit on the files of other sessions that the commit of a retraction rewrites.
const MAX_IN_COMMIT: usize = 64;

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
            if let Some(Rewrite { ops, condition }) = self.rewrite(&path, session, (gone, None)).await? {
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
        let (mut after, mut done) = (None, None);
        loop {
            let found = all.fs.find(&all.derived_from(session)?.after(after)).await?;
            if is_repeat && done.is_none() && !found.items.is_empty() {
                // Read once for all files.
                done = Some(all.retractions_of(session).await?);
            }
            for path in found.items.into_iter().map(|item| item.path) {
                retry(|| all.remove_from(&path, session, (gone, done.as_ref()))).await?;
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

    /// Returns the ids of those entries of a file that were in it when an event of `of` was written, which is
    /// given by its position. The others were derived since, from messages that are left. Also returns
    /// entries whose past cannot be read: what was retracted must not stay, and what is missing is derived
    /// again. Reads the past once for each commit of these events.
    pub(super) async fn older_than(
        &self,
        of: &str,
        (file, kind): (&TreePath, EntryKind),
        entries: BTreeMap<u64, Vec<&Entry>>,
    ) -> Result<Vec<String>> {
        let events = At::from(self.file(of, Log::Events.file())?);
        let mut by_commit: BTreeMap<Option<Seq>, Vec<&Entry>> = BTreeMap::new();
        for (event, entries) in entries {
            let blame = self.fs.blame(&events, ByteRange { offset: event, length: 1 }, 1).await;
            let commit = blame.ok().and_then(|blame| blame.runs.first()?.commit);
            by_commit.entry(commit).or_default().extend(entries);
        }
        let mut older = Vec::new();
        for (commit, entries) in by_commit {
            let then = match commit {
                Some(commit) => self.entries_at(commit, file, kind).await,
                None => None,
            };
            let is_older = |entry: &&Entry| then.as_ref().is_none_or(|then| then.contains(&entry.line));
            older.extend(entries.into_iter().filter(is_older).map(|entry| entry.id.clone()));
            yield_now().await;
        }
        Ok(older)
    }

    /// Returns the lines of the entries that a file had after a commit; `None` if they cannot be read.
    async fn entries_at(&self, commit: Seq, file: &TreePath, kind: EntryKind) -> Option<HashSet<String>> {
        let then = self.fs.as_of(&Moment::Seq(commit)).await.ok()?;
        let read = read_all(&*then, std::slice::from_ref(file), MAX_DERIVED).await.ok()?;
        let Some(file) = read.into_iter().next().flatten() else { return Some(HashSet::new()) };
        let entries = file.text()?.lines().filter_map(|line| Entry::parse(kind, line).ok());
        Some(entries.map(|entry| entry.line).collect())
    }

    async fn remove_from(
        &self,
        path: &TreePath,
        of: &str,
        gone: (&[RangeInclusive<u64>], Option<&Retractions>),
    ) -> Result<()> {
        let Some(Rewrite { ops, condition }) = self.rewrite(path, of, gone).await? else {
            return Ok(());
        };
        let Some((session, _)) = self.derived_file(path) else { return Ok(()) };
        // In the name of the session that has the file: what is left of it is still its own.
        let class = self.class_of(&session).await?;
        let class = class.map(|class| class.of_requests());
        let author =
            class.into_iter().fold(Author::default(), |author, class| author.with_class(class.as_str()));
        let batch = self.clone().by(author).batch(&session, ops, "remove what was retracted from session")?;
        self.fs.commit(batch.require(condition.0, condition.1).even_when_full()).await?;
        Ok(())
    }

    /// Returns the change of a derived file of another session; `None` if nothing is removed.
    async fn rewrite(
        &self,
        path: &TreePath,
        of: &str,
        gone: (&[RangeInclusive<u64>], Option<&Retractions>),
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
