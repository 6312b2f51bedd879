//! Child agents: a session hands a piece of work to another session and gets a result. The messages of a
//! child are never in a pack of its parent; its result is, by reference.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::create::{Create, exists};
use crate::boxed;
use crate::identity::StoredClass;
use crate::media::MediaKey;
use crate::once::Outcome;
use crate::retry::retry;
use crate::session::derived::entry::{Entry, EntryKind, MAX_DERIVED, lines_of, parse_entries};
use crate::session::handle::{Sessions, missing};
use crate::session::log::source::{Resolved, Source};
use crate::session::store::files::{CHILDREN, META, UPDATED_AT};
use crate::session::store::meta::{Meta, PARENT, State};
use crate::small_file::{File, as_read, read_all};
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{At, Kind, MAX_PAGE, Op, Page, Precondition};
use garth_engine::path::{Name, TreePath, check_id};

/// Limit on the children of a session.
pub const MAX_CHILDREN: usize = 1000;
/// Limit on the sessions that end together with a child.
const MAX_FAMILY: usize = 1000;
/// Limit on the artifacts of a result.
const MAX_ARTIFACTS: usize = 100;
/// Longest summary of a result in the references of its parent, in characters.
const SUMMARY: usize = 200;

/// Status of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChildStatus {
    /// It has not started.
    Pending,
    /// It is working.
    Active,
    /// It ended with a result.
    Done,
    /// It ended with an error.
    Error,
    /// It was cancelled.
    Cancelled,
}

impl ChildStatus {
    const ALL: [Self; 5] = [Self::Pending, Self::Active, Self::Done, Self::Error, Self::Cancelled];

    /// Returns the word that the file `status` has.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Done => "done",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns true if no other status can follow.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Error | Self::Cancelled)
    }

    /// Returns true if `next` can follow this status.
    const fn leads_to(self, next: Self) -> bool {
        match self {
            Self::Pending => !matches!(next, Self::Pending),
            Self::Active => next.is_final(),
            Self::Done | Self::Error | Self::Cancelled => false,
        }
    }

    const fn state(self) -> State {
        match self {
            Self::Pending => State::Idle,
            Self::Active => State::Active,
            Self::Done => State::Done,
            Self::Error => State::Error,
            Self::Cancelled => State::Cancelled,
        }
    }
}

impl FromStr for ChildStatus {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("{text}: invalid status of a child; write one of {all}"))
        })
    }
}

impl fmt::Display for ChildStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A child to spawn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Spawn {
    /// Id: the name of its directory below `context/child`.
    pub id: String,
    /// Agent that does the work. Default: the agent of the parent.
    pub agent: Option<String>,
    /// Session of the child. Default: the one named like the id.
    pub session: Option<String>,
    /// Task and context for the child, in Markdown.
    pub handoff: String,
}

impl Spawn {
    /// Returns a child of this id with this handoff.
    pub fn new(id: impl Into<String>, handoff: impl Into<String>) -> Self {
        Self { id: id.into(), agent: None, session: None, handoff: handoff.into() }
    }

    /// Sets the agent that does the work.
    #[must_use]
    pub fn agent(self, agent: impl Into<String>) -> Self {
        Self { agent: Some(agent.into()), ..self }
    }

    /// Sets the session of the child.
    #[must_use]
    pub fn session(self, session: impl Into<String>) -> Self {
        Self { session: Some(session.into()), ..self }
    }
}

/// Child of a session: work that another session does for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
#[schemars(rename = "SessionChild", deny_unknown_fields)]
pub struct Child {
    /// Id of the child.
    pub id: String,
    /// Agent that does the work.
    pub agent: String,
    /// Name of the session in which the work is done.
    pub session: String,
    /// Status of the work.
    pub status: ChildStatus,
}

impl Outcome for Child {}

