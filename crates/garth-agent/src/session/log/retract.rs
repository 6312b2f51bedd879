//! Retracts messages: models no longer get them, the log keeps them.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::draft::Draft;
use super::message::Message;
use super::source::{Resolved, Source, What};
use crate::boxed;
use crate::ids::uuid;
use crate::once::{Outcome, PENDING};
use crate::registry::projections::sessions::{ASSISTANT, MAX_RETRACTED, WITHDRAWN};
use crate::retry::retry;
use crate::session::handle::Sessions;
use crate::session::store::files::{LATEST, Log, UPDATED_AT};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{At, Commit, Op, Precondition, Seq};

/// Limit on the messages of one retraction.
const MAX_AT_ONCE: u64 = 1_000_000;

/// Limit on the bytes of the reason of a retraction.
pub const MAX_REASON: usize = 4096;

/// Limit on the events of one retraction that skip earlier retracted lines.
const MAX_EVENTS: usize = 500;

/// Limit on the runs that are followed to find out how far retracted lines reach.
const MAX_STEPS: usize = 64;

/// Result of a retraction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Retracted {
    /// Lines of the retracted messages.
    pub lines: RangeInclusive<u64>,
    /// Ids of the events that record it; none if all were retracted before.
    pub events: Vec<String>,
    /// The commit.
    pub seq: Seq,
}

impl Outcome for Retracted {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: commit.seq, ..self }
    }
}

/// Retraction that a caller has written as an event.
pub(super) struct GivenRetraction {
    /// Source of the lines to retract.
    source: Source,
    lines: RangeInclusive<u64>,
    /// Source of the run that contains them, and its lines, if the event names a longer one.
    span: Option<(Source, RangeInclusive<u64>)>,
}

impl GivenRetraction {
    /// Reads an event to append, and checks what can be checked without its session. `None` for an event of
    /// another type.
    ///
    /// # Errors
    /// As those of [`Sessions::retract`] that need no session.
    pub(super) fn of(event: &Draft) -> Result<Option<Self>> {
        if event.text("type").as_deref() != Some(WITHDRAWN) {
            return Ok(None);
        }
        check_reason(field(event, "reason")?.as_deref())?;
        let Some(text) = field(event, "source")? else {
            return Err(Error::invalid("a retraction needs a `source`, such as messages:3-5"));
        };
        let (source, lines) = lines_in("source", &text)?;
        let span = field(event, "span")?.map(|text| lines_in("span", &text)).transpose()?;
        let has_lines = |run: &RangeInclusive<u64>| run.contains(lines.start()) && run.contains(lines.end());
        if span.as_ref().is_some_and(|(_, run)| !has_lines(run)) {
            let message = format!("`span` has to contain the lines of `source`, {source}; or leave it out");
            return Err(Error::invalid(message));
        }
        let span = span.filter(|(_, run)| *run != lines);
        Ok(Some(Self { source, lines, span }))
    }
}

/// Returns a field of an event that retracts messages.
fn field(event: &Draft, name: &str) -> Result<Option<String>> {
    match (event.text(name), event.has(name)) {
        (None, true) => Err(Error::invalid(format!("`{name}` of a retraction has to be text"))),
        (text, _) => Ok(text),
    }
}

/// Parses the lines that an event names, in the one form that readers of the log know.
fn lines_in(field: &str, text: &str) -> Result<(Source, RangeInclusive<u64>)> {
    let source: Source = text.parse()?;
    check_source(None, &source)?;
    match &source.what {
        What::Lines(Log::Messages, lines) if source.to_string() == text => {
            let lines = lines.clone();
            Ok((source, lines))
        }
        What::Lines(Log::Messages, _) => Err(Error::invalid(format!("write `{field}` as {source}"))),
        _ => Err(Error::invalid(format!(
            "{text}: `{field}` of an event is a range of messages, such as messages:3-5; `retract` takes \
             other sources"
        ))),
    }
}

/// Checks that a source can name messages of the session itself.
fn check_source(session: Option<&str>, source: &Source) -> Result<()> {
    let is_own = source.session.as_deref().is_none_or(|own| Some(own) == session);
    if is_own && !matches!(source.what, What::Path(_) | What::Swap(_)) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{source}: name messages of the session itself, such as messages:3-5, msg-..., or tail:2"
    )))
}

/// Checks the length of a reason. Every reader of the log reads it with the event.
fn check_reason(reason: Option<&str>) -> Result<()> {
    let length = reason.map_or(0, str::len);
    if length <= MAX_REASON {
        return Ok(());
    }
    let message = format!(
        "the reason of a retraction has at most {MAX_REASON} bytes, and this one has {length}; shorten it"
    );
    Err(Error::new(ErrorKind::TooLarge, message))
}

