//! Inputs of a prompt besides the files of the workspace.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json_objects::{objects, texts};
use crate::workspace::paths::{PathsOf, reading_of};
use crate::workspace::reading::Reading;
use crate::workspace::skill_md::requires::{Host, check_hosts};
use garth_engine::error::{Error, Result};
use garth_engine::model::{Moment, Timestamp};
use garth_engine::text::secret::Judgement;

/// Limit on the hosts, and on the lines of the Runtime section.
const MAX_INPUTS: usize = 64;
/// Limit on the bytes of a name and of a value in the Runtime section.
const MAX_INPUT: usize = 1024;

/// Options of a prompt: its session, time and inputs.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PromptOptions {
    /// User and name of the session.
    #[doc(hidden)]
    pub session: Option<(String, String)>,
    /// Time as of which it is built; `None` is now.
    #[doc(hidden)]
    pub at: Option<Moment>,
    /// Inputs of the caller. For a time in the past, those of that time if none are given.
    #[doc(hidden)]
    pub inputs: Option<Inputs>,
    /// True if the session gets no event about the prompt.
    #[doc(hidden)]
    pub dry: bool,
}

impl PromptOptions {
    /// Sets the session of the agent with a user.
    #[must_use]
    pub fn session(self, user: impl Into<String>, session: impl Into<String>) -> Self {
        Self { session: Some((user.into(), session.into())), ..self }
    }

    /// Sets the time as of which the prompt is built.
    #[must_use]
    pub fn at(self, moment: Moment) -> Self {
        Self { at: Some(moment), ..self }
    }

    /// Sets the inputs.
    #[must_use]
    pub fn inputs(self, inputs: Inputs) -> Self {
        Self { inputs: Some(inputs), ..self }
    }

    /// Builds the prompt without an event in the session.
    #[must_use]
    pub fn dry(self) -> Self {
        Self { dry: true, ..self }
    }
}

/// Parts of a prompt that are not in the tree. The caller provides them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "PromptInputs")]
pub struct Inputs {
    /// Hosts on which the tools of the agent run. They decide which skills are eligible.
    #[serde(deserialize_with = "objects")]
    pub hosts: Vec<Host>,
    /// Lines of the section Runtime, by name.
    #[serde(deserialize_with = "texts")]
    pub runtime: BTreeMap<String, String>,
    /// Memory files of other audiences, which a prompt of a main session shows as evidence. Set by garth, for
    /// replays of the prompt. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// Tree whose paths the prompt contains. Set by garth. Missing in older prompts, which are replayed with
    /// the texts of that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathsOf>,
    /// Version of the detection of secrets. Set by garth. Missing in older prompts, which are replayed with
    /// the first version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<u32>,
    /// Version of the reading of files. Set by garth. Missing in older prompts, which are replayed with the
    /// second version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<u32>,
    /// Time of the prompt, RFC 3339. Missing if none was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
}

/// Number of the current reading of files.
const READING: u32 = 4;
/// Number of the first reading whose prompts replace control characters of skills.
const WITHOUT_CONTROLS: u32 = 4;

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

    /// Returns the inputs of a prompt that is built now, with the current detection of secrets
    /// and the current reading of files.
    pub(super) fn judged_now(self) -> Self {
        Self { secrets: Some(Judgement::CURRENT.number()), reading: Some(READING), ..self }
    }

    /// Returns the version of the detection of secrets under which the prompt is built.
    pub(super) fn judgement(&self) -> Judgement {
        Judgement::numbered(self.secrets).unwrap_or(Judgement::CURRENT)
    }

    /// Checks the number and the size of the inputs, and the form of the time.
    pub(super) fn check(&self) -> Result<()> {
        check_hosts(&self.hosts)?;
        if self.runtime.len() > MAX_INPUTS {
            return Err(Error::invalid(format!("at most {MAX_INPUTS} lines of runtime")));
        }
        // Each is one line of the section. With a line feed, a value could imitate other lines.
        let is_line =
            |text: &String| (1..=MAX_INPUT).contains(&text.len()) && !text.chars().any(char::is_control);
        match self.runtime.iter().find(|(name, value)| !is_line(name) || !is_line(value)) {
            Some((name, _)) => Err(Error::invalid(format!(
                "runtime, {name:?}: name and value must be one line each, of 1 to {MAX_INPUT} bytes"
            ))),
            None => self.time(Timestamp::default()).map(drop),
        }
    }

    /// Sets the tree whose paths the prompt contains.
    pub(super) fn naming(self, paths: PathsOf) -> Self {
        Self { paths: Some(paths), ..self }
    }

    /// Returns the reading of the prompt's files.
    pub(super) fn reading(&self) -> Reading {
        match reading_of(self.paths) {
            Reading::Now if self.reading.is_none() => Reading::Second,
            reading => reading,
        }
    }

    /// Returns true if the prompt replaces control characters in names and descriptions of skills.
    pub(super) fn replaces_controls(&self) -> bool {
        self.reading.is_some_and(|number| number >= WITHOUT_CONTROLS)
    }

    /// Returns the time of the caller, or else `now`.
    pub(super) fn time(&self, now: Timestamp) -> Result<Timestamp> {
        self.clock.as_deref().map_or(Ok(now), Timestamp::parse_rfc3339)
    }
}
