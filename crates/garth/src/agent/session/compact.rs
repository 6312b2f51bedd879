//! Compaction: a session in few words. Without a model it is what was said, in excerpts, and says so; with
//! one it is what the model makes of it, if that can be checked. Messages stay as they are.

mod excerpt;
mod question;

use std::ops::RangeInclusive;

use self::excerpt::Excerpts;
use super::Sessions;
use super::derive::Derive;
use super::entry::{Entry, EntryKind, MAX_DERIVED, lines_of, parse_entries};
use super::files::{Log, SUMMARY, TODO};
use super::message::Message;
use super::shown::{Rules, Show};
use crate::agent::models::{Allowance, ChatModel};
use crate::agent::small::{File, read_all};
use crate::error::Result;
use crate::model::Seq;
use crate::text::count::count;

/// Most messages that one compaction reads; the next goes on.
const MAX_LINES: u64 = 10_000;
/// Most tokens of messages that a model is asked about at once.
const MAX_ASKED: u64 = 100_000;

/// How to compact.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Compact<'m> {
    /// The model to ask, if one is set.
    pub model: Option<&'m dyn ChatModel>,
    /// How many tokens it may take a day; beyond that it goes without.
    pub allowance: Option<&'m Allowance>,
    /// Most tokens of the summary.
    pub max_tokens: u64,
    /// How many of the last messages are left out: they are in packs anyway.
    pub keep: u64,
}

impl Default for Compact<'_> {
    fn default() -> Self {
        Self { model: None, allowance: None, max_tokens: 1000, keep: 10 }
    }
}

/// What a compaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// The messages that are new in it; none if there were none.
    pub lines: Option<RangeInclusive<u64>>,
    /// Whether a model made it.
    pub by_model: bool,
    /// The commit.
    pub seq: Option<Seq>,
    /// Whether there is more to compact.
    pub more: bool,
}

impl Sessions<'_> {
    /// Brings the derived files up to the messages that were said since the last time.
    ///
    /// # Errors
    /// `InvalidArgument` for an answer of a model that cannot be taken, `Unavailable` for none: then nothing
    /// is changed, and it can be tried again; `NotFound`; from the filesystem.
    pub async fn compact(&self, session: &str, compact: &Compact<'_>) -> Result<Compacted> {
        self.meta(session).await?;
        let mut names = vec![SUMMARY, TODO];
        names.extend(EntryKind::ALL.map(EntryKind::file));
        let paths = names.iter().map(|name| self.file(session, name)).collect::<Result<Vec<_>>>()?;
        let read = read_all(self.fs, &paths, MAX_DERIVED).await?;
        let texts: Vec<&str> =
            read.iter().map(|file| file.as_ref().and_then(File::text).unwrap_or_default()).collect();
        let mut excerpts = Excerpts::parse(texts[0]);
        let first = excerpts.covered() + 1;
        let end = self.end(session, Log::Messages).await?.lines.saturating_sub(compact.keep);
        let last = end.min(first + MAX_LINES - 1);
        if first > last {
            return Ok(Compacted { lines: None, by_model: false, seq: None, more: false });
        }
        if let Some(model) = compact.model
            && let Some(done) = self.by_model(session, compact, model, (&names, &texts), first..=last).await?
        {
            return Ok(Compacted {
                more: *done.0.end() < end,
                lines: Some(done.0),
                by_model: true,
                seq: done.1,
            });
        }
        let gone = self.withdrawn(session, first..=last).await?;
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
        let summary = Some(excerpts.text(last, compact.max_tokens));
        let derive = Derive { summary, ..Derive::default() };
        let done = self.derive(session, &derive).await?;
        Ok(Compacted { lines: Some(first..=last), by_model: false, seq: Some(done.seq), more: last < end })
    }

    /// Asks the model. `None` if the day's tokens are used up.
    async fn by_model(
        &self,
        session: &str,
        compact: &Compact<'_>,
        model: &dyn ChatModel,
        (names, texts): (&[&str], &[&str]),
        lines: RangeInclusive<u64>,
    ) -> Result<Option<(RangeInclusive<u64>, Option<Seq>)>> {
        let gone = self.withdrawn(session, lines.clone()).await?;
        let mut show = Show::new(Rules::default());
        let (mut said, mut tokens, mut last) = (String::new(), 0, *lines.start() - 1);
        let mut next = *lines.start();
        'read: while next <= *lines.end() {
            let page = self.raw_lines(session, Log::Messages, next..=*lines.end(), 1000).await?;
            next = page.next.unwrap_or(u64::MAX);
            for line in page.items {
                if let Ok(message) = Message::parse(&line.text)
                    && !gone.iter().any(|lines| lines.contains(&line.number))
                {
                    let shown = show.all_of(line.number, message);
                    if tokens + shown.tokens > MAX_ASKED && tokens > 0 {
                        break 'read;
                    }
                    tokens += shown.tokens;
                    said.push_str(&shown.text);
                }
                last = line.number;
            }
        }
        let lines = *lines.start()..=last;
        let ask = question::ask(&lines, (names, texts), &said, compact.max_tokens);
        let due = (count(&ask.system) + count(&ask.user)) as u64 + ask.max_tokens;
        if let Some(allowance) = compact.allowance
            && !allowance.take(due).await?
        {
            return Ok(None);
        }
        let answer = model.ask(&ask).await;
        if let Some(allowance) = compact.allowance {
            let needed = answer.as_ref().map_or(0, |answer| answer.tokens.unwrap_or(due));
            allowance.settle(due, needed).await?;
        }
        let mut derive = question::read(&answer?.text, &lines)?;
        // what children found is referred to until somebody says otherwise
        let kinds = ["child_result", "artifact", "refs"];
        let of_child = |entry: &Entry| entry.to.as_ref().is_some_and(|(_, kind)| kinds.contains(&&**kind));
        let given = parse_entries(EntryKind::Ref, derive.refs.as_deref().unwrap_or_default())?;
        let kept = self.entries(session, EntryKind::Ref).await?.into_iter().filter(of_child);
        let kept: Vec<Entry> = kept.filter(|kept| given.iter().all(|entry| entry.id != kept.id)).collect();
        derive.refs = Some(lines_of(&kept) + &lines_of(&given));
        let done = self.derive(session, &derive).await?;
        Ok(Some((lines, Some(done.seq))))
    }
}
