//! Writes the derived files of a session: summary, facts, decisions, open work and references. All of them
//! are checked and written in one commit, or none.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::entry::{Entry, EntryKind, MAX_DERIVED, lines_of, parse_entries};
use crate::boxed;
use crate::once::{Outcome, PENDING};
use crate::retry::{retry, yield_now};
use crate::session::handle::Sessions;
use crate::session::log::source::{Resolved, Source};
use crate::session::store::files::{Log, SUMMARY, TODO};
use crate::small_file::read_all;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{At, Commit, Op, Precondition, Seq};

/// Limit on the other sessions that the entries of one file name. Each has a key, and a condition of the
/// commit.
const MAX_OTHERS: usize = 1000;

/// Derived files to write; omitted ones stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Derive {
    /// Summary, in Markdown.
    pub summary: Option<String>,
    /// Facts, a JSON object a line.
    pub facts: Option<String>,
    /// Decisions, a JSON object a line.
    pub decisions: Option<String>,
    /// Open work, in Markdown.
    pub todo: Option<String>,
    /// References, a JSON object a line.
    pub refs: Option<String>,
    /// Messages from which all files are derived.
    pub(crate) made_of: Option<DerivedMessages>,
}

impl Derive {
    /// Sets the summary.
    #[must_use]
    pub fn summary(self, summary: impl Into<String>) -> Self {
        Self { summary: Some(summary.into()), ..self }
    }

    /// Sets the facts.
    #[must_use]
    pub fn facts(self, facts: impl Into<String>) -> Self {
        Self { facts: Some(facts.into()), ..self }
    }

    /// Sets the decisions.
    #[must_use]
    pub fn decisions(self, decisions: impl Into<String>) -> Self {
        Self { decisions: Some(decisions.into()), ..self }
    }

    /// Sets the open work.
    #[must_use]
    pub fn todo(self, todo: impl Into<String>) -> Self {
        Self { todo: Some(todo.into()), ..self }
    }

    /// Sets the references.
    #[must_use]
    pub fn refs(self, refs: impl Into<String>) -> Self {
        Self { refs: Some(refs.into()), ..self }
    }
}

/// Messages from which files are derived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DerivedMessages {
    pub(crate) lines: RangeInclusive<u64>,
    /// Lines among these that were retracted before they were read.
    pub(crate) retracted: Vec<RangeInclusive<u64>>,
}

/// Result of [`Sessions::derive`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Derived {
    /// Names of the files that were written, in the session.
    pub files: Vec<String>,
    /// The commit.
    pub seq: Seq,
}

impl Outcome for Derived {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: commit.seq, ..self }
    }
}

impl DerivedMessages {
    /// Returns lines with those of them that are retracted.
    pub(crate) fn new(lines: &RangeInclusive<u64>, gone: &[RangeInclusive<u64>]) -> Self {
        let inside = gone.iter().map(|gone| *gone.start().max(lines.start())..=*gone.end().min(lines.end()));
        Self { lines: lines.clone(), retracted: inside.filter(|gone| !gone.is_empty()).collect() }
    }
}

/// Part of a commit that writes derived files.
pub(crate) struct DerivePlan {
    pub(crate) ops: Vec<Op>,
    /// Chunks and blobs that they name still exist.
    pub(crate) conditions: Vec<(At, Precondition)>,
    pub(crate) files: Vec<&'static str>,
}

/// Provenance of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Why {
    /// Kind of the file that has it.
    pub kind: EntryKind,
    /// The entry.
    pub entry: Entry,
    /// Its sources, resolved.
    pub sources: Vec<(Source, Resolved)>,
}

impl Derive {
    /// Returns the entries of a kind.
    pub(crate) fn entries(&self, kind: EntryKind) -> Option<&String> {
        match kind {
            EntryKind::Fact => self.facts.as_ref(),
            EntryKind::Decision => self.decisions.as_ref(),
            EntryKind::Ref => self.refs.as_ref(),
        }
    }
}

