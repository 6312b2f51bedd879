//! Units: the parts of a memory or file among which a recall chooses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::fence::harmless;
use crate::count::count_to;
use crate::memory::Level;
use garth_engine::model::{ScoreParts, Timestamp, VersionId};
use garth_engine::path::TreePath;

/// Memory or file that may be shown.
#[derive(Debug)]
pub(super) struct Candidate {
    /// URI of a memory, or path of a file.
    pub(super) source: String,
    /// Rank of the best unit that was found.
    pub(super) rank: f64,
    /// Terms of its score.
    pub(super) score_parts: ScoreParts,
    /// Files with words of the question, and their scores.
    pub(super) found_in: Vec<(String, f64)>,
    pub(super) parts: Parts,
}

impl Candidate {
    pub(super) fn is_memory(&self) -> bool {
        self.parts.files.first().is_some_and(|file| file.level.is_some())
    }

    /// Returns the best score of what was found.
    pub(super) fn best_score(&self) -> f64 {
        self.found().map(Unit::score).fold(0.0, f64::max)
    }

    /// Leaves out the parts that were found with a smaller score. Its rank is that of the best one left.
    /// Returns false if none is left.
    pub(super) fn keep(&mut self, least: f64) -> bool {
        self.parts.units.retain(|unit| !unit.is_found || unit.score() >= least);
        let Some(best) = self.parts.best(least) else { return false };
        (self.rank, self.score_parts) = (best.rank, best.score_parts);
        true
    }

    /// Returns the parts that were found.
    pub(super) fn found(&self) -> impl Iterator<Item = &Unit> {
        self.parts.units.iter().filter(|unit| unit.is_found)
    }
}

/// Parts of a memory or file that may be shown.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) files: Vec<SourceFile>,
    pub(super) units: Vec<Unit>,
    /// Complete text of the first file, if it is short. It is shown in place of its units.
    pub(super) whole: Option<Form>,
    pub(super) around: Around,
}

/// Text around what was found in the first file of a source, which was read with it. Neighbours of a shown
/// piece are taken from it.
#[derive(Debug, Default)]
pub(super) enum Around {
    /// No text: the file is shown completely or not at all.
    #[default]
    Nothing,
    /// Messages that may be shown, by the number of their line: its bytes in the file, and its text.
    Messages(BTreeMap<u64, (Range<u64>, Bytes)>),
    /// Parts of a text that do not touch.
    Text(Vec<TextAround>),
}

/// Part of a text around hits.
#[derive(Debug)]
pub(super) struct TextAround {
    /// Bytes of the file whose complete lines may be shown.
    pub(super) shown: Range<u64>,
    /// Place of `text` in the file. It is longer than `shown`: what is around a line decides about secrets in
    /// it.
    pub(super) from: u64,
    pub(super) text: Vec<u8>,
    /// A byte in it, and the number of its line.
    pub(super) known: (u64, u64),
    /// True if the file ends with `text`.
    pub(super) is_end: bool,
}

impl TextAround {
    /// Returns the place of a range of the file in the text.
    pub(super) fn place(&self, bytes: &Range<u64>) -> Range<usize> {
        let place = |at: u64| {
            let at = at.saturating_sub(self.from);
            usize::try_from(at).unwrap_or(usize::MAX).min(self.text.len())
        };
        place(bytes.start)..place(bytes.end)
    }
}

impl Parts {
    /// Returns the unit with the best rank among those that were found and have at least this score. Of
    /// equals it is the first, which is the content of a memory.
    pub(super) fn best(&self, least: f64) -> Option<&Unit> {
        let found = self.units.iter().filter(|unit| unit.is_found && unit.score() >= least);
        found.reduce(|best, unit| if unit.rank > best.rank { unit } else { best })
    }
}

/// File that was read.
#[derive(Clone, Debug)]
pub(super) struct SourceFile {
    pub(super) path: TreePath,
    /// Layer of a memory; `None` for a file.
    pub(super) level: Option<Level>,
    pub(super) version: VersionId,
    /// Time of the last change.
    pub(super) time: Timestamp,
    /// True for the messages of a session, which are rendered already.
    pub(super) is_log: bool,
    /// Tokens of its line of the head, once they are counted.
    pub(super) head: OnceLock<usize>,
}

/// Part of a source that is shown in one of several forms, or not at all.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// Number by which units are ordered: [`Hit::rank`](garth_engine::model::Hit::rank) of what was found; of
    /// other units, that of what they are beside.
    pub(super) rank: f64,
    /// Terms of the score of what was found; 0 for other units.
    pub(super) score_parts: ScoreParts,
    /// False for a unit that does not fit the question itself, but belongs to one that does.
    pub(super) is_found: bool,
    /// Forms, the longest first.
    pub(super) forms: Vec<Form>,
    /// Speaker of a message.
    pub(super) speaker: Option<String>,
    /// Time of a message, or of the last change of the file.
    pub(super) time: Timestamp,
}

