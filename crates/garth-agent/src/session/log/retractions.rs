//! All retractions of a session, read once, for a change that asks about many lines.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use crate::registry::projections::sessions::{RETRACTED, retracted};
use crate::retry::yield_now;
use crate::session::handle::Sessions;
use crate::session::store::files::Log;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::FindLine;

/// Events read at a time.
const PAGE: usize = 1000;

/// Retractions of a session. Events that retract the same lines again take no memory, and little time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retractions {
    /// Runs of retracted lines, by their first line. They do not overlap.
    runs: BTreeMap<u64, Run>,
    /// Last line of each retracted range without gaps, by its first line.
    ranges: BTreeMap<u64, u64>,
    /// Number of messages of the session.
    messages: u64,
}

/// Lines that one event was the first to retract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    last: u64,
    event: u64,
}

impl Retractions {
    /// Adds an event, after those before it in the log. Lines that an earlier event retracted stay with that
    /// one.
    pub(super) fn add(&mut self, lines: &RangeInclusive<u64>, event: u64) {
        // No question is about lines after the last message.
        let (first, last) = (*lines.start(), self.end_of(lines));
        if first > last {
            return;
        }
        let (mut joined, mut at) = (first..=last, first);
        if let Some((start, end)) = self.ranges.range(..=first).next_back().map(|(start, end)| (*start, *end))
            && end.saturating_add(1) >= first
        {
            if end >= last {
                return;
            }
            (joined, at) = (start..=last, end + 1);
        }
        // Only gaps get a run of the event. The ranges between them become one, so that no later event passes
        // them one by one.
        let next = self.ranges.range(at..=last.saturating_add(1));
        let next: Vec<(u64, u64)> = next.map(|(start, end)| (*start, *end)).collect();
        let mut has_rest = true;
        for (start, end) in next {
            if at < start {
                self.runs.insert(at, Run { last: start - 1, event });
            }
            self.ranges.remove(&start);
            joined = *joined.start()..=last.max(end);
            (at, has_rest) = (end.saturating_add(1), end < last);
        }
        if has_rest {
            self.runs.insert(at, Run { last, event });
        }
        let (first, last) = joined.into_inner();
        self.ranges.insert(first, last);
    }

    /// Returns the runs with some of these lines, the last one first.
    fn among(&self, lines: &RangeInclusive<u64>) -> impl Iterator<Item = (u64, Run)> {
        let (first, last) = (*lines.start(), self.end_of(lines));
        let before = self.runs.range(..=last).rev().map(|(start, run)| (*start, *run));
        before.take_while(move |(_, run)| first <= last && run.last >= first)
    }

    /// Returns the last of some lines: a file that is the whole log has no last line.
    fn end_of(&self, lines: &RangeInclusive<u64>) -> u64 {
        self.messages.min(*lines.end())
    }

    /// Returns true if all of some messages are retracted.
    pub(crate) fn have_all(&self, lines: &RangeInclusive<u64>) -> bool {
        let (first, last) = (*lines.start(), self.end_of(lines));
        let range = self.ranges.range(..=first).next_back();
        first <= last && range.is_some_and(|(_, end)| *end >= last)
    }

    /// Returns the last event that was the first to retract one of these lines: the position of its first
    /// byte in the log. `None` if none of them is retracted.
    pub(crate) fn last_event(&self, lines: &RangeInclusive<u64>) -> Option<u64> {
        self.among(lines).map(|(_, run)| run.event).max()
    }
}

