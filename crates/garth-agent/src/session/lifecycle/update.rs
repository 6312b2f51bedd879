//! Updates a session: its state, working directory, title, model and pack budget.

use crate::boxed;
use crate::retry::retry;
use crate::session::handle::Sessions;
use crate::session::store::files::{BUDGET, CWD, META, STATE, UPDATED_AT};
use crate::session::store::list::Listed;
use crate::session::store::meta::{Meta, State, check_tokens};
use crate::small_file::{as_read, read_all};
use garth_engine::error::{Error, Result};
use garth_engine::model::{At, Op, Precondition};
use garth_engine::path::TreePath;

/// Limit on the bytes read of the file `state`: other interfaces can write anything there.
const MAX_STATE: usize = 64;

/// Longest title, and longest name of a model, in bytes.
const MAX_LABEL: usize = 1024;

/// Fields to set; omitted ones stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// State.
    #[doc(hidden)]
    pub state: Option<State>,
    /// Working directory: an absolute path without `..`.
    #[doc(hidden)]
    pub cwd: Option<String>,
    /// Title; empty to remove it.
    #[doc(hidden)]
    pub title: Option<String>,
    /// Name of the model; empty to remove it.
    #[doc(hidden)]
    pub model: Option<String>,
    /// Context window of the model, in tokens; 0 to remove it.
    #[doc(hidden)]
    pub context_window: Option<u64>,
    /// Token budget of packs: `Some(0)` for no limit, `None` for the context window of the model.
    #[doc(hidden)]
    pub budget: Option<Option<u64>>,
}

impl Change {
    /// Returns a change of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the state.
    #[must_use]
    pub fn state(self, state: State) -> Self {
        Self { state: Some(state), ..self }
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(self, cwd: impl Into<String>) -> Self {
        Self { cwd: Some(cwd.into()), ..self }
    }

    /// Sets the title; an empty one is removed.
    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// Sets the name of the model; an empty one is removed.
    #[must_use]
    pub fn model(self, model: impl Into<String>) -> Self {
        Self { model: Some(model.into()), ..self }
    }

    /// Sets the context window, in tokens; 0 removes it.
    #[must_use]
    pub fn context_window(self, tokens: u64) -> Self {
        Self { context_window: Some(tokens), ..self }
    }

    /// Sets the token budget of packs: `Some(0)` for no limit, `None` for the context window of the model.
    #[must_use]
    pub fn budget(self, tokens: Option<u64>) -> Self {
        Self { budget: Some(tokens), ..self }
    }
}

impl Sessions<'_> {
    /// Updates a session, in one commit. A final state cancels its unfinished children. A `meta.json` that
    /// cannot be read is restored as [`Sessions::mend`] does.
    ///
    /// # Errors
    /// `InvalidArgument`; `NotFound`; `TooLarge` if more than 1,000 sessions end with it; from the
    /// filesystem.
    #[boxed]
    pub async fn set(&self, session: &str, change: &Change) -> Result<Listed> {
        change.cwd.as_deref().map_or(Ok(()), check_cwd)?;
        for (what, text) in [("title", &change.title), ("model", &change.model)] {
            text.as_deref().filter(|text| !text.is_empty()).map_or(Ok(()), |text| check_label(what, text))?;
        }
        check_tokens("context_window", change.context_window.unwrap_or(0))?;
        check_tokens("budget", change.budget.flatten().unwrap_or(0))?;
        self.once.run(retry(|| self.set_once(session, change))).await
    }

