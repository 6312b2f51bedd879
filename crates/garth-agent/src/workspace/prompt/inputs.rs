//! What a prompt is built by besides the files of the workspace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::json_objects::{objects, texts};
use crate::workspace::paths::{PathsOf, reading_of};
use crate::workspace::reading::Reading;
use crate::workspace::skill_md::requires::{Host, check_hosts};
use garth_engine::error::{Error, Result};
use garth_engine::model::{Moment, Timestamp};
use garth_engine::text::secret::Judgement;

/// Limit on the hosts, and on the lines of runtime.
const MAX_INPUTS: usize = 64;
/// Longest name and longest value of a line of runtime, in bytes.
const MAX_INPUT: usize = 1024;

/// Options of a prompt: the session that it is for, and what is known of its surroundings.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PromptOptions {
    /// The session that it is for, of the agent with this user.
    #[doc(hidden)]
    pub session: Option<(String, String)>,
    /// As it was at this moment; else as it is now.
    #[doc(hidden)]
    pub at: Option<Moment>,
    /// What the caller says of its surroundings. Of the past, what was said then if nothing is given.
    #[doc(hidden)]
    pub inputs: Option<Inputs>,
    /// Whether the session is not told that a prompt was built.
    #[doc(hidden)]
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

/// Parts of a prompt that are not in the tree: the caller gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Inputs {
    /// Where the agent's tools run; which skills are eligible depends on them.
    #[serde(deserialize_with = "objects")]
    pub hosts: Vec<Host>,
    /// Lines of the section Runtime: a name and what is so.
    #[serde(deserialize_with = "texts")]
    pub runtime: BTreeMap<String, String>,
    /// Files of what other audiences remember, which a prompt of a main session shows as evidence. Garth
    /// fills them in, for building the prompt again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// Tree whose paths the prompt names. Garth fills it in. Prompts of before do not have it: they are built
    /// again with the texts of then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathsOf>,
    /// Version of what is taken for a secret. Garth fills it in. Prompts of before do not have it: they are
    /// built again with the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<u32>,
    /// What time it is, RFC 3339; the clock's if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
}

impl Inputs {
    /// Adds a host of the agent's tools.
    #[must_use]
    pub fn host(mut self, host: Host) -> Self {
        self.hosts.push(host);
        self
    }

    /// Adds a line of the section Runtime.
    #[must_use]
    pub fn runtime(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.runtime.insert(name.into(), value.into());
        self
    }

    /// Sets the time of the prompt, RFC 3339.
    #[must_use]
    pub fn clock(self, time: impl Into<String>) -> Self {
        Self { clock: Some(time.into()), ..self }
    }

    /// Returns the inputs of a prompt that is built now: its secrets are judged as now.
    pub(super) fn judged_now(self) -> Self {
        Self { secrets: Some(Judgement::CURRENT.number()), ..self }
    }

    /// Returns the judgement of secrets under which the prompt is built.
    pub(super) fn judgement(&self) -> Judgement {
        Judgement::numbered(self.secrets).unwrap_or(Judgement::CURRENT)
    }

    /// Checks the number and the size of the inputs, and that the time is one.
    pub(super) fn check(&self) -> Result<()> {
        check_hosts(&self.hosts)?;
        if self.runtime.len() > MAX_INPUTS {
            return Err(Error::invalid(format!("at most {MAX_INPUTS} lines of runtime")));
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

    /// Sets the tree whose paths the prompt names.
    pub(super) fn naming(self, paths: PathsOf) -> Self {
        Self { paths: Some(paths), ..self }
    }

    /// Returns how the files of the prompt are read.
    pub(super) fn reading(&self) -> Reading {
        reading_of(self.paths)
    }

    /// Returns the time that the caller gave, else `now`.
    pub(super) fn time(&self, now: Timestamp) -> Result<Timestamp> {
        self.clock.as_deref().map_or(Ok(now), Timestamp::parse_rfc3339)
    }
}