impl Unit {
    /// Returns its score: how well it fits the question, while its rank says which units come first. A long
    /// text can contain all that is asked, and still have a low rank.
    pub(super) fn score(&self) -> f64 {
        self.score_parts.sum()
    }
}

/// Returns a share of the terms of a score.
pub(super) fn share_of(mut score_parts: ScoreParts, share: f64) -> ScoreParts {
    score_parts.words *= share;
    score_parts.neighbours *= share;
    score_parts.meaning *= share;
    score_parts
}

/// Text of a unit.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// Index of the file.
    pub(super) file: usize,
    pub(super) bytes: Range<u64>,
    pub(super) lines: Range<u64>,
    /// True if it is the complete file.
    pub(super) is_whole: bool,
    /// Text with masked secrets.
    pub(super) text: String,
    pub(super) what: What,
    /// Tokens of the text as it is shown. Copies of a form share them.
    pub(super) tokens: Arc<Tokens>,
}

impl Form {
    /// Returns the tokens of the text as it is shown, with the speaker of its unit and without a time; `None`
    /// if they are more than `limit`.
    pub(super) fn tokens_within(&self, speaker: Option<&str>, limit: usize) -> Option<usize> {
        self.tokens.within(limit, || match speaker {
            Some(speaker) => format!("{speaker}{}", self.text),
            None => harmless(&self.text),
        })
    }
}

/// Tokens of a text, as far as they were counted. The budget is tried several times while sources are read,
/// and most texts that do not fit are far too long.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    exact: OnceLock<usize>,
    /// Number that it has at least.
    least: AtomicUsize,
}

impl Tokens {
    /// Returns true if the text is counted completely.
    pub(super) fn are_known(&self) -> bool {
        self.exact.get().is_some()
    }

    /// Returns their number; `None` if it is more than `limit`.
    fn within(&self, limit: usize, text: impl FnOnce() -> String) -> Option<usize> {
        let least = self.least.load(Ordering::Relaxed);
        if !self.are_known() && least <= limit {
            // Twice as far as before, or each of many limits could count a little more of the text.
            let reach = limit.max(least.saturating_mul(2));
            match count_to(&text(), reach) {
                Some(tokens) => {
                    self.exact.get_or_init(|| tokens);
                }
                None => self.least.store(reach.saturating_add(1), Ordering::Relaxed),
            }
        }
        self.exact.get().copied().filter(|tokens| *tokens <= limit)
    }
}

/// Kind of text that a form shows of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Abstract,
    Overview,
    Excerpt,
    Passage,
    Message,
    PartOfMessage,
    Beside,
    Whole,
}

impl What {
    /// Returns the reason why it was chosen.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Abstract => "a sentence says what the memory is about",
            Self::Overview => "an outline of the memory",
            Self::Excerpt => "the best lines of what was found",
            Self::Passage => "the passage that was found",
            Self::Message => "the message that was found",
            Self::PartOfMessage => "the best part of the message that was found",
            Self::Beside => "a message beside one that was found",
            Self::Whole => "all of it, as it is short",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::count;

    #[test]
    fn text_is_counted_as_far_as_needed() {
        let text = "A quokka sleeps in the sun.\n".repeat(100);
        let (all, tokens) = (count(&text), Tokens::default());
        let mut counted = 0;
        let mut limits: Vec<usize> = (0..all + 10).collect();
        // As the budget of an answer: less and less, and all of it again.
        limits.extend((0..all + 10).rev());
        for limit in limits {
            let within = tokens.within(limit, || {
                counted += 1;
                text.clone()
            });
            assert_eq!(within, (all <= limit).then_some(all), "{limit}");
        }
        assert!(tokens.are_known() && counted <= 12, "{counted} counts of {all} tokens");
    }

    fn unit(rank: f64, words: f64) -> Unit {
        let mut score_parts = share_of(ScoreParts::default(), 1.0);
        score_parts.words = words;
        Unit { rank, score_parts, is_found: true, forms: Vec::new(), speaker: None, time: Timestamp(0) }
    }

    #[test]
    fn omitted_parts_raise_no_rank() {
        let parts = Parts { units: vec![unit(1.0, 0.2), unit(0.8, 0.9)], ..Parts::default() };
        let score_parts = parts.units[0].score_parts;
        let (source, found_in) = (String::new(), Vec::new());
        let mut candidate = Candidate { source, rank: 1.0, score_parts, found_in, parts };
        assert!(candidate.keep(0.36));
        assert_eq!((candidate.rank, candidate.score_parts.words), (0.8, 0.9));
        assert_eq!(candidate.parts.units.len(), 1);
        assert!(!candidate.keep(1.0));
    }
}
