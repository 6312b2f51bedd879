//! Writes what is made of a session for a model: its summary, facts, decisions, open work and references. All
//! that is given is checked and written in one commit, or nothing is.

use super::entry::{Entry, EntryKind, MAX_DERIVED, lines_of, parse_entries};
use crate::breathe::breathe;
use crate::session::handle::Sessions;
use crate::session::log::source::{Resolved, Source};
use crate::session::store::files::{SUMMARY, TODO};
use crate::small::read_all;
use crate::tries::Tries;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{At, Op, Precondition, Seq};

/// What to write; what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Derive {
    /// What the session is about, in Markdown.
    pub summary: Option<String>,
    /// What is so: a JSON object a line.
    pub facts: Option<String>,
    /// What was decided.
    pub decisions: Option<String>,
    /// What is left to do, in Markdown.
    pub todo: Option<String>,
    /// What lies elsewhere.
    pub refs: Option<String>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Derived {
    /// The names of the files, in the session.
    pub files: Vec<&'static str>,
    /// The commit.
    pub seq: Seq,
}

/// What writes derived files, as a part of a commit.
pub(crate) struct DerivePlan {
    pub(crate) ops: Vec<Op>,
    /// What they name may be collected meanwhile.
    pub(crate) conditions: Vec<(At, Precondition)>,
    pub(crate) files: Vec<&'static str>,
}

/// What an entry was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Why {
    /// The file that has it.
    pub kind: EntryKind,
    /// The entry.
    pub entry: Entry,
    /// Each source, and where it leads.
    pub sources: Vec<(Source, Resolved)>,
}

impl Derive {
    /// The entries of a kind.
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
    /// `InvalidArgument` for entries of another form, ids that are there twice, and sources that lead
    /// nowhere; `TooLarge`; `NotFound`; from the filesystem.
    pub async fn derive(&self, session: &str, derive: &Derive) -> Result<Derived> {
        let mut tries = Tries::default();
        loop {
            match self.derive_once(session, derive).await {
                Err(error) if tries.again(&error) => {}
                done => return done,
            }
        }
    }

    async fn derive_once(&self, session: &str, derive: &Derive) -> Result<Derived> {
        self.meta(session).await?;
        let DerivePlan { ops, conditions, files } = self.deriving(session, derive).await?;
        if ops.is_empty() {
            return Err(Error::invalid("say what to write: a summary, facts, decisions, todo or refs"));
        }
        let batch = self.batch(session, ops, "derive context of session");
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        let commit = self.fs.commit(batch.require(self.is_there(session)?, Precondition::Exists)).await?;
        Ok(Derived { files, seq: commit.seq })
    }

    /// What writes derived files.
    pub(crate) async fn deriving(&self, session: &str, derive: &Derive) -> Result<DerivePlan> {
        let (mut ops, mut files, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        for (name, text) in [(SUMMARY, &derive.summary), (TODO, &derive.todo)] {
            let Some(text) = text else { continue };
            if text.len() > MAX_DERIVED {
                let message = format!("{name}: has at most {MAX_DERIVED} bytes");
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            ops.push(Op::write(self.file(session, name)?, format!("{text}{end}")));
            files.push(name);
        }
        for kind in EntryKind::ALL {
            let Some(text) = derive.entries(kind) else { continue };
            let (entries, named) = self.checked(session, kind, parse_entries(kind, text)?).await?;
            conditions.extend(named);
            ops.push(Op::write(self.file(session, kind.file())?, lines_of(&entries)));
            files.push(kind.file());
        }
        Ok(DerivePlan { ops, conditions, files })
    }

    /// Entries whose sources lead somewhere. One that is there already was checked when it was written, and
    /// what it names only grows.
    async fn checked(
        &self,
        session: &str,
        kind: EntryKind,
        entries: Vec<Entry>,
    ) -> Result<(Vec<Entry>, Vec<(At, Precondition)>)> {
        let there: std::collections::HashSet<String> =
            self.entries(session, kind).await?.into_iter().map(|entry| entry.line).collect();
        let (mut checked, mut conditions) = (Vec::new(), Vec::new());
        for entry in entries {
            if there.contains(&entry.line) {
                checked.push(entry);
                continue;
            }
            let named = self.named_here(session, std::slice::from_ref(&entry), false).await;
            conditions.extend(named.map_err(|error| in_file(kind, error))?);
            let mut resolved = Vec::new();
            // where a source led is kept, if the entry was given with it
            let given = if entry.resolved.is_empty() { &[][..] } else { &entry.resolved };
            for source in entry.sources.iter().filter(|source| !source.moves() || given.is_empty()) {
                let found =
                    self.resolve(session, source).await.map_err(|error| wrong(kind, &entry, &error))?;
                if source.moves() {
                    resolved.push(found.fixed().parse()?);
                }
            }
            for source in given {
                self.resolve(session, source).await.map_err(|error| wrong(kind, &entry, &error))?;
            }
            checked.push(if resolved.is_empty() { entry } else { entry.with_resolved(resolved) });
            breathe().await;
        }
        Ok((checked, conditions))
    }

    /// The entries of a derived file. What somebody wrote there that is none counts as no entry.
    pub(crate) async fn entries(&self, session: &str, kind: EntryKind) -> Result<Vec<Entry>> {
        let path = self.file(session, kind.file())?;
        let file = read_all(self.fs, &[path], MAX_DERIVED).await?.pop().flatten();
        let text = file.as_ref().and_then(|file| file.text()).unwrap_or_default();
        Ok(text.lines().filter_map(|line| Entry::parse(kind, line).ok()).collect())
    }

    /// What an entry of the derived files was made of.
    ///
    /// # Errors
    /// `NotFound` if no file has such an entry; from the filesystem.
    pub async fn why(&self, session: &str, id: &str) -> Result<Why> {
        self.meta(session).await?;
        for kind in EntryKind::ALL {
            let entries = self.entries(session, kind).await?;
            let Some(entry) = entries.into_iter().find(|entry| entry.id == id) else { continue };
            let mut sources = Vec::new();
            for source in entry.fixed_sources() {
                sources.push((source.clone(), self.resolve(session, source).await?));
            }
            return Ok(Why { kind, entry, sources });
        }
        let message = format!("{id}: no fact, decision or reference of {session} has this id");
        Err(Error::new(ErrorKind::NotFound, message))
    }
}

fn in_file(kind: EntryKind, error: Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidArgument => Error::invalid(format!("{}, {error}", kind.file())),
        _ => error,
    }
}

fn wrong(kind: EntryKind, entry: &Entry, error: &Error) -> Error {
    if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) {
        return error.clone();
    }
    Error::invalid(format!("{}, {}: its source leads nowhere: {error}", kind.file(), entry.id))
}
