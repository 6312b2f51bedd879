//! Creates sessions, with all of their files in one commit.

use serde_json::{Map, json};

use super::update::{check_cwd, check_label};
use crate::boxed;
use crate::identity::{SessionKey, StoredClass};
use crate::ids::uuid;
use crate::once::Outcome;
use crate::registry::session_lines::NAMED;
use crate::retry::retry;
use crate::session::handle::Sessions;
use crate::session::store::files::{CREATED_AT, CWD, DIRECTORIES, EMPTY, META, PACK, STATE, UPDATED_AT};
use crate::session::store::list::Listed;
use crate::session::store::meta::{Meta, PARENT, State, Usage, check_tokens};
use crate::small_file::{as_read, read_all};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{At, Op, Precondition};

/// Size limit of existing files: they are looked up, and not read.
const NONE: usize = 0;

/// Session to create. Start from [`Create::new`] and set the options.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Create {
    /// Name of its directory.
    #[doc(hidden)]
    pub name: String,
    /// Session key.
    #[doc(hidden)]
    pub key: Option<SessionKey>,
    /// Title.
    #[doc(hidden)]
    pub title: Option<String>,
    /// Name of the model.
    #[doc(hidden)]
    pub model: Option<String>,
    /// Context window of the model, in tokens.
    #[doc(hidden)]
    pub context_window: Option<u64>,
    /// Working directory: an absolute path without `..`.
    #[doc(hidden)]
    pub cwd: String,
    /// Parent, if it is the session of a child: `{agent}/{session}#{id}`.
    #[doc(hidden)]
    pub parent: Option<String>,
    /// Class. Default: the class that follows from the session's key and the caller.
    pub(crate) class: Option<StoredClass>,
    /// Session that it replaces.
    pub(crate) previous: Option<String>,
}

impl Create {
    /// Returns a session of this name with the working directory `/`.
    pub fn new(name: impl Into<String>) -> Self {
        let (name, cwd) = (name.into(), "/".to_owned());
        Self {
            name,
            key: None,
            title: None,
            model: None,
            context_window: None,
            cwd,
            parent: None,
            class: None,
            previous: None,
        }
    }