    async fn set_once(&self, session: &str, change: &Change) -> Result<Listed> {
        // A damaged `meta.json` is restored here, because its error tells people to set anything of the
        // session.
        let (file, mut meta, mut is_changed) = self.meta_or_restored(session).await?;
        let mut listed = self.listed_with(session, meta.clone()).await?;
        let now = self.env.now().to_rfc3339();
        let (before, mut ops) = (meta.clone(), Vec::new());
        let mut conditions = Vec::new();
        if let Some(state) = change.state {
            conditions.extend(self.enter_state(session, &mut meta, state, &mut ops).await?);
        }
        if let Some(budget) = change.budget {
            let text = if budget.is_none() { String::new() } else { format!("{}\n", budget.unwrap_or(0)) };
            ops.push(Op::write(self.file(session, BUDGET)?, text).with_parents());
        }
        if let Some(cwd) = &change.cwd {
            ops.push(Op::write(self.file(session, CWD)?, format!("{cwd}\n")));
        }
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        if let Some(title) = &change.title {
            meta.title = given(title);
        }
        if let Some(model) = &change.model {
            meta.model = given(model);
        }
        if let Some(window) = change.context_window {
            meta.context_window = Some(window).filter(|window| *window > 0);
        }
        let meta_file = self.file(session, META)?;
        // A directory by this name cannot be written over.
        if !file.is_file {
            ops.insert(0, Op::remove_tree(meta_file.clone()));
        }
        // A restored `meta.json` is written even if the change sets nothing in it.
        is_changed |= meta != before;
        if is_changed {
            ops.push(self.meta_op(session, &meta)?);
        }
        if ops.is_empty() {
            let batch = self.batch(session, ops, "set nothing of session")?;
            return self.once.unchanged(self.fs, batch, listed).await;
        }
        ops.push(Op::write(self.file(session, UPDATED_AT)?, format!("{now}\n")));
        let batch = self.batch(session, ops, "set session")?.require(meta_file, as_read(Some(&file)));
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        (listed.state, listed.updated_at) = (change.state.unwrap_or(listed.state), now);
        listed.cwd = change.cwd.clone().unwrap_or(listed.cwd);
        self.once.commit(self.fs, batch, Listed { meta, ..listed }).await
    }

    /// Adds to `ops` the change to a state, and sets `finished_at` in `meta`. A final state cancels the
    /// unfinished children. Returns the conditions.
    pub(crate) async fn enter_state(
        &self,
        session: &str,
        meta: &mut Meta,
        state: State,
        ops: &mut Vec<Op>,
    ) -> Result<Vec<(At, Precondition)>> {
        self.set_state(session, meta, state, ops).await?;
        if state.is_final() { self.end_children(session, ops).await } else { Ok(Vec::new()) }
    }

    /// Adds to `ops` the change to a state, with an event `session.state` if the state differs, and sets
    /// `finished_at` in `meta`.
    pub(crate) async fn set_state(
        &self,
        session: &str,
        meta: &mut Meta,
        state: State,
        ops: &mut Vec<Op>,
    ) -> Result<()> {
        // A session that ends again keeps the time of its end: its `history_ttl` must not start again.
        let since = meta.finished_at.take();
        let now = || self.env.now().to_rfc3339();
        meta.finished_at = state.is_final().then(|| since.unwrap_or_else(now));
        let file = self.file(session, STATE)?;
        let before = read_all(self.fs, std::slice::from_ref(&file), MAX_STATE).await?.pop().flatten();
        let before = before.as_ref().and_then(|file| file.text()).unwrap_or_default().trim();
        if before != state.as_str() {
            let fields = [("state", state.as_str()), ("was", before)];
            self.add_event(ops, session, "session.state", &fields).await?;
        }
        ops.push(Op::write(file, format!("{state}\n")));
        Ok(())
    }
}

/// Checks a working directory.
pub(crate) fn check_cwd(cwd: &str) -> Result<()> {
    let bad =
        || Error::invalid(format!("{cwd}: a session works at an absolute path without `..`, such as /work"));
    let is_plain = cwd.starts_with('/') && !cwd.chars().any(char::is_control);
    if !is_plain || cwd.split('/').any(|segment| segment == "..") {
        return Err(bad());
    }
    TreePath::parse(cwd).map(drop).map_err(|_| bad())
}

/// Checks that a title or name is one line of at most [`MAX_LABEL`] bytes.
pub(crate) fn check_label(what: &str, text: &str) -> Result<()> {
    if (1..=MAX_LABEL).contains(&text.len()) && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Error::invalid(format!("a {what} is one line of 1 to {MAX_LABEL} bytes")))
}