/// Changes of a child: its status and its results.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ChildChange {
    /// New status.
    pub status: Option<ChildStatus>,
    /// Result, in Markdown.
    pub result: Option<String>,
    /// References, as entries of `refs.jsonl`. Sources are those of the session of the child. Chunks and
    /// blobs must be those of the parent, whose collection respects these references.
    pub refs: Option<String>,
    /// Files to hand over: the name of each below `artifact/`, and its path. Their content is shared, not
    /// copied.
    pub artifacts: Vec<(String, TreePath)>,
    /// Media of the session of the child to hand over: messages of the parent may show them, under the key of
    /// the parent's media and the UUID of the file.
    pub media: Vec<MediaKey>,
}

impl ChildChange {
    /// Returns a change to this status.
    pub fn status(status: ChildStatus) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// Returns a change to `done` with this result.
    pub fn done(result: impl Into<String>) -> Self {
        Self { result: Some(result.into()), ..Self::status(ChildStatus::Done) }
    }

    /// Sets the references.
    #[must_use]
    pub fn refs(self, refs: impl Into<String>) -> Self {
        Self { refs: Some(refs.into()), ..self }
    }

    /// Hands over a file, by this name below `artifact/`.
    #[must_use]
    pub fn artifact(mut self, name: impl Into<String>, path: TreePath) -> Self {
        self.artifacts.push((name.into(), path));
        self
    }

    /// Hands over a media file.
    #[must_use]
    pub fn media(mut self, key: MediaKey) -> Self {
        self.media.push(key);
        self
    }
}

/// A child, with its `status` as it was read.
struct ChildFiles {
    child: Child,
    status: File,
}

