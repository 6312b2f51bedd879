//! Finds retracted messages by the keys of the events that retracted them. The cost grows with the requested
//! lines, not with the number of retractions elsewhere, their repeats, or the length of a run.

use std::ops::RangeInclusive;

use crate::registry::projections::sessions::{
    RETRACTED, STRIDE, line_key, retracted, retracted_key, retracted_line_key, retracted_run, run_end_key,
    run_start_key, whole_key,
};
use crate::session::handle::Sessions;
use crate::session::store::files::Log;
use garth_engine::error::Result;
use garth_engine::model::FindLine;

/// Limit on the events of [`STRIDE`] lines that are read. Each line is retracted once, unless other programs
/// retract it again: then each line is looked up instead.
const MAX_EVENTS: usize = 64;

/// Key of the events of a run, by its first or its last line.
type RunKey = fn(u64) -> String;

impl Sessions<'_> {
    /// Returns true if a message of the session was ever retracted.
    pub(crate) async fn has_retracted(&self, session: &str) -> Result<bool> {
        Ok(!self.keyed(session, Log::Events, RETRACTED, 0, 1).await?.is_empty())
    }

    /// Returns the ranges of retracted messages among some lines, in their order. The last range can continue
    /// after these lines.
    ///
    /// # Errors
    /// From the filesystem.
    pub(crate) async fn retracted(
        &self,
        session: &str,
        lines: RangeInclusive<u64>,
    ) -> Result<Vec<RangeInclusive<u64>>> {
        self.retracted_by(session, lines, u64::MAX).await
    }

    /// Returns the ranges that the first `events` events retracted.
    pub(crate) async fn retracted_by(
        &self,
        session: &str,
        lines: RangeInclusive<u64>,
        events: u64,
    ) -> Result<Vec<RangeInclusive<u64>>> {
        let mut gone: Vec<RangeInclusive<u64>> = Vec::new();
        // Most sessions have no retraction: one look-up instead of one for each 64 lines.
        if lines.is_empty() || !self.has_retracted(session).await? {
            return Ok(gone);
        }
        let mut line = (*lines.start()).max(1);
        while line <= *lines.end() {
            let block = line_key(line).1;
            let last = (block + STRIDE - 1).min(*lines.end());
            let is_gone = self.block(session, block, events).await?;
            let mut tail = None;
            for number in (line..=last).filter(|number| is_gone[(number - block) as usize]) {
                match gone.last_mut().filter(|lines| *lines.end() + 1 == number) {
                    Some(lines) => *lines = *lines.start()..=number,
                    None => {
                        gone.push(number..=number);
                        tail = Some(number);
                    }
                }
            }
            line = last + 1;
            // If a run continues after these lines, its remaining lines are skipped.
            if let Some(start) = tail
                && let Some(run) = gone.last_mut()
                && *run.end() == last
                && let Some(end) = self.run_of(session, run_start_key, start, events).await?
                && *end.end() > last
            {
                *run = start..=*end.end();
                line = end.end() + 1;
            }
        }
        Ok(gone)
    }

    /// Returns the first line of the run of retracted messages that ends with a retracted one.
    pub(crate) async fn run_start(&self, session: &str, line: u64, events: u64) -> Result<u64> {
        let run = self.run_of(session, run_end_key, line, events).await?;
        Ok(run.map_or(line, |run| *run.start()))
    }

    /// Returns the last line of the run of retracted messages that begins with a retracted one.
    pub(crate) async fn run_end(&self, session: &str, line: u64) -> Result<u64> {
        let run = self.run_of(session, run_start_key, line, u64::MAX).await?;
        Ok(run.map_or(line, |run| *run.end()))
    }

    /// Returns a flag for each of the [`STRIDE`] lines from `first` on: true if one of the first `events`
    /// events retracted it.
    async fn block(&self, session: &str, first: u64, events: u64) -> Result<[bool; STRIDE as usize]> {
        let mut gone = [false; STRIDE as usize];
        let found = self.keyed(session, Log::Events, &retracted_key(first), 0, MAX_EVENTS + 1).await?;
        let places: Vec<FindLine> = found.into_iter().filter_map(|item| item.line).collect();
        // One more than can be read was requested, to learn whether there are more.
        if places.len() > MAX_EVENTS {
            return self.crowded_block(session, first, events).await;
        }
        let ranges: Vec<_> =
            places.iter().filter(|place| place.number <= events).map(|place| place.bytes.clone()).collect();
        let mut read = 0;
        while read < ranges.len() {
            let texts = self.first_texts(session, Log::Events, &ranges[read..]).await?;
            // An empty answer must not repeat the same read endlessly.
            read += texts.len().max(1);
            for lines in texts.iter().filter_map(|text| retracted(text.as_bytes())) {
                for (line, gone) in (first..).zip(&mut gone) {
                    *gone |= lines.contains(&line);
                }
            }
        }
        Ok(gone)
    }

    /// Does the work of [`Self::block`] where more than [`MAX_EVENTS`] events retract these lines: looks up
    /// each line by its key.
    async fn crowded_block(&self, session: &str, first: u64, events: u64) -> Result<[bool; STRIDE as usize]> {
        let is_by = async |key: String| -> Result<bool> {
            let found = self.keyed(session, Log::Events, &key, 0, 1).await?;
            Ok(found.iter().any(|item| item.line.as_ref().is_some_and(|line| line.number <= events)))
        };
        let whole = is_by(whole_key(first)).await?;
        let mut gone = [whole; STRIDE as usize];
        for (line, gone) in (first..).zip(&mut gone).filter(|_| !whole) {
            *gone = is_by(retracted_line_key(line)).await?;
        }
        Ok(gone)
    }

    /// Returns the longest run that begins, or ends, with a line: that of the last of the first `events`
    /// events of a key. Runs only grow.
    async fn run_of(
        &self,
        session: &str,
        key: RunKey,
        line: u64,
        events: u64,
    ) -> Result<Option<RangeInclusive<u64>>> {
        let key = key(line);
        let first = async |from: u64| -> Result<Option<FindLine>> {
            let found = self.keyed(session, Log::Events, &key, from, 1).await?;
            Ok(found.into_iter().find_map(|item| item.line).filter(|line| line.number <= events))
        };
        let Some(mut last) = first(0).await? else { return Ok(None) };
        let mut high = events.min(self.end(session, Log::Events).await?.lines);
        // Most lines begin, or end, one run alone. Of a run that has grown, the last event is mostly a late
        // one: steps from the end get longer, and the last step is halved.
        if last.number < high {
            match first(last.number + 1).await? {
                Some(found) => last = found,
                None => high = last.number,
            }
        }
        let mut step = 1;
        while last.number < high {
            let from = (high + 1).saturating_sub(step).max(last.number + 1);
            match first(from).await? {
                Some(found) => {
                    last = found;
                    break;
                }
                None => (high, step) = (from - 1, step * 2),
            }
        }
        while last.number < high {
            let middle = last.number + (high - last.number).div_ceil(2);
            match first(middle).await? {
                Some(found) => last = found,
                None => high = middle - 1,
            }
        }
        let texts = self.first_texts(session, Log::Events, &[last.bytes]).await?;
        Ok(texts.first().and_then(|text| retracted_run(text.as_bytes())))
    }
}