    /// Sets the session key.
    #[must_use]
    pub fn key(self, key: SessionKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Sets the title.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// Sets the model and its context window, in tokens.
    #[must_use]
    pub fn model(self, model: impl Into<String>, context_window: Option<u64>) -> Self {
        Self { model: Some(model.into()), context_window, ..self }
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(self, cwd: impl Into<String>) -> Self {
        Self { cwd: cwd.into(), ..self }
    }
}

/// Returns the error for the name of an existing session. It does not tell who listens: the caller may not
/// see the session.
pub(super) fn exists(name: &str) -> Error {
    let message = format!("{name}: the session exists; append to it, or take another name");
    Error::new(ErrorKind::AlreadyExists, message)
}

impl Sessions<'_> {
    /// Creates a session, in one commit. Existing files in its directory stay as they are.
    ///
    /// # Errors
    /// `InvalidArgument`; `AlreadyExists`; from the filesystem.
    #[boxed]
    pub async fn create(&self, create: &Create) -> Result<Listed> {
        self.once.run(self.create_as(create, |made| made)).await
    }

    /// Creates a session, and records the outcome that `outcome` builds.
    pub(super) async fn create_as<T: Outcome>(
        &self,
        create: &Create,
        outcome: impl Fn(Listed) -> T + Send + Sync,
    ) -> Result<T> {
        check_cwd(&create.cwd)?;
        for (what, text) in [("title", &create.title), ("model", &create.model)] {
            text.as_deref().map_or(Ok(()), |text| check_label(what, text))?;
        }
        check_tokens("context_window", create.context_window.unwrap_or(0))?;
        retry(|| self.create_if(create, Vec::new(), &outcome)).await
    }

    /// Creates a session on these conditions.
    pub(super) async fn create_if<T: Outcome>(
        &self,
        create: &Create,
        conditions: Vec<(At, Precondition)>,
        outcome: &(impl Fn(Listed) -> T + Send + Sync),
    ) -> Result<T> {
        let (ops, more, made) = self.create_ops(create).await?;
        let mut batch = self.batch(&create.name, ops, "create session")?;
        batch.preconditions = [conditions, more].concat();
        self.once.commit(self.fs, batch, outcome(made)).await
    }

    /// Refuses the name of a session that the caller does not see.
    async fn check_not_hidden(&self, name: &str) -> Result<()> {
        let dir = self.directory(name)?;
        // Before any lookup: the answer must not tell which sessions exist.
        if self.has_one_session() {
            let message = format!("{name}: this API key is bound to one session and creates no other");
            return Err(Error::new(ErrorKind::AccessDenied, message));
        }
        if self.places.is_none() || self.fs.lookup(&dir).await?.is_some() {
            return Ok(());
        }
        if self.whole().lookup(&dir).await?.is_none() {
            return Ok(());
        }
        Err(exists(name))
    }

    /// Returns the operations that create a session, on the condition that no other writer creates one of its
    /// files.
    pub(crate) async fn create_ops(
        &self,
        create: &Create,
    ) -> Result<(Vec<Op>, Vec<(At, Precondition)>, Listed)> {
        let Create { name, .. } = create;
        self.check_writable(name)?;
        let now = self.env.now().to_rfc3339();
        let class = match &create.class {
            Some(class) => class.clone(),
            None => self.judged(Some(name), create.key.as_ref()).await?.into(),
        };
        let key = create.key.as_ref().or(self.key());
        let mut other = Map::new();
        other.extend(create.parent.iter().map(|of| (PARENT.to_owned(), json!(of))));
        // Noted for later requests with the key alone: they must not find a session of an audience that was
        // named.
        if let Some(key) = key
            && self.is_named(key).await?
        {
            other.insert(NAMED.to_owned(), true.into());
        }
        let meta = Meta {
            id: uuid(&self.env)?,
            name: name.clone(),
            class,
            agent: self.agent.clone(),
            user: self.user.clone(),
            session_key: key.map(SessionKey::to_string),
            model: create.model.clone(),
            context_window: create.context_window,
            title: create.title.clone(),
            usage: Usage::default(),
            last_input_tokens: None,
            compacted_to: None,
            last_part: None,
            previous: create.previous.clone(),
            next: None,
            archive: None,
            finished_at: None,
            other,
        };
        let pack = json!({"session": name, "agent": self.agent, "budget_tokens": 0, "items": []});
        let with_text = [
            (STATE, format!("{}\n", State::Idle)),
            (CWD, format!("{}\n", create.cwd)),
            (CREATED_AT, format!("{now}\n")),
            (UPDATED_AT, format!("{now}\n")),
            (PACK, format!("{pack:#}\n")),
            (META, meta.to_json()?),
        ];
        let files = EMPTY.into_iter().map(|name| (name, String::new())).chain(with_text);
        let (names, texts): (Vec<_>, Vec<_>) = files.unzip();
        let paths = names.iter().map(|file| self.file(name, file)).collect::<Result<Vec<_>>>()?;
        let there = read_all(self.fs, &paths, NONE).await?;
        // `META` is the last of the paths. Other files may exist before it: early appends stay.
        if there.last().is_some_and(Option::is_some) {
            return Err(exists(name));
        }
        // A view hides sessions with fewer listeners, so that their names look free.
        self.check_not_hidden(name).await?;
        let directories = DIRECTORIES.iter().map(|dir| self.file(name, dir)).collect::<Result<Vec<_>>>()?;
        let mut ops: Vec<Op> = directories.into_iter().map(Op::mkdir_all).collect();
        let missing = paths.iter().zip(texts).zip(&there).filter(|(_, there)| there.is_none());
        ops.extend(missing.map(|((path, text), _)| Op::write(path.clone(), text).with_parents()));
        // Of two that create one session at once the second has to fail, and a file that is appended early
        // must not be written over.
        let conditions = paths.iter().zip(&there);
        let conditions = conditions.map(|(path, there)| (At::from(path), as_read(there.as_ref()))).collect();
        let state = State::Idle;
        let made = Listed {
            name: name.clone(),
            state,
            cwd: create.cwd.clone(),
            created_at: now.clone(),
            updated_at: now,
            meta,
        };
        Ok((ops, conditions, made))
    }
}