/// Returns the lines that were not retracted before.
fn new_lines(lines: &RangeInclusive<u64>, gone: &[RangeInclusive<u64>]) -> Vec<RangeInclusive<u64>> {
    let (mut next, end) = (*lines.start(), *lines.end());
    let mut new = Vec::new();
    for run in gone {
        if next < *run.start() {
            new.push(next..=run.start() - 1);
        }
        next = next.max(run.end() + 1);
    }
    if next <= end {
        new.push(next..=end);
    }
    // An event each would be far longer than one for all.
    if new.len() > MAX_EVENTS { vec![lines.clone()] } else { new }
}

/// Returns lines in parts that one event retracts.
fn in_parts(lines: &RangeInclusive<u64>) -> impl Iterator<Item = RangeInclusive<u64>> {
    let (first, end) = (*lines.start(), *lines.end());
    (first..=end).step_by(MAX_RETRACTED as usize).map(move |from| from..=end.min(from + MAX_RETRACTED - 1))
}

impl Sessions<'_> {
    /// Retracts messages, in one commit, with an event for each run of lines that were not retracted before,
    /// and removes everything derived from them. `tail:N` names the last N messages that were not retracted
    /// before, so a repeat of it retracts further ones. Retracting the same lines again changes nothing.
    ///
    /// # Errors
    /// `InvalidArgument` for a source of anything but messages; `NotFound` for a missing session or message;
    /// `TooLarge` for more than 1,000,000 messages, and for a reason of more than [`MAX_REASON`] bytes; from
    /// the filesystem.
    #[boxed]
    pub async fn retract(&self, session: &str, source: &Source, reason: Option<&str>) -> Result<Retracted> {
        check_source(Some(session), source)?;
        check_reason(reason)?;
        self.check_writable(session)?;
        let done = self.once.run(retry(|| self.retract_once(session, source, reason))).await?;
        // A repeat finishes this after a crash.
        let is_repeat = self.once.is_repeat() || done.events.is_empty();
        self.remove_elsewhere(session, (std::slice::from_ref(&done.lines), is_repeat)).await?;
        Ok(done)
    }

    async fn retract_once(&self, session: &str, source: &Source, reason: Option<&str>) -> Result<Retracted> {
        let mut conditions = self.logs_as_read(session).await?;
        conditions.push((self.is_there(session)?, Precondition::Exists));
        self.meta(session).await?;
        let lines = self.lines_to_retract(session, source).await?;
        // Retracted lines are not retracted again. Otherwise each repeat would add an event that reads have
        // to look at.
        let drafts = self.retractions(session, &lines, reason).await?;
        if drafts.is_empty() {
            let done = Retracted { lines, events: Vec::new(), seq: self.fs.head().await?.seq };
            let batch = self.batch(session, Vec::new(), "retract nothing new of session")?;
            return self.once.unchanged(self.fs, batch, done).await;
        }
        let now = self.env.now().to_rfc3339();
        let run = format!("run-{}", uuid(&self.env)?);
        let (mut events, mut body) = (Vec::new(), String::new());
        if self.end(session, Log::Events).await?.open {
            body.push('\n');
        }
        // In the same commit, so that no reader of derived files has to check for retractions.
        let derived = self.without_retracted(session, &drafts).await?;
        for event in drafts {
            let id = format!("ev-{}", uuid(&self.env)?);
            let event = event.with("id", &id).with("run", &run).with("created_at", &now);
            event.check(Log::Events)?;
            body.push_str(&(event.line() + "\n"));
            events.push(id);
        }
        let mut ops = vec![Op::append(self.file(session, Log::Events.file())?, body).must_exist()];
        let latest = self.latest_without(session, std::slice::from_ref(&lines)).await?;
        ops.push(Op::write(self.file(session, LATEST)?, latest));
        ops.push(Op::write(self.file(session, UPDATED_AT)?, format!("{now}\n")));
        ops.extend(derived.ops);
        conditions.extend(derived.conditions);
        let batch = self.batch(session, ops, "retract messages of session")?.even_when_full();
        let batch = conditions.into_iter().fold(batch, |batch, (at, that)| batch.require(at, that));
        self.once.commit(self.fs, batch, Retracted { lines, events, seq: PENDING }).await
    }

    /// Returns the conditions that both logs stay as they are. The lines that `tail:N` names, the lines that
    /// are already retracted and the latest answer depend on them: they must not change until the commit.
    async fn logs_as_read(&self, session: &str) -> Result<Vec<(At, Precondition)>> {
        let mut conditions = Vec::new();
        for log in [Log::Messages, Log::Events] {
            let at = At::from(self.file(session, log.file())?);
            let entry = self.fs.stat(&at).await.map_err(|error| match error.is(ErrorKind::NotFound) {
                true => crate::session::handle::missing(session),
                false => error,
            })?;
            conditions.push((at, Precondition::Etag(entry.etag)));
        }
        Ok(conditions)
    }

    /// Returns the messages that a retraction names. Each retraction passes here, whether it is a call or an
    /// appended event: an event must not hide what [`Self::retract`] refuses to hide, such as messages that
    /// are appended later.
    async fn lines_to_retract(&self, session: &str, source: &Source) -> Result<RangeInclusive<u64>> {
        let lines = match &source.what {
            // The place of the lines is not needed, only that they exist.
            What::Lines(Log::Messages, lines) => {
                self.check_lines(session, source, (Log::Messages, lines)).await?;
                lines.clone()
            }
            _ => match self.resolve(session, source).await? {
                Resolved::Lines { log: Log::Messages, lines, .. } => lines,
                _ => return Err(Error::invalid(format!("{source}: only messages are retracted"))),
            },
        };
        if lines.end() - lines.start() >= MAX_AT_ONCE {
            let message = format!("at most {MAX_AT_ONCE} messages are retracted at once");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(lines)
    }

    /// Judges new events of a caller that retract messages, as [`Self::retract`] judges its source. Returns
    /// the lines that they retract, with the conditions of the commit.
    ///
    /// # Errors
    /// As those of [`Self::retract`]; `InvalidArgument` for a `span` with messages that are not retracted;
    /// `TooLarge` for more lines than one event has keys for.
    pub(super) async fn judged_retractions(
        &self,
        session: &str,
        events: &[Draft],
    ) -> Result<(Vec<RangeInclusive<u64>>, Vec<(At, Precondition)>)> {
        let given = events.iter().map(GivenRetraction::of).collect::<Result<Vec<_>>>()?;
        let given: Vec<GivenRetraction> = given.into_iter().flatten().collect();
        if given.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let conditions = self.logs_as_read(session).await?;
        for retraction in &given {
            let lines = self.lines_to_retract(session, &retraction.source).await?;
            if lines.end() - lines.start() >= MAX_RETRACTED {
                let message = format!(
                    "{}: one event retracts at most {MAX_RETRACTED} messages; append one for each part",
                    retraction.source
                );
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
        }
        self.check_spans(session, &given).await?;
        Ok((given.into_iter().map(|retraction| retraction.lines).collect(), conditions))
    }

    /// Checks that all messages of each `span` are retracted, by earlier events or by these. Reads skip the
    /// messages of a span without a look at each: a false one would hide the others from some reads.
    async fn check_spans(&self, session: &str, given: &[GivenRetraction]) -> Result<()> {
        let spans: Vec<&(Source, RangeInclusive<u64>)> =
            given.iter().filter_map(|retraction| retraction.span.as_ref()).collect();
        if spans.is_empty() {
            return Ok(());
        }
        let mut all = self.retractions_of(session).await?;
        for retraction in given {
            // Only the lines count here, not the event that retracts them.
            all.add(&retraction.lines, 0);
        }
        for (source, run) in spans {
            // A span beyond the last message would hide later ones.
            self.check_lines(session, source, (Log::Messages, run)).await?;
            if !all.have_all(run) {
                let message = format!("`span`: not all of {source} are retracted; leave `span` out");
                return Err(Error::invalid(message));
            }
        }
        Ok(())
    }

    /// Returns the events that retract some lines, without ids: one for each run that was not retracted
    /// before, of at most 65,536 lines.
    pub(crate) async fn retractions(
        &self,
        session: &str,
        lines: &RangeInclusive<u64>,
        reason: Option<&str>,
    ) -> Result<Vec<Draft>> {
        let gone = self.retracted(session, lines.clone()).await?;
        let new = new_lines(lines, &gone);
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let span = self.run_around(session, lines).await?;
        let span = format!("messages:{}-{}", span.start(), span.end());
        let event = |part: RangeInclusive<u64>| {
            let event = Draft::event(WITHDRAWN)
                .with("source", &format!("messages:{}-{}", part.start(), part.end()))
                .with("span", &span);
            reason.into_iter().fold(event, |event, reason| event.with("reason", reason))
        };
        Ok(new.iter().flat_map(in_parts).map(event).collect())
    }

    /// Returns the run that some lines belong to once they are retracted: these lines, with the retracted
    /// ones right before and after them.
    async fn run_around(&self, session: &str, lines: &RangeInclusive<u64>) -> Result<RangeInclusive<u64>> {
        let (mut first, mut last) = (*lines.start(), *lines.end());
        // Runs of events that other programs wrote name their own lines alone: some are followed.
        for _ in 0..MAX_STEPS {
            if first == 1 || self.retracted(session, first - 1..=first - 1).await?.is_empty() {
                break;
            }
            first = self.run_start(session, first - 1, u64::MAX).await?;
        }
        for _ in 0..MAX_STEPS {
            if self.retracted(session, last + 1..=last + 1).await?.is_empty() {
                break;
            }
            last = self.run_end(session, last + 1).await?;
        }
        Ok(first..=last)
    }

    /// Returns the text of the last message of the assistant that has text and is not among `gone`.
    pub(crate) async fn latest_without(&self, session: &str, gone: &[RangeInclusive<u64>]) -> Result<String> {
        let mut before = u64::MAX;
        while let Some(line) = self.latest(session, ASSISTANT, before).await? {
            before = line.number;
            if let Some(run) = gone.iter().find(|run| run.contains(&line.number)) {
                // The log does not say yet that these lines are retracted. All of them are skipped at once.
                before = *run.start();
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
