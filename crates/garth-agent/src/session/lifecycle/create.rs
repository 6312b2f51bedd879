//! Makes sessions: every file of one is there from its first moment.

use serde_json::{Map, json};

use super::update::{check_cwd, check_label};
use crate::ids::uuid;
use crate::session::handle::Sessions;
use crate::session::store::files::{CREATED_AT, CWD, DIRECTORIES, EMPTY, META, PACK, STATE, UPDATED_AT};
use crate::session::store::list::Listed;
use crate::session::store::meta::{Meta, State, Usage};
use crate::session::store::session_key::SessionKey;
use crate::small::{as_read, read_all};
use crate::tries::Tries;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{At, Op, Precondition};

/// Bytes of files that are there already, none of which is read.
const NONE: usize = 0;

/// A session to make. Start from [`Create::new`] and set what differs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Create {
    /// The name of its directory.
    pub name: String,
    /// What leads to it.
    pub key: Option<SessionKey>,
    /// What it is about.
    pub title: Option<String>,
    /// The model that answers.
    pub model: Option<String>,
    /// How many tokens that model takes.
    pub context_window: Option<u64>,
    /// Where it works: an absolute path without `..`.
    pub cwd: String,
    /// The child that it is: `{agent}/{session}#{id}` of the parent.
    pub parent: Option<String>,
    /// Its class, if it is not the author's.
    pub(crate) class: Option<String>,
    /// The session that it goes on for.
    pub(crate) previous: Option<String>,
}

impl Create {
    /// A session of this name that works at `/`.
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

    /// With this key.
    #[must_use]
    pub fn key(self, key: SessionKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// With this title.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// For this model, which takes so many tokens.
    #[must_use]
    pub fn model(self, model: impl Into<String>, context_window: Option<u64>) -> Self {
        Self { model: Some(model.into()), context_window, ..self }
    }

    /// That works there.
    #[must_use]
    pub fn cwd(self, cwd: impl Into<String>) -> Self {
        Self { cwd: cwd.into(), ..self }
    }
}

impl Sessions<'_> {
    /// Makes a session, in one commit. Files that are in its directory already stay.
    ///
    /// # Errors
    /// `InvalidArgument`; `AlreadyExists`; from the filesystem.
    pub async fn create(&self, create: &Create) -> Result<Listed> {
        check_cwd(&create.cwd)?;
        for (what, text) in [("title", &create.title), ("model", &create.model)] {
            text.as_deref().map_or(Ok(()), |text| check_label(what, text))?;
        }
        let mut tries = Tries::default();
        loop {
            match self.create_once(create).await {
                Err(error) if tries.again(&error) => {}
                done => return done,
            }
        }
    }

    async fn create_once(&self, create: &Create) -> Result<Listed> {
        let (ops, conditions, made) = self.create_ops(create).await?;
        let mut batch = self.batch(&create.name, ops, "create session");
        batch.preconditions = conditions;
        self.fs.commit(batch).await?;
        Ok(made)
    }

    /// What makes a session, if nobody else makes one meanwhile.
    pub(crate) async fn create_ops(
        &self,
        create: &Create,
    ) -> Result<(Vec<Op>, Vec<(At, Precondition)>, Listed)> {
        let Create { name, .. } = create;
        let now = self.env.now().to_rfc3339();
        let meta = Meta {
            id: uuid(&self.env)?,
            name: name.clone(),
            class: create.class.as_ref().unwrap_or(&self.class).clone(),
            agent: self.agent.clone(),
            user: self.user.clone(),
            session_key: create.key.as_ref().map(SessionKey::to_string),
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
            other: create.parent.iter().map(|of| ("parent".to_owned(), json!(of))).collect::<Map<_, _>>(),
        };
        let pack = json!({"session": name, "agent": self.agent, "budget_tokens": 0, "items": []});
        let with_text = [
            (STATE, format!("{}\n", State::Idle)),
            (CWD, format!("{}\n", create.cwd)),
            (CREATED_AT, format!("{now}\n")),
            (UPDATED_AT, format!("{now}\n")),
            (PACK, format!("{pack:#}\n")),
            (META, meta.to_json()),
        ];
        let files = EMPTY.into_iter().map(|name| (name, String::new())).chain(with_text);
        let (names, texts): (Vec<_>, Vec<_>) = files.unzip();
        let paths = names.iter().map(|file| self.file(name, file)).collect::<Result<Vec<_>>>()?;
        let there = read_all(self.fs, &paths, NONE).await?;
        if there.last().is_some_and(Option::is_some) {
            let message = format!("{name}: there is such a session; append to it, or take another name");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let directories = DIRECTORIES.iter().map(|dir| self.file(name, dir)).collect::<Result<Vec<_>>>()?;
        let mut ops: Vec<Op> = directories.into_iter().map(Op::mkdir_all).collect();
        let missing = paths.iter().zip(texts).zip(&there).filter(|(_, there)| there.is_none());
        ops.extend(missing.map(|((path, text), _)| Op::write(path.clone(), text).with_parents()));
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
