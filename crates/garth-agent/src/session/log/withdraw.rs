//! Withdraws messages: models no longer get them, the log keeps them.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::draft::Draft;
use super::message::Message;
use super::source::{Resolved, Source, What};
use crate::boxed;
use crate::ids::uuid;
use crate::once::{Outcome, PENDING};
use crate::registry::projections::sessions::{ASSISTANT, MAX_WITHDRAWN};
use crate::retry::retry;
use crate::session::handle::Sessions;
use crate::session::store::files::{LATEST, Log, UPDATED_AT};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{At, Commit, Op, Precondition, Seq};

/// Limit on the messages of one withdrawal.
const MAX_AT_ONCE: u64 = 1_000_000;

/// Result of a withdrawal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Withdrawn {
    /// Lines of the withdrawn messages.
    pub lines: RangeInclusive<u64>,
    /// Ids of the events that record it.
    pub events: Vec<String>,
    /// The commit.
    pub seq: Seq,
}

impl Outcome for Withdrawn {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: commit.seq, ..self }
    }
}

impl Sessions<'_> {
    /// Withdraws messages, in one commit, with an event for each 65,536 lines. `tail:N` names the last N
    /// messages that were not withdrawn before.
    ///
    /// # Errors
    /// `InvalidArgument` for a source of other things than messages; `NotFound`; `TooLarge`; from the
    /// filesystem.
    #[boxed]
    pub async fn withdraw(&self, session: &str, source: &Source, reason: Option<&str>) -> Result<Withdrawn> {
        let is_own = source.session.as_deref().is_none_or(|own| own == session);
        if !is_own || matches!(source.what, What::Path(_) | What::Swap(_)) {
            return Err(Error::invalid(format!(
                "{source}: only messages of the session itself are withdrawn"
            )));
        }
        self.once.run(retry(|| self.withdraw_once(session, source, reason))).await
    }

    async fn withdraw_once(&self, session: &str, source: &Source, reason: Option<&str>) -> Result<Withdrawn> {
        let mut conditions = Vec::new();
        // what is withdrawn depends on what was said and withdrawn so far
        for log in [Log::Messages, Log::Events] {
            let at = At::from(self.file(session, log.file())?);
            let entry = self.fs.stat(&at).await.map_err(|error| match error.is(ErrorKind::NotFound) {
                true => crate::session::handle::missing(session),
                false => error,
            })?;
            conditions.push((at, Precondition::Etag(entry.etag)));
        }
        conditions.push((self.is_there(session)?, Precondition::Exists));
        self.meta(session).await?;
        let resolved = self.resolve(session, source).await?;
        let Resolved::Lines { log: Log::Messages, lines, .. } = resolved else {
            return Err(Error::invalid(format!("{source}: only messages are withdrawn")));
        };
        if lines.end() - lines.start() >= MAX_AT_ONCE {
            let message = format!("at most {MAX_AT_ONCE} messages are withdrawn at once");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let now = self.env.now().to_rfc3339();
        let run = format!("run-{}", uuid(&self.env)?);
        let (mut events, mut body) = (Vec::new(), String::new());
        if self.end(session, Log::Events).await?.open {
            body.push('\n');
        }
        for event in withdrawals(&lines, reason) {
            let id = format!("ev-{}", uuid(&self.env)?);
            let event = event.with("id", &id).with("run", &run).with("created_at", &now);
            event.check(Log::Events)?;
            body.push_str(&(event.line() + "\n"));
            events.push(id);
        }
        let mut ops = vec![Op::append(self.file(session, Log::Events.file())?, body).must_exist()];
        ops.push(Op::write(self.file(session, LATEST)?, self.latest_without(session, &lines).await?));
        ops.push(Op::write(self.file(session, UPDATED_AT)?, format!("{now}\n")));
        let batch = self.batch(session, ops, "withdraw messages of session");
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        self.once.commit(self.fs, batch, Withdrawn { lines, events, seq: PENDING }).await
    }

    /// Returns the text of the last message of the assistant that has text and is not among `gone`.
    pub(crate) async fn latest_without(&self, session: &str, gone: &RangeInclusive<u64>) -> Result<String> {
        let mut before = u64::MAX;
        while let Some(line) = self.latest(session, ASSISTANT, before).await? {
            before = line.number;
            if gone.contains(&line.number) {
                before = *gone.start();
                continue;
            }
            let text = Message::parse(&line.text)?.text();
            if !text.is_empty() {
                return Ok(text);
            }
        }
        Ok(String::new())
    }
}

/// Returns the events that withdraw some lines: one for each 65,536.
pub(crate) fn withdrawals(lines: &RangeInclusive<u64>, reason: Option<&str>) -> Vec<Draft> {
    let (mut events, mut first) = (Vec::new(), *lines.start());
    while first <= *lines.end() {
        let last = lines.end().min(&(first + MAX_WITHDRAWN - 1)).to_owned();
        let event = Draft::event("message.withdrawn").with("source", &format!("messages:{first}-{last}"));
        events.push(reason.into_iter().fold(event, |event, reason| event.with("reason", reason)));
        first = last + 1;
    }
    events
}
