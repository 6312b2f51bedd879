//! Compaction: summarizes a session. Without a model the summary consists of excerpts, and says so; with one
//! it is the answer of the model, if that passes all checks. Messages stay as they are.

mod extractive_summary;
mod plan;
mod question;
mod trim;

use std::collections::HashMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use self::extractive_summary::Excerpts;
use self::plan::Compaction;
use super::derived::derive::{Derive, Derived, DerivedMessages};
use super::derived::entry::{Entry, EntryKind, MAX_DERIVED, lines_of, parse_entries};
use super::handle::Sessions;
use super::log::message::Message;
use super::render::whole;
use super::store::files::{Log, SUMMARY, TODO};
use crate::boxed;
use crate::models::{Allowance, ChatModel, asked};
use crate::once::Outcome;
use crate::registry::projections::sessions::result_key;
use crate::retry::yield_now;
use crate::small_file::{File, as_read, read_all};
use garth_engine::error::Result;
use garth_engine::model::{Commit, Seq};

/// Limit on the messages that one compaction reads; the next one continues.
const MAX_LINES: u64 = 10_000;
/// Limit on the tokens of messages in one question to a model.
const MAX_ASKED: u64 = 100_000;

/// Options of a compaction.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Compact<'m> {
    /// Model to ask, if any.
    pub model: Option<&'m dyn ChatModel>,
    /// Tokens that models may use a day; after that, compaction works without a model.
    pub allowance: Option<&'m Allowance>,
    /// Limit on the tokens of the summary.
    pub max_tokens: u64,
    /// Number of the last messages to leave out: packs contain them anyway.
    pub keep: u64,
}

impl Default for Compact<'_> {
    fn default() -> Self {
        Self { model: None, allowance: None, max_tokens: 1000, keep: 10 }
    }
}

/// Result of a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compacted {
    /// Messages that the summary covers for the first time; `None` if there were none.
    pub lines: Option<RangeInclusive<u64>>,
    /// True if a model wrote it.
    pub by_model: bool,
    /// The commit.
    pub seq: Option<Seq>,
    /// True if more messages can be compacted.
    pub more: bool,
}

impl Outcome for Compacted {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: self.seq.map(|_| commit.seq), ..self }
    }
}

