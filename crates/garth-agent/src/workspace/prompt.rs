//! The prompt: what a model gets of a workspace before the messages of a session. It is put together of files
//! of one moment, says of which and why, and can be put together again as of any moment that is kept.

mod assemble;
pub mod base;
mod cache;
mod diff;
mod event;
mod files;
mod form;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub(super) use self::cache::Known;
pub use self::cache::PromptCache;
pub use self::diff::{Changed, Difference};
use self::files::Files;
use super::Workspace;
use super::settings::ResetPolicy;
use super::skills::Host;
use crate::session::Meta;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{Moment, Seq, Timestamp, VersionId};
use garth_engine::path::{TreePath, check_id};

/// Most lines of runtime that a caller gives, and hosts.
const MAX_INPUTS: usize = 64;
/// Longest line of them, in bytes.
const MAX_INPUT: usize = 1024;

/// What a prompt is to be for.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PromptOptions {
    /// The session that it is for, of the agent with this user.
    pub session: Option<(String, String)>,
    /// As it was at this moment; else as it is now.
    pub at: Option<Moment>,
    /// What the caller says of its surroundings. Of the past, what was said then if nothing is given.
    pub inputs: Option<Inputs>,
    /// Whether the session is not told that a prompt was built.
    pub dry: bool,
}

impl PromptOptions {
    /// For a session of the agent with a user.
    #[must_use]
    pub fn session(self, user: impl Into<String>, session: impl Into<String>) -> Self {
        Self { session: Some((user.into(), session.into())), ..self }
    }

    /// As it was at this moment.
    #[must_use]
    pub fn at(self, moment: Moment) -> Self {
        Self { at: Some(moment), ..self }
    }

    /// With these surroundings.
    #[must_use]
    pub fn inputs(self, inputs: Inputs) -> Self {
        Self { inputs: Some(inputs), ..self }
    }

    /// Without telling the session.
    #[must_use]
    pub fn dry(self) -> Self {
        Self { dry: true, ..self }
    }
}

/// What is not in the tree and in the prompt all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Inputs {
    /// Where the agent's tools run; which skills are eligible depends on them.
    pub hosts: Vec<Host>,
    /// Lines of the section Runtime: a name and what is so.
    pub runtime: BTreeMap<String, String>,
    /// What time it is, RFC 3339; the clock's if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
}

impl Inputs {
    fn check(&self) -> Result<()> {
        if self.hosts.len() > MAX_INPUTS || self.runtime.len() > MAX_INPUTS {
            return Err(Error::invalid(format!("at most {MAX_INPUTS} hosts and as many lines of runtime")));
        }
        let is_line =
            |text: &String| (1..=MAX_INPUT).contains(&text.len()) && !text.chars().any(char::is_control);
        match self.runtime.iter().find(|(name, value)| !is_line(name) || !is_line(value)) {
            Some((name, _)) => Err(Error::invalid(format!(
                "runtime, {name:?}: the name and what is so are one line each, of 1 to {MAX_INPUT} bytes"
            ))),
            None => self.time(Timestamp::default()).map(drop),
        }
    }

    /// What time it is.
    fn time(&self, now: Timestamp) -> Result<Timestamp> {
        self.clock.as_deref().map_or(Ok(now), Timestamp::parse_rfc3339)
    }
}

/// A prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prompt {
    /// The agent.
    pub agent: String,
    /// The class of the session that it is for: what it may hold depends on that.
    pub class: String,
    /// Whether it is that of a first run.
    pub bootstrap: bool,
    /// What the model gets, in Markdown.
    pub text: String,
    /// How many tokens that has.
    pub tokens: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// What it is made of, in order, and what is not in it.
    pub parts: Vec<Part>,
    /// What comes first and stays from call to call.
    pub stable: Stable,
    /// The commit after which all of its files were read.
    pub seq: Seq,
    /// What the caller said, with the time.
    pub inputs: Inputs,
    /// The id of the event that tells of it.
    pub event: Option<String>,
    /// What was told of it when it was built first.
    pub replayed: Option<Replayed>,
    /// Whether the session's prompt is to stay like this.
    pins: bool,
    /// Whether sessions of the agent are reset by themselves.
    resets: bool,
    /// When its files were read: what had expired by then is not in it.
    read_at: Timestamp,
}

