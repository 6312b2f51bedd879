//! Record of a built prompt: an event of the session, from which it can be built again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::inputs::{Inputs, PromptOptions};
use super::parts::{Prompt, Replayed};
use crate::once::Outcome;
use crate::session::{Append, AppendedLines, Draft, EVENTS};
use crate::workspace::handle::Workspace;
use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Moment, Seq, Timestamp};
use garth_engine::path::Name;

/// Field of `meta.json` with the commit at which the prompt of a session is pinned.
pub(crate) const PINNED_SINCE: &str = "prompt_since";

/// Type of the event.
const BUILT: &str = "prompt.built";

/// Content of the event.
#[derive(Debug, Serialize, Deserialize)]
struct PromptEvent {
    id: String,
    created_at: String,
    /// Commit after which the files were read.
    seq: Seq,
    /// Time at which they were read.
    read_at: Option<String>,
    inputs: Inputs,
    sha256: String,
}

/// Outcome of building a prompt: the sources from which a repeat builds it again.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordedPrompt {
    seq: Seq,
    read_at: Timestamp,
    inputs: Inputs,
    event: Option<String>,
    /// False if it is that of an earlier attempt.
    #[serde(skip)]
    is_own: bool,
}

impl RecordedPrompt {
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Returns the id of the event that records the prompt.
    pub(super) fn into_event(self) -> Option<String> {
        self.event
    }
}

impl Outcome for RecordedPrompt {}

impl Workspace<'_> {
    /// Appends the event of a prompt to its session.
    pub(super) async fn record(&self, options: &PromptOptions, prompt: &Prompt) -> Result<RecordedPrompt> {
        let outcome = |event| RecordedPrompt {
            seq: prompt.seq,
            read_at: prompt.read_at,
            inputs: prompt.inputs.clone(),
            event,
            is_own: true,
        };
        let Some((user, session)) = &options.session else {
            return self.once.unchanged(self.fs, self.batch(Vec::new(), "build prompt"), outcome(None)).await;
        };
        let event = Draft::event(BUILT)
            .with("seq", &prompt.seq)
            .with("read_at", &prompt.read_at.to_rfc3339())
            .with("class", &prompt.class)
            .with("inputs", &prompt.inputs)
            .with("sha256", &prompt.sha256)
            .with("tokens", &prompt.tokens)
            .with("stable", &prompt.stable);
        let mut append = Append::events([event]);
        if prompt.pins {
            // In the commit of the event, so that the pin and the recorded prompt match.
            append = append.noting(PINNED_SINCE, prompt.seq.0.into());
        }
        let sessions = self.sessions(self.fs, user)?.once(self.once.clone());
        sessions.check_writable(session)?;
        // Before the event, whose commit is the outcome: a repeat after a crash marks the days again.
        self.mark_days(&prompt.unmarked).await?;
        let outcome = |lines: AppendedLines| outcome(lines.appended.events.into_iter().next());
        sessions.append_as(session, &append, outcome).await
    }

    /// Builds the prompt that an earlier attempt of a request has built.
    pub(super) async fn build_again(&self, options: &PromptOptions, of: RecordedPrompt) -> Result<Prompt> {
        let prompt = self.build(options, Some(&Moment::Seq(of.seq)), of.inputs, Some(of.read_at)).await?;
        Ok(Prompt { event: of.event, ..prompt })
    }

    /// Builds the last prompt again that was built until a time.
    pub(super) async fn replay(&self, options: &PromptOptions, at: &Moment) -> Result<Prompt> {
        let unknown = || {
            let message = "the inputs of that time are unknown, because no prompt was built for the session";
            let advice =
                "give the inputs: hosts, runtime, clock (on the command line --host, --runtime, --clock)";
            Error::invalid(message).advising(Advice::Command, advice)
        };
        let (user, session) = options.session.as_ref().ok_or_else(unknown)?;
        let then: Arc<dyn FileSystem> = self.moment(Some(at)).await?;
        let sessions = self.sessions(&*then, user)?;
        let event = sessions.last_event(session, BUILT).await?.ok_or_else(unknown)?;
        let file = sessions.directory(session)?.join(&Name::parse(EVENTS)?)?;
        let bad = |why: &str| {
            let message = format!("its last event {BUILT} cannot be read: {why}");
            Error::at(ErrorKind::Corrupt, &file, message)
        };
        // Events are in the log of the session, where other programs can write as well.
        let built: PromptEvent = serde_json::from_str(&event).map_err(|error| bad(&error.to_string()))?;
        built.inputs.check().map_err(|error| bad(error.message()))?;
        let read_at = built.read_at.as_deref().map(Timestamp::parse_rfc3339).transpose();
        let read_at = read_at.map_err(|error| bad(error.message()))?;
        let mut prompt = self.build(options, Some(&Moment::Seq(built.seq)), built.inputs, read_at).await?;
        let same = prompt.sha256 == built.sha256;
        prompt.replayed =
            Some(Replayed { event: built.id, built_at: built.created_at, sha256: built.sha256, same });
        Ok(prompt)
    }
}
