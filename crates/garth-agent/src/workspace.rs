//! The workspace of an agent: the files that its prompt is made of, its skills and daily memory, the archives
//! of its sessions and their media. `docs/specs/workspace.md` describes them.

mod archive;
mod clock;
mod compact;
mod daily;
mod due;
mod extract;
mod heartbeat;
mod jobs;
pub mod layout;
mod media;
mod prompt;
mod reset;
mod settings;
mod skills;
mod template;
mod transcript;

use std::sync::Arc;

pub use self::archive::Unpacked;
pub use self::clock::{Day, Zone};
pub use self::compact::{Trim, Trimmed};
pub use self::daily::{MAX_DAYS, MAX_FILE, Memory, MemoryDay, Remembered};
pub use self::due::{Current, due_resets};
pub use self::extract::Asking;
pub use self::heartbeat::says_anything;
pub use self::jobs::{Jobs, next_job, run_jobs};
use self::prompt::Known;
pub use self::prompt::base as texts;
pub use self::prompt::{
    Changed, Difference, Inputs, Part, Prompt, PromptCache, PromptOptions, Replayed, Stable,
};
pub use self::reset::{Held, Reset, WasReset};
pub use self::settings::{
    CompactionSettings, DailyMemory, MediaPolicy, Order, PromptSettings, ResetPolicy, ResetSettings,
    SETTINGS, Settings,
};
pub use self::skills::{
    Host, Install, InstallKind, Installed, LeftOut, ListedSkill, Listing, MAX_SKILL_FILE, MAX_SKILL_FILES,
    Origin, Reason, Requires, RequiresSetting, SkillFile, SkillSetting, SkillText,
};
pub use self::template::{Init, Initialized};
pub use self::transcript::Archive;
use super::session::{Meta, Sessions};
use super::small::File;
use super::tree::MAIN;
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Author, Batch, Moment, Op, Timestamp};
use garth_engine::path::{TreePath, check_id};

/// The workspace of an agent in an account.
#[derive(Clone, Debug)]
pub struct Workspace<'a> {
    fs: &'a dyn FileSystem,
    env: Env,
    author: Author,
    agent: String,
    /// What is known of texts that were in prompts.
    known: Known<'a>,
}

impl<'a> Workspace<'a> {
    /// The workspace of `agent` in an account, whose tree is `fs`.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no id.
    pub fn new(fs: &'a dyn FileSystem, agent: &str, env: Env) -> Result<Self> {
        check_id("agent", agent)?;
        Ok(Self { fs, env, author: Author::default(), agent: agent.to_owned(), known: Known::default() })
    }

    /// With a cache that other prompts were built with, which makes the next ones faster. `account` is what
    /// the cache knows the account by.
    #[must_use]
    pub fn cache(self, cache: &'a PromptCache, account: &str) -> Self {
        Self { known: Known(Some((cache, account.to_owned()))), ..self }
    }

    /// In the name of this author. In a class other than `main` nothing is shown that is not for it.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// The directory of the agent.
    fn home(&self) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("/agents/{}", self.agent))?)
    }

    /// A file below it; `name` may have several segments.
    fn file(&self, name: &str) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("{}/{name}", self.home()?))?)
    }

    fn batch(&self, ops: Vec<Op>, message: &str) -> Batch {
        Batch::new(ops).author(self.author.clone().or(&Author::agent(&self.agent))).message(message)
    }

    /// A batch of a session in its class: what it writes is of that class, whoever asked for it.
    fn batch_of(&self, user: &str, session: &str, class: &str, ops: Vec<Op>, what: &str) -> Batch {
        let batch = self.batch(ops, &format!("{what} {session}"));
        let author = batch.author.clone().or(&Author::default().with_user(user));
        batch.author(author.with_class(class).with_session(session))
    }

    /// The class that something is for: the session's, which the author's has to be, unless that is `main`.
    fn class(&self, session: Option<&Meta>) -> Result<String> {
        let own = self.author.class.as_deref();
        let Some(meta) = session else { return Ok(own.unwrap_or(MAIN).to_owned()) };
        if own.is_none_or(|own| own == MAIN || own == meta.class) {
            return Ok(meta.class.clone());
        }
        let message = format!("{}: is a session of another class", meta.name);
        Err(Error::new(ErrorKind::AccessDenied, message))
    }

    /// The agent's sessions with a user.
    fn sessions<'s>(&self, fs: &'s dyn FileSystem, user: &str) -> Result<Sessions<'s>> {
        Ok(Sessions::new(fs, user, &self.agent, self.env.clone())?.author(self.author.clone()))
    }

    /// The tree as it was at a moment; without one as it is now, and stays.
    async fn moment(&self, at: Option<&Moment>) -> Result<Arc<dyn FileSystem>> {
        // a time that has not come yet is now, whatever the clock says
        self.fs.as_of(at.unwrap_or(&Moment::Time(Timestamp(i64::MAX)))).await
    }
}

/// The text of a file.
fn text_of<'f>(path: &TreePath, file: &'f File) -> Result<&'f str> {
    let Some(bytes) = &file.bytes else {
        let message = format!("has more than {MAX_FILE} bytes; shorten it");
        return Err(Error::at(ErrorKind::TooLarge, path, message));
    };
    let not_text = |_| Error::at(ErrorKind::InvalidArgument, path, "is not UTF-8 text; write it as that");
    std::str::from_utf8(bytes).map_err(not_text)
}