impl Sessions<'_> {
    /// Reads all retractions of a session.
    ///
    /// # Errors
    /// `NotFound` for a missing session; from the filesystem.
    pub(crate) async fn retractions_of(&self, session: &str) -> Result<Retractions> {
        let messages = self.end(session, Log::Messages).await?.lines;
        let mut all = Retractions { messages, ..Retractions::default() };
        let mut from = 0;
        loop {
            let found = self.keyed(session, Log::Events, RETRACTED, from, PAGE).await?;
            let places: Vec<FindLine> = found.into_iter().filter_map(|item| item.line).collect();
            let Some(last) = places.last() else { return Ok(all) };
            from = last.number + 1;
            let ranges: Vec<Range<u64>> = places.into_iter().map(|place| place.bytes).collect();
            let mut read = 0;
            while read < ranges.len() {
                let texts = self.first_texts(session, Log::Events, &ranges[read..]).await?;
                for (bytes, text) in ranges[read..].iter().zip(&texts) {
                    if let Some(lines) = retracted(text.as_bytes()) {
                        all.add(&lines, bytes.start);
                    }
                }
                // To pass an event that was not read would keep text that it removes.
                if texts.is_empty() {
                    return Err(Error::new(ErrorKind::Io, "an answer is missing"));
                }
                read += texts.len();
            }
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(events: &[RangeInclusive<u64>]) -> Retractions {
        let mut all = Retractions { messages: 100, ..Retractions::default() };
        for (event, lines) in (0..).step_by(10).zip(events) {
            all.add(lines, event);
        }
        all
    }

    #[test]
    fn lines_stay_with_their_first_event() {
        let all = all(&[10..=20, 30..=40, 15..=35, 5..=50, 5..=50]);
        let runs: Vec<_> = all.runs.iter().map(|(start, run)| (*start, run.last, run.event)).collect();
        assert_eq!(runs, [(5, 9, 30), (10, 20, 0), (21, 29, 20), (30, 40, 10), (41, 50, 30)]);
        for (lines, event) in [
            (1..=4, None),
            (1..=5, Some(30)),
            (10..=20, Some(0)),
            (20..=21, Some(20)),
            (30..=40, Some(10)),
            (12..=38, Some(20)),
            (1..=100, Some(30)),
            (50..=u64::MAX, Some(30)),
            (51..=u64::MAX, None),
        ] {
            assert_eq!(all.last_event(&lines), event, "{lines:?}");
        }
    }

    #[test]
    fn adjacent_runs_are_one_range() {
        let mut all = all(&[10..=20, 30..=40, 22..=22, 21..=21]);
        assert_eq!(all.ranges, BTreeMap::from([(10, 22), (30, 40)]));
        all.add(&(15..=29), 90);
        assert_eq!(all.ranges, BTreeMap::from([(10, 40)]));
        let runs = all.runs.len();
        all.add(&(10..=40), 100);
        all.add(&(9..=41), 110);
        assert_eq!((all.ranges.clone(), all.runs.len()), (BTreeMap::from([(9, 41)]), runs + 2));
    }

    #[test]
    fn retracted_lines_are_told_from_gaps() {
        let all = all(&[1..=20, 22..=30, 31..=200]);
        for (lines, is_all) in [
            (1..=20, true),
            (5..=5, true),
            (20..=22, false),
            (21..=21, false),
            (21..=25, false),
            (22..=40, true),
            (25..=u64::MAX, true),
            (1..=u64::MAX, false),
            // Beyond the last message.
            (101..=200, false),
        ] {
            assert_eq!(all.have_all(&lines), is_all, "{lines:?}");
        }
    }

    #[test]
    fn events_about_no_message_are_ignored() {
        let mut all = all(&[]);
        all.add(&(u64::MAX - 5..=u64::MAX), 1);
        assert!(all.runs.is_empty() && all.ranges.is_empty());
        all.add(&(90..=u64::MAX), 2);
        assert_eq!(all.ranges, BTreeMap::from([(90, 100)]));
        assert_eq!(all.last_event(&(1..=u64::MAX)), Some(2));
        all.messages = u64::MAX;
        all.add(&(u64::MAX..=u64::MAX), 3);
        all.add(&(80..=u64::MAX), 4);
        assert_eq!(all.ranges, BTreeMap::from([(80, u64::MAX)]));
        let runs: Vec<_> = all.runs.iter().map(|(start, run)| (*start, run.last, run.event)).collect();
        assert_eq!(runs, [(80, 89, 4), (90, 100, 2), (101, u64::MAX - 1, 4), (u64::MAX, u64::MAX, 3)]);
    }
}