impl Sessions<'_> {
    /// Updates the derived files with the messages since the last compaction. Tool calls stay together with
    /// their results.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid answer of a model, `Unavailable` for none, `Conflict` for one with a
    /// source that does not exist, and if messages were retracted meanwhile: nothing is changed, and a retry
    /// is possible; `NotFound`; from the filesystem.
    #[boxed]
    pub async fn compact(&self, session: &str, compact: &Compact<'_>) -> Result<Compacted> {
        self.once.run(self.compact_once(session, compact)).await
    }

    async fn compact_once(&self, session: &str, compact: &Compact<'_>) -> Result<Compacted> {
        self.meta(session).await?;
        let end = self.end(session, Log::Messages).await?.lines.saturating_sub(compact.keep);
        let Some(made) = self.compaction(session, compact, end).await? else {
            let batch = self.batch(session, Vec::new(), "compact nothing of session")?;
            let nothing = Compacted { lines: None, by_model: false, seq: None, more: false };
            return self.once.unchanged(self.fs, batch, nothing).await;
        };
        let Compaction { lines, by_model, more, derive, .. } = made;
        let outcome =
            |done: Derived| Compacted { lines: Some(lines.clone()), by_model, seq: Some(done.seq), more };
        self.derive_as(session, &derive, outcome).await
    }

    /// Returns the derived files of a compaction up to a line; `None` without new messages.
    pub(crate) async fn compaction(
        &self,
        session: &str,
        compact: &Compact<'_>,
        end: u64,
    ) -> Result<Option<Compaction>> {
        // Before a model is asked.
        self.check_writable(session)?;
        let mut names = vec![SUMMARY, TODO];
        names.extend(EntryKind::ALL.map(EntryKind::file));
        let paths = names.iter().map(|name| self.file(session, name)).collect::<Result<Vec<_>>>()?;
        let read = read_all(self.fs, &paths, MAX_DERIVED).await?;
        let texts: Vec<&str> =
            read.iter().map(|file| file.as_ref().and_then(File::text).unwrap_or_default()).collect();
        let summary = as_read(read[0].as_ref());
        let mut excerpts = Excerpts::parse(texts[0]);
        let first = excerpts.covered() + 1;
        let last = end.min(first + MAX_LINES - 1);
        if first > last {
            return Ok(None);
        }
        // Noted in the derived files: if further messages are retracted before the commit, it fails.
        let gone = self.retracted(session, first..=last).await?;
        let made_of = |lines: &RangeInclusive<u64>| Some(DerivedMessages::new(lines, &gone));
        if let Some(model) = compact.model
            && let Some((lines, mut derive)) =
                self.by_model(session, compact, model, (&names, &texts), first..=last).await?
        {
            let more = *lines.end() < end;
            derive.made_of = made_of(&lines);
            return Ok(Some(Compaction { lines, derive, by_model: true, more, summary }));
        }
        // A call and its result are summarized together, and leave packs together.
        let last = self.last_complete_step(session, first..=last).await?;
        if first > last {
            return Ok(None);
        }
        let mut next = first;
        while next <= last {
            let page = self.raw_lines(session, Log::Messages, next..=last, 1000).await?;
            next = page.next.unwrap_or(u64::MAX);
            for line in page.items {
                if !gone.iter().any(|lines| lines.contains(&line.number))
                    && let Ok(message) = Message::parse(&line.text)
                {
                    excerpts.add(line.number, &message);
                }
            }
        }
        let text = Some(excerpts.text(last, compact.max_tokens));
        let lines = first..=last;
        let derive = Derive { summary: text, made_of: made_of(&lines), ..Derive::default() };
        Ok(Some(Compaction { lines, derive, by_model: false, more: last < end, summary }))
    }

    /// Returns the last of some lines after which no result of an earlier call follows.
    pub(crate) async fn last_complete_step(&self, session: &str, lines: RangeInclusive<u64>) -> Result<u64> {
        let (mut calls, mut steps) = (HashMap::new(), Vec::new());
        let mut next = *lines.start();
        while next <= *lines.end() {
            let page = self.raw_lines(session, Log::Messages, next..=*lines.end(), 1000).await?;
            next = page.next.unwrap_or(u64::MAX);
            for line in page.items {
                let Ok(message) = Message::parse(&line.text) else { continue };
                calls.extend(message.calls().map(|call| (call.to_owned(), line.number)));
                if let Some(call) = message.result_of().and_then(|of| calls.remove(of)) {
                    steps.push((call, line.number));
                }
            }
            yield_now().await;
        }
        for (call, line) in calls {
            let behind = self.keyed(session, Log::Messages, &result_key(&call), *lines.end() + 1, 1).await?;
            // A call without any result cannot be separated from it.
            if !behind.is_empty() {
                // The result follows these lines: the step of its call is not complete within them.
                steps.push((line, u64::MAX));
            }
        }
        steps.sort_unstable();
        let mut last = *lines.end();
        // From the last step back: to leave one step out can cut another one that it overlaps.
        for (call, result) in steps.into_iter().rev() {
            if call <= last && last < result {
                last = call - 1;
            }
        }
        Ok(last)
    }

    /// Renders lines for a model: as many as have `most` tokens, at least one message. Returns them with the
    /// last line.
    pub(crate) async fn rendered_lines(
        &self,
        session: &str,
        lines: RangeInclusive<u64>,
        most: u64,
    ) -> Result<(Vec<(u64, String)>, u64)> {
        let gone = self.retracted(session, lines.clone()).await?;
        let (mut said, mut tokens, mut last) = (Vec::new(), 0, *lines.start() - 1);
        let mut next = *lines.start();
        while next <= *lines.end() {
            let page = self.raw_lines(session, Log::Messages, next..=*lines.end(), 1000).await?;
            next = page.next.unwrap_or(u64::MAX);
            for line in page.items {
                if let Ok(message) = Message::parse(&line.text)
                    && !gone.iter().any(|lines| lines.contains(&line.number))
                {
                    let shown = whole(line.number, message, &self.tokens);
                    // One message at least, or a long one would stop each further compaction.
                    if tokens + shown.tokens > most && tokens > 0 {
                        return Ok((said, last));
                    }
                    tokens += shown.tokens;
                    said.push((line.number, shown.text));
                }
                last = line.number;
            }
        }
        Ok((said, last))
    }

    /// Asks the model. Returns `None` if the tokens of the day are used up, or if a step is too long for it.
    async fn by_model(
        &self,
        session: &str,
        compact: &Compact<'_>,
        model: &dyn ChatModel,
        (names, texts): (&[&str], &[&str]),
        lines: RangeInclusive<u64>,
    ) -> Result<Option<(RangeInclusive<u64>, Derive)>> {
        let (said, last) = self.rendered_lines(session, lines.clone(), MAX_ASKED).await?;
        let last = self.last_complete_step(session, *lines.start()..=last).await?;
        if last < *lines.start() {
            return Ok(None);
        }
        let lines = *lines.start()..=last;
        let said: String = said.into_iter().filter(|(line, _)| *line <= last).map(|(_, text)| text).collect();
        let ask = question::ask(&lines, (names, texts), &said, compact.max_tokens);
        // Without tokens left for today, the caller makes a summary of excerpts.
        let Some(answer) = asked(model, compact.allowance, &ask).await? else { return Ok(None) };
        let mut derive = question::read(&answer, &lines)?;
        // References to results of children stay until somebody changes them: a model must not drop them.
        let kinds = ["child_result", "artifact", "refs"];
        let of_child = |entry: &Entry| entry.to.as_ref().is_some_and(|(_, kind)| kinds.contains(&&**kind));
        let given = parse_entries(EntryKind::Ref, derive.refs.as_deref().unwrap_or_default())?;
        let kept = self.entries(session, EntryKind::Ref).await?.into_iter().filter(of_child);
        let kept: Vec<Entry> = kept.filter(|kept| given.iter().all(|entry| entry.id != kept.id)).collect();
        derive.refs = Some(lines_of(&kept) + &lines_of(&given));
        Ok(Some((lines, derive)))
    }
}