/// A part of a prompt, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Part {
    /// Its name: `base`, `bootstrap`, `soul`, `identity`, `user`, `agents`, `fragments`, `memory`,
    /// `yesterday`, `today`, `tools`, `heartbeat`, `skills`, `runtime` or `changes`.
    pub name: &'static str,
    /// The section that it is in.
    pub section: &'static str,
    /// The file that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<TreePath>,
    /// The version of its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// The SHA-256 of its content; of a day's memory, of what of it is for the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// How many tokens it adds, with its heading and what is between it and the next; 0 if it is not there.
    /// Those of all parts are those of the prompt.
    pub tokens: u64,
    /// Whether it is in the prompt.
    pub included: bool,
    /// Why it is, or is not.
    pub reason: String,
    /// Where it is in the text of the prompt, in bytes; the heading of its section is before it.
    #[serde(skip)]
    pub range: Range<usize>,
}

impl Part {
    /// A part that is not there.
    fn none(name: &'static str, reason: &str) -> Self {
        let (reason, section) = (reason.to_owned(), assemble::section(name));
        let (file, version, sha256) = (None, None, None);
        Self { name, section, file, version, sha256, tokens: 0, included: false, reason, range: 0..0 }
    }
}

/// The part of a prompt before the first section that changes from call to call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stable {
    /// How many bytes it has.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
}

/// A prompt that was built before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Replayed {
    /// The event that told of it.
    pub event: String,
    /// When it was built.
    pub built_at: String,
    /// The SHA-256 that it had.
    pub sha256: String,
    /// Whether it is the same again. It may not be if another version of garth built it.
    pub same: bool,
}

impl Workspace<'_> {
    /// The prompt, now or as it was. For a session that is there now, its events tell that it was built.
    ///
    /// As it was: what was built last until that moment, of the same files, with what the caller said then;
    /// with `inputs`, what would have been built.
    ///
    /// # Errors
    /// `NotFound` for a session that is not there; `AccessDenied` for one of another class than the author's;
    /// `InvalidArgument` for files, settings and inputs that cannot be read, and for the past of a session of
    /// which no prompt was built, without inputs; `TooLarge` for files of more than 1 MiB; `Gone` beyond
    /// retention; from the filesystem.
    pub async fn prompt(&self, options: &PromptOptions) -> Result<Prompt> {
        options.inputs.as_ref().map_or(Ok(()), Inputs::check)?;
        if let Some((user, session)) = &options.session {
            check_id("user", user)?;
            check_id("session", session)?;
        }
        match (&options.at, &options.inputs) {
            (Some(at), None) => self.replay(options, at).await,
            (Some(at), Some(inputs)) => self.build(options, Some(at), inputs.clone(), None).await,
            (None, inputs) => {
                let prompt = self.build(options, None, inputs.clone().unwrap_or_default(), None).await?;
                if options.dry {
                    return Ok(prompt);
                }
                let told = self.told(options, prompt).await?;
                if let (Some((user, session)), true) = (&options.session, told.resets) {
                    self.look_again(user, session).await?;
                }
                Ok(told)
            }
        }
    }

    /// Puts it together of the files of a moment.
    async fn build(
        &self,
        options: &PromptOptions,
        at: Option<&Moment>,
        mut inputs: Inputs,
        read_at: Option<Timestamp>,
    ) -> Result<Prompt> {
        // of a time in the past that is the time
        let now_is = match at {
            Some(Moment::Time(time)) => *time,
            _ => self.env.now(),
        };
        let time = inputs.time(now_is)?;
        inputs.clock = Some(time.to_rfc3339());
        let moment = self.moment(at).await?;
        let mut files = Files::read(self, &*moment, options.session.as_ref(), time, read_at).await?;
        let class = self.class(files.session.as_ref())?;
        let since = match files.session.as_ref().and_then(pinned_since) {
            Some(since) if files.settings.prompt.pinned && since < files.seq => Some(since),
            _ => None,
        };
        let mut now = None;
        if let Some(since) = since {
            match self.moment(Some(&Moment::Seq(since))).await {
                Ok(then) => {
                    let mut pinned = Files::read(self, &*then, options.session.as_ref(), time, None).await?;
                    // whose memory a session may see is not pinned
                    pinned.settings.daily_memory = files.settings.daily_memory;
                    now = Some(std::mem::replace(&mut files, pinned));
                }
                // what is no longer kept cannot be pinned
                Err(error) if error.is(ErrorKind::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        let mut prompt =
            assemble::prompt(&self.agent, &class, &files, now.as_ref(), inputs, time, &self.known);
        prompt.read_at = now_is;
        prompt.resets = now.as_ref().unwrap_or(&files).settings.reset.policy != ResetPolicy::Manual;
        Ok(prompt)
    }
}

/// The field of `meta.json` that has the commit of which a session's prompt is pinned.
pub(super) const PINNED_SINCE: &str = "prompt_since";

/// Since when a session has its prompt.
fn pinned_since(meta: &Meta) -> Option<Seq> {
    meta.other.get(PINNED_SINCE)?.as_u64().map(Seq)
}