impl<'a> Sessions<'a> {
    /// Returns `meta.json` of a session, or `None` if this view cannot read one.
    pub(crate) async fn meta_if_there(&self, session: &str) -> Result<Option<(File, Meta)>> {
        // A child can name a session that never existed, that lies outside of this view, or whose `meta.json`
        // somebody broke; and the files that name it can hold anything. None of these may keep its parent
        // from ending.
        match self.meta(session).await {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound
                        | ErrorKind::AccessDenied
                        | ErrorKind::Corrupt
                        | ErrorKind::InvalidArgument
                ) =>
            {
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Hands work to a child. Creates its directory and, if missing, its session, in one commit.
    ///
    /// # Errors
    /// `AlreadyExists` for a child of this id; `Conflict` for a session that is at its end, and for a session
    /// of another child; `AccessDenied` for a child's session with fewer listeners; `InvalidArgument`;
    /// `NotFound`; `TooLarge`; from the filesystem.
    #[boxed]
    pub async fn spawn(&self, session: &str, spawn: &Spawn) -> Result<Child> {
        check_id("child", &spawn.id)?;
        let agent = spawn.agent.clone().unwrap_or_else(|| self.agent.clone());
        let name = spawn.session.clone().unwrap_or_else(|| spawn.id.clone());
        check_id("agent", &agent)?;
        check_id("session", &name)?;
        self.check_agent(&agent)?;
        if agent == self.agent && name == session {
            return Err(Error::invalid(format!("{name}: a session cannot be its own child; name another")));
        }
        if spawn.handoff.len() > MAX_DERIVED {
            return Err(too_large("handoff.md"));
        }
        let child = Child { id: spawn.id.clone(), agent, session: name, status: ChildStatus::Pending };
        self.once.run(retry(|| self.spawn_once(session, spawn, &child))).await
    }

    async fn spawn_once(&self, session: &str, spawn: &Spawn, child: &Child) -> Result<Child> {
        let (_, meta) = self.meta(session).await?;
        // Nobody would cancel a child that is spawned after its parent has ended.
        if meta.finished_at.is_some() {
            let message = format!("{session}: is at its end; set its state to active or idle first");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if self.child_names(session).await?.len() >= MAX_CHILDREN {
            let message = format!("{session}: has {MAX_CHILDREN} children, which is the most");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let file = |name: &str| self.file(session, &format!("{CHILDREN}/{}/{name}", spawn.id));
        let texts = [
            ("agent", format!("{}\n", child.agent)),
            ("session", format!("{}\n", child.session)),
            ("status", format!("{}\n", child.status)),
            ("handoff.md", spawn.handoff.clone()),
            ("result.md", String::new()),
            ("refs.jsonl", String::new()),
        ];
        let mut ops = vec![Op::mkdir_all(file("artifact")?)];
        for (name, text) in texts {
            ops.push(Op::write(file(name)?, text).create_new());
        }
        let details = [("child", &*child.id), ("agent", &child.agent), ("session", &child.session)];
        self.add_event(&mut ops, session, "child.spawned", &details).await?;
        let own = self.of_agent(&child.agent);
        let class = own.class_of_child(meta.class.clone()).await?;
        let parent = self.parent_of(session, &child.id);
        let mut batch = self.batch(session, ops, "spawn child of session")?;
        match own.meta_if_there(&child.session).await? {
            // The view hides no sessions of other agents.
            Some((_, meta)) if !self.sees(&meta.class) => return Err(exists(&child.session)),
            Some((file, meta)) => {
                batch.preconditions.push(own.taken_on(&child.session, (&file, &meta), &class, &parent)?);
            }
            None => {
                let mut create = Create::new(&child.session);
                (create.parent, create.class) = (Some(parent), Some(class));
                let (ops, conditions, _) = own.create_ops(&create).await?;
                batch.ops.extend(ops);
                batch.preconditions.extend(conditions);
            }
        }
        // `mkdir_all` would create the directory of a session that somebody removes at the same time.
        let batch = batch.require(self.is_there(session)?, Precondition::Exists);
        let taken = |error: &Error| error.is(ErrorKind::AlreadyExists);
        self.once.commit(self.fs, batch, child.clone()).await.map_err(|error| match taken(&error) {
            true => {
                let message = format!("{}: {session} has such a child; take another id", spawn.id);
                Error::new(ErrorKind::AlreadyExists, message)
            }
            false => error,
        })
    }

    /// Returns the text by which the session of a child names its parent.
    fn parent_of(&self, session: &str, child: &str) -> String {
        format!("{}/{session}#{child}", self.agent)
    }

    /// Returns the condition under which a child works in an existing session. The session stays as it is: it
    /// gets no `parent`, and so does not end with the child.
    fn taken_on(
        &self,
        session: &str,
        (file, meta): (&File, &Meta),
        class: &StoredClass,
        parent: &str,
    ) -> Result<(At, Precondition)> {
        // Messages of a session with fewer listeners must not reach the listeners of the parent.
        if !meta.class.includes(class) {
            let message = format!(
                "{session}: is of class {}, and a child here is of class {class}; take another session",
                meta.class
            );
            return Err(Error::new(ErrorKind::AccessDenied, message));
        }
        if meta.other.get(PARENT).is_some_and(|known| known != parent) {
            let message = format!("{session}: is the session of another child; take another session");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok((At::from(self.file(session, META)?), as_read(Some(file))))
    }

    /// Returns the children of a session, by id.
    ///
    /// # Errors
    /// `NotFound`; from the filesystem.
    #[boxed]
    pub async fn children(&self, session: &str) -> Result<Vec<Child>> {
        self.meta(session).await?;
        Ok(self.read_children(session).await?.into_iter().map(|read| read.child).collect())
    }

    async fn child_names(&self, session: &str) -> Result<Vec<Name>> {
        let dir = self.file(session, CHILDREN)?;
        let (mut names, mut page) = (Vec::new(), Page::default().limit(MAX_PAGE));
        loop {
            // Other interfaces can make more than `spawn` does: one that is not seen would never end.
            let listing = self.fs.list(&At::from(&dir), &page).await.optional()?.unwrap_or_default();
            let last = listing.items.last().map(|item| item.name.clone()).filter(|_| listing.more);
            let dirs = listing.items.into_iter().filter(|item| item.kind == Kind::Directory);
            names.extend(dirs.map(|item| item.name));
            match last {
                Some(last) => page = page.after(last),
                None => return Ok(names),
            }
        }
    }

    async fn read_children(&self, session: &str) -> Result<Vec<ChildFiles>> {
        let names = self.child_names(session).await?;
        let mut children = Vec::new();
        for some in names.chunks(100) {
            let files = some.iter().flat_map(|name| {
                ["agent", "session", "status"]
                    .map(|file| self.file(session, &format!("{CHILDREN}/{name}/{file}")))
            });
            let read = read_all(self.fs, &files.collect::<Result<Vec<_>>>()?, 4096).await?;
            for (name, files) in some.iter().zip(read.chunks(3)) {
                // Without these files the directory is not one that `spawn` created.
                let [Some(agent), Some(own), Some(status)] = files else { continue };
                let text = |file: &File| file.text().unwrap_or_default().trim().to_owned();
                // Other interfaces can write `status`. An unknown word must not make the child final, since
                // then nothing could set it right.
                let known = text(status).parse().unwrap_or(ChildStatus::Pending);
                let child =
                    Child { id: name.to_string(), agent: text(agent), session: text(own), status: known };
                children.push(ChildFiles { child, status: status.clone() });
            }
        }
        Ok(children)
    }

    /// Sets the status of a child and stores its results. A final status cannot be changed. Once it is set,
    /// the parent refers to the result, the references and the artifacts.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for a child that is at its end, and for references to chunks and blobs of
    /// another session; `InvalidArgument`; `TooLarge`; from the filesystem.
    #[boxed]
    pub async fn set_child(&self, session: &str, id: &str, change: &ChildChange) -> Result<Child> {
        self.once.run(retry(|| self.set_child_once(session, id, change))).await
    }

    async fn set_child_once(&self, session: &str, id: &str, change: &ChildChange) -> Result<Child> {
        check_id("child", id)?;
        let all = self.read_children(session).await?;
        let Some(ChildFiles { mut child, status }) = all.into_iter().find(|read| read.child.id == id) else {
            let message = format!("{id}: {session} has no such child; spawn it first");
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        let is_same = change.status.is_none_or(|status| status == child.status);
        let brings = !change.artifacts.is_empty() || !change.media.is_empty();
        let says_nothing = change.result.is_none() && change.refs.is_none() && !brings;
        // A repeat, perhaps of a call whose answer was lost: not an error, even if the status is final.
        if is_same && says_nothing {
            let batch = self.batch(session, Vec::new(), "set nothing of a child of session")?;
            return self.once.unchanged(self.fs, batch, child).await;
        }
        let leads = change.status.is_none_or(|next| is_same || child.status.leads_to(next));
        if child.status.is_final() || !leads {
            let message = format!("{id}: is {}, which is final", child.status);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let was = child.status;
        child.status = change.status.unwrap_or(was);
        let path = |name: &str| self.file(session, &format!("{CHILDREN}/{id}/{name}"));
        // Of two final statuses that are set at once, the second must see the first and fail.
        let mut conditions = vec![(At::from(path("status")?), as_read(Some(&status)))];
        let mut ops = vec![Op::write(path("status")?, format!("{}\n", child.status))];
        if let Some(result) = &change.result {
            if result.len() > MAX_DERIVED {
                return Err(too_large("result.md"));
            }
            ops.push(Op::write(path("result.md")?, result.clone()));
        }
        if let Some(refs) = &change.refs {
            let entries = parse_entries(EntryKind::Ref, refs)?;
            // From this commit on, collection keeps the files that these entries name. They must exist until
            // then.
            conditions.extend(self.named_here(session, &entries, true).await?);
            ops.push(Op::write(path("refs.jsonl")?, lines_of(&entries)));
        }
        if change.artifacts.len() > MAX_ARTIFACTS {
            let message = format!("a result has at most {MAX_ARTIFACTS} artifacts");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        // Copies share their content with the original and stay as they are when it changes.
        for (name, from) in &change.artifacts {
            let found = self.resolve(session, &Source::of_path(from)).await?;
            let Resolved::File { path: from, .. } = found else { continue };
            ops.push(Op::copy(&from, path("artifact")?.join(&Name::parse(name)?)?).replace());
        }
        ops.extend(self.handed_media(session, &child, &change.media).await?);
        // In the same commit: after a crash, a final child must not have an active session, nor a result that
        // its parent does not refer to.
        if child.status.is_final() {
            let (more, condition) = self.merged_refs(session, &child, change).await?;
            ops.push(more);
            conditions.push(condition);
            self.add_child_event(&mut ops, session, "child.ended", &child).await?;
            let own = self.of_agent(&child.agent);
            let parent = self.parent_of(session, &child.id);
            let of = (&*child.session, &*parent);
            let ended = own.ended((&self.agent, session), of, child.status.state(), &mut ops).await?;
            conditions.extend(ended);
        } else if child.status != was {
            self.add_child_event(&mut ops, session, "child.started", &child).await?;
        }
        ops.push(Op::write(self.file(session, UPDATED_AT)?, format!("{}\n", self.env.now().to_rfc3339())));
        let batch = self.batch(session, ops, "set child of session")?;
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        let batch = batch.require(self.is_there(session)?, Precondition::Exists);
        self.once.commit(self.fs, batch, child).await
    }

    /// Returns the operations that copy media of a child's session to its parent.
    async fn handed_media(&self, session: &str, child: &Child, keys: &[MediaKey]) -> Result<Vec<Op>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        if keys.len() > MAX_ARTIFACTS {
            let message = format!("a result has at most {MAX_ARTIFACTS} media");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let (own, (_, meta)) = (self.of_agent(&child.agent), self.meta(session).await?);
        let (media, (_, of_child)) = (own.media(), own.meta(&child.session).await?);
        // Whoever writes files of the parent can name any session, and the view hides none of other agents.
        if !self.sees(&of_child.class) {
            return Err(missing(&child.session));
        }
        let to = (meta.session_key.as_deref().unwrap_or(&meta.id), &*meta.id);
        let mut ops = Vec::new();
        for key in keys {
            let stored = media.get(key).await?;
            // The handle sees media of other sessions as well. A child hands over only its own media.
            if stored.session_id() != Some(&*of_child.id) {
                let message = format!("{key}: is not of the session of {}", child.id);
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            ops.extend(media.copy_ops(&stored, to, key.id())?.0);
        }
        Ok(ops)
    }

    /// Returns the write of the parent's references, with those to the results of a child, and its condition.
    async fn merged_refs(
        &self,
        session: &str,
        child: &Child,
        change: &ChildChange,
    ) -> Result<(Op, (At, Precondition))> {
        let refs = self.file(session, EntryKind::Ref.file())?;
        let dir = format!("{CHILDREN}/{}", child.id);
        let names = [refs.clone(), self.file(session, &format!("{dir}/result.md"))?];
        let mut read = read_all(self.fs, &names, MAX_DERIVED).await?.into_iter();
        let (file, old) = (read.next().flatten(), read.next().flatten());
        let result = change.result.clone().or_else(|| old.as_ref()?.text().map(str::to_owned));
        let first = result.iter().flat_map(|text| text.lines()).find(|line| !line.trim().is_empty());
        let said = first.map_or(child.status.to_string(), |line| line.chars().take(SUMMARY).collect());
        let mut new = vec![(format!("child-{}", child.id), format!("{dir}/result.md"), "child_result", said)];
        if change.refs.as_ref().is_some_and(|refs| !refs.trim().is_empty()) {
            let said = format!("what {} refers to", child.id);
            new.push((format!("child-{}-refs", child.id), format!("{dir}/refs.jsonl"), "refs", said));
        }
        for (number, (name, _)) in (1..).zip(&change.artifacts) {
            let id = format!("child-{}-artifact-{number}", child.id);
            new.push((id, format!("{dir}/artifact/{name}"), "artifact", name.clone()));
        }
        let mut text = String::new();
        let ids: Vec<&String> = new.iter().map(|(id, ..)| id).collect();
        // All other lines stay, also those that are not valid entries: they are not ours to remove.
        for line in file.as_ref().and_then(File::text).unwrap_or_default().lines() {
            let known = Entry::parse(EntryKind::Ref, line);
            if !known.is_ok_and(|entry| ids.contains(&&entry.id)) {
                text.push_str(&format!("{line}\n"));
            }
        }
        for (id, path, kind, summary) in &new {
            let entry = serde_json::json!({"id": id, "path": path, "kind": kind, "summary": summary});
            text.push_str(&format!("{entry}\n"));
        }
        if text.len() > MAX_DERIVED {
            return Err(too_large(EntryKind::Ref.file()));
        }
        let condition = (At::from(&refs), as_read(file.as_ref()));
        Ok((Op::write(refs, text), condition))
    }

    async fn add_child_event(
        &self,
        ops: &mut Vec<Op>,
        session: &str,
        kind: &str,
        child: &Child,
    ) -> Result<()> {
        let details = [("child", &*child.id), ("status", child.status.as_str())];
        self.add_event(ops, session, kind, &details).await
    }

    /// Adds to `ops` the end of a child's session, of its unfinished children and of theirs. Returns the
    /// conditions. A session that does not name this parent is left as it is: whoever writes files of the
    /// parent can name any session. `first`, by agent and session, is left out even if it is among them.
    pub(crate) async fn ended(
        &self,
        first: (&str, &str),
        (session, parent): (&str, &str),
        state: State,
        ops: &mut Vec<Op>,
    ) -> Result<Vec<(At, Precondition)>> {
        let mut conditions = Vec::new();
        let mut due = vec![(self.agent.clone(), session.to_owned(), parent.to_owned(), state)];
        // Any session can be named as a child, an ancestor too. The parent is left to the caller, which ends
        // it with a state of its own, or keeps it; any other session is ended once.
        let mut seen = HashSet::from([(first.0.to_owned(), first.1.to_owned())]);
        while let Some((agent, session, parent, state)) = due.pop() {
            let own = self.of_agent(&agent);
            let Some((file, mut meta)) = own.meta_if_there(&session).await? else { continue };
            if meta.other.get(PARENT).and_then(serde_json::Value::as_str) != Some(&*parent) {
                continue;
            }
            if !seen.insert((agent, session.clone())) || meta.finished_at.is_some() {
                continue;
            }
            if seen.len() > MAX_FAMILY {
                let message =
                    format!("{session}: more than {MAX_FAMILY} sessions end with it; end some first");
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            own.set_state(&session, &mut meta, state, ops).await?;
            let meta_file = own.file(&session, META)?;
            ops.push(own.meta_op(&session, &meta)?);
            conditions.push((At::from(meta_file), as_read(Some(&file))));
            let (more, children) = own.orphaned(&session, ops).await?;
            conditions.extend(more);
            due.extend(children.into_iter().map(|child| {
                let parent = own.parent_of(&session, &child.id);
                (child.agent, child.session, parent, State::Cancelled)
            }));
        }
        Ok(conditions)
    }

    /// Adds to `ops` the cancellation of the unfinished children of a session, with an event for each.
    /// Returns the conditions, and these children. Their sessions are left as they are.
    pub(crate) async fn orphaned(
        &self,
        session: &str,
        ops: &mut Vec<Op>,
    ) -> Result<(Vec<(At, Precondition)>, Vec<Child>)> {
        let (mut conditions, mut children) = (Vec::new(), Vec::new());
        for ChildFiles { child, status } in self.read_children(session).await? {
            if child.status.is_final() {
                continue;
            }
            let child = Child { status: ChildStatus::Cancelled, ..child };
            let path = self.file(session, &format!("{CHILDREN}/{}/status", child.id))?;
            // On condition that the child reports no result at the same time: that must not be overwritten.
            ops.push(Op::write(path.clone(), format!("{}\n", child.status)));
            conditions.push((At::from(path), as_read(Some(&status))));
            self.add_child_event(ops, session, "child.ended", &child).await?;
            children.push(child);
        }
        Ok((conditions, children))
    }

    /// Adds to `ops` the cancellation of the unfinished children of a session that ends, with their sessions
    /// and all of theirs. Returns the conditions.
    pub(crate) async fn end_children(
        &self,
        session: &str,
        ops: &mut Vec<Op>,
    ) -> Result<Vec<(At, Precondition)>> {
        let (mut conditions, children) = self.orphaned(session, ops).await?;
        for child in children {
            let (own, parent) = (self.of_agent(&child.agent), self.parent_of(session, &child.id));
            let of = (&*child.session, &*parent);
            conditions.extend(own.ended((&self.agent, session), of, State::Cancelled, ops).await?);
        }
        Ok(conditions)
    }
}

fn too_large(name: &str) -> Error {
    Error::new(ErrorKind::TooLarge, format!("{name}: has at most {MAX_DERIVED} bytes"))
}