impl Sessions<'_> {
    /// Writes derived files, in one commit.
    ///
    /// # Errors
    /// `InvalidArgument` for invalid entries and repeated ids; `Conflict` for a source that does not exist or
    /// was retracted, and for a chunk or blob of another session; `TooLarge`; `NotFound`; from the
    /// filesystem.
    #[boxed]
    pub async fn derive(&self, session: &str, derive: &Derive) -> Result<Derived> {
        self.once.run(self.derive_as(session, derive, |derived| derived)).await
    }

    /// Writes derived files, and records the outcome that `outcome` builds.
    pub(crate) async fn derive_as<T: Outcome>(
        &self,
        session: &str,
        derive: &Derive,
        outcome: impl Fn(Derived) -> T + Send + Sync,
    ) -> Result<T> {
        retry(|| self.derive_once(session, derive, &outcome)).await
    }

    async fn derive_once<T: Outcome>(
        &self,
        session: &str,
        derive: &Derive,
        outcome: &(impl Fn(Derived) -> T + Send + Sync),
    ) -> Result<T> {
        self.meta(session).await?;
        let DerivePlan { ops, conditions, files } = self.derive_plan(session, derive).await?;
        if ops.is_empty() {
            return Err(Error::invalid("nothing to write: give a summary, facts, decisions, todo or refs"));
        }
        let batch = self.batch(session, ops, "derive context of session")?;
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        let batch = batch.require(self.is_there(session)?, Precondition::Exists);
        let files = files.into_iter().map(str::to_owned).collect();
        self.once.commit(self.fs, batch, outcome(Derived { files, seq: PENDING })).await
    }

    /// Returns the operations that write derived files, with their conditions.
    pub(crate) async fn derive_plan(&self, session: &str, derive: &Derive) -> Result<DerivePlan> {
        let (mut ops, mut files, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        // A retraction removes everything derived from its messages in its own commit. One between this read
        // and the commit would miss the files that are written here.
        let events = At::from(self.file(session, Log::Events.file())?);
        let etag = self.fs.stat(&events).await.optional()?.map(|entry| entry.etag);
        conditions.extend(etag.map(|etag| (events, Precondition::Etag(etag))));
        if let Some(made_of) = &derive.made_of
            && DerivedMessages::new(&made_of.lines, &self.retracted(session, made_of.lines.clone()).await?)
                != *made_of
        {
            let message =
                format!("{session}: messages were retracted meanwhile; derive from the others again");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        for (name, text) in [(SUMMARY, &derive.summary), (TODO, &derive.todo)] {
            let Some(text) = text else { continue };
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            check_size(name, text.len() + end.len())?;
            ops.push(Op::write(self.file(session, name)?, format!("{text}{end}")));
            files.push(name);
        }
        for kind in EntryKind::ALL {
            let Some(text) = derive.entries(kind) else { continue };
            let entries = parse_entries(kind, text)?;
            conditions.extend(self.others_as_read(session, kind, &entries).await?);
            let (entries, named) = self.checked(session, kind, entries).await?;
            conditions.extend(named);
            // With the targets of moving sources, which are added to what was given.
            let text = lines_of(&entries);
            check_size(kind.file(), text.len())?;
            ops.push(Op::write(self.file(session, kind.file())?, text));
            files.push(kind.file());
        }
        Ok(DerivePlan { ops, conditions, files })
    }

    /// Returns the conditions that the other sessions that entries name retract no messages before the
    /// commit.
    async fn others_as_read(
        &self,
        session: &str,
        kind: EntryKind,
        entries: &[Entry],
    ) -> Result<Vec<(At, Precondition)>> {
        let others: BTreeSet<String> =
            entries.iter().flat_map(|entry| entry.other_sessions(session)).collect();
        if others.len() > MAX_OTHERS {
            let message = format!("{}: entries name at most {MAX_OTHERS} other sessions", kind.file());
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let mut conditions = Vec::new();
        for other in others {
            let events = At::from(self.file(&other, Log::Events.file())?);
            let etag = self.fs.stat(&events).await.optional()?.map(|entry| entry.etag);
            conditions.extend(etag.map(|etag| (events, Precondition::Etag(etag))));
        }
        Ok(conditions)
    }

    /// Checks that the sources of entries exist, and adds the targets of moving sources. An entry that is
    /// stored already was checked when it was written, and the logs it names only grow.
    async fn checked(
        &self,
        session: &str,
        kind: EntryKind,
        entries: Vec<Entry>,
    ) -> Result<(Vec<Entry>, Vec<(At, Precondition)>)> {
        let there: std::collections::HashSet<String> =
            self.entries(session, kind).await?.into_iter().map(|entry| entry.line).collect();
        let (mut checked, mut conditions) = (Vec::new(), Vec::new());
        // Entries that are written together name the same lines again and again.
        let mut known: HashMap<String, String> = HashMap::new();
        let mut resolve = async |source: &Source| -> Result<String> {
            let text = source.to_string();
            if let Some(fixed) = known.get(&text) {
                return Ok(fixed.clone());
            }
            let fixed = self.resolve(session, source).await?.fixed();
            known.insert(text, fixed.clone());
            Ok(fixed)
        };
        for entry in entries {
            // A file that it names may be deleted by now: an unchanged entry must not fail for that.
            if there.contains(&entry.line) {
                // A retraction in another session may not have removed this entry yet.
                if !entry.other_sessions(session).is_empty() {
                    self.check_not_retracted(session, kind, &entry).await?;
                }
                checked.push(entry);
                continue;
            }
            let named = self.named_here(session, std::slice::from_ref(&entry), false).await;
            conditions.extend(named.map_err(|error| in_file(kind, error))?);
            let mut resolved = Vec::new();
            // An entry that is written again keeps what its moving sources led to: by now they lead
            // elsewhere.
            let given = if entry.resolved.is_empty() { &[][..] } else { &entry.resolved };
            for source in entry.sources.iter().filter(|source| !source.moves() || given.is_empty()) {
                let fixed = resolve(source).await.map_err(|error| wrong(kind, &entry, &error))?;
                if source.moves() {
                    resolved.push(fixed.parse()?);
                }
            }
            for source in given {
                resolve(source).await.map_err(|error| wrong(kind, &entry, &error))?;
            }
            let entry = if resolved.is_empty() { entry } else { entry.with_resolved(resolved) };
            self.check_not_retracted(session, kind, &entry).await?;
            checked.push(entry);
            yield_now().await;
        }
        Ok((checked, conditions))
    }

    /// Fails for an entry with a source of which all messages are retracted.
    async fn check_not_retracted(&self, session: &str, kind: EntryKind, entry: &Entry) -> Result<()> {
        for source in entry.fixed_sources() {
            if self.is_retracted(session, source).await? {
                let error = Error::new(ErrorKind::NotFound, format!("{source}: was retracted"));
                return Err(wrong(kind, entry, &error));
            }
        }
        Ok(())
    }

    /// Returns the entries of a derived file. Invalid lines are left out.
    pub(crate) async fn entries(&self, session: &str, kind: EntryKind) -> Result<Vec<Entry>> {
        let path = self.file(session, kind.file())?;
        let file = read_all(self.fs, &[path], MAX_DERIVED).await?.pop().flatten();
        let text = file.as_ref().and_then(|file| file.text()).unwrap_or_default();
        Ok(text.lines().filter_map(|line| Entry::parse(kind, line).ok()).collect())
    }

    /// Returns the provenance of an entry of the derived files.
    ///
    /// # Errors
    /// `NotFound` if no file has such an entry, or all messages of one of its sources are retracted; from the
    /// filesystem.
    #[boxed]
    pub async fn why(&self, session: &str, id: &str) -> Result<Why> {
        self.meta(session).await?;
        for kind in EntryKind::ALL {
            let entries = self.entries(session, kind).await?;
            let Some(entry) = entries.into_iter().find(|entry| entry.id == id) else { continue };
            let mut sources = Vec::new();
            for source in entry.fixed_sources() {
                if self.is_retracted(session, source).await? {
                    let message = format!("{id}: {source} was retracted; derive the entry from others again");
                    return Err(Error::new(ErrorKind::NotFound, message));
                }
                sources.push((source.clone(), self.resolve(session, source).await?));
            }
            return Ok(Why { kind, entry, sources });
        }
        let message = format!("{id}: no fact, decision or reference of {session} has this id");
        Err(Error::new(ErrorKind::NotFound, message))
    }
}

/// Checks the size of a derived file as it is written. A longer one has no keys and is not read: a retraction
/// would leave what was derived from its messages there.
fn check_size(name: &str, size: usize) -> Result<()> {
    if size <= MAX_DERIVED {
        return Ok(());
    }
    let message = format!("{name}: has at most {MAX_DERIVED} bytes, and would have {size}");
    Err(Error::new(ErrorKind::TooLarge, message))
}

fn in_file(kind: EntryKind, error: Error) -> Error {
    match error.kind() {
        what @ (ErrorKind::InvalidArgument | ErrorKind::Conflict) => {
            Error::new(what, format!("{}, {error}", kind.file()))
        }
        _ => error,
    }
}

fn wrong(kind: EntryKind, entry: &Entry, error: &Error) -> Error {
    if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) {
        return error.clone();
    }
    // Not `InvalidArgument`: the error depends on stored content, which not every key may read.
    let message = format!("{}, {}: its source does not exist: {error}", kind.file(), entry.id);
    Error::new(ErrorKind::Conflict, message)
}
