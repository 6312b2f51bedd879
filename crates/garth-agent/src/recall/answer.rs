//! Answer of a recall.

use std::borrow::Cow;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::candidates::RankedCandidates;
use super::fence::Key;
use super::head::head;
use super::request::Recall;
use crate::count::count;
use garth_engine::model::{ScoreParts, VersionId};
use garth_engine::path::TreePath;

/// First line of an answer in which nothing fits.
pub(super) const NOTHING_FITS: &str = "Nothing fits the question.\n";
/// Line before the texts that are nearest.
pub(super) const NEAREST_FOLLOW: &str =
    "These texts are nearest to it in meaning; they may have nothing to do with it.\n";

/// Piece of evidence: a text, its source and its score.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[non_exhaustive]
pub struct Evidence {
    /// Number of the source in the head of the answer.
    pub number: usize,
    /// URI of the memory, or path of the file.
    pub source: String,
    /// File from which it was read.
    pub path: TreePath,
    /// Layer of a memory: 0, 1 or 2; `None` for a file.
    pub layer: Option<u8>,
    /// Version of the file.
    pub version: VersionId,
    /// SHA-256 of `text`, 64 hexadecimal digits.
    pub sha256: String,
    /// Bytes of the file that it covers.
    pub bytes: Range<u64>,
    /// Lines of the file that it covers, from 1; the end is excluded.
    pub lines: Range<u64>,
    /// True if it covers the complete file.
    pub whole: bool,
    /// Score, 0 to 1: of what was found in it, that with the best rank, see
    /// [`Hit::score`](garth_engine::model::Hit::score).
    pub score: f64,
    /// Terms of the score of the passage of the source with the best rank.
    pub parts: ScoreParts,
    /// Files of the source that contain words of the question, each with its score.
    #[schemars(with = "Vec<FoundIn<'static>>")]
    pub found_in: Vec<(String, f64)>,
    /// Reason why it was chosen.
    pub why: String,
    /// Text; messages as `role: text`. Secrets are masked, and lines that look like a fence start with a
    /// backslash.
    pub text: String,
    /// Tokens of the text with its fence, without the line of the head that names the source.
    pub tokens: usize,
}

/// Answer to a question.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[non_exhaustive]
pub struct Recalled {
    /// Pieces, those of the best source first. Empty if nothing has the words of the question or is near to
    /// it in meaning.
    pub items: Vec<Evidence>,
    /// All pieces as text for a model, each in its fence.
    pub text: String,
    /// Tokens of `text`.
    pub tokens: usize,
    /// True if a source fits the question. If none does, the pieces are those nearest to it in meaning, and
    /// may have nothing to do with it.
    pub fits: bool,
    /// Score of the best source that may be shown, even if it does not fit.
    pub best: Option<f64>,
    /// Remarks on the answer.
    pub notes: Vec<Cow<'static, str>>,
    /// True if the embedding service should have compared the candidates, but did not.
    #[schemars(skip)]
    pub(crate) is_without_service: bool,
    /// True if something that fits the question is not shown, or only a part of it, or may exist beyond what
    /// was searched and read.
    pub more: bool,
    /// Number of files with text that is not indexed yet, counted up to 1,000.
    pub missing: u64,
}

/// File with words of the question.
#[derive(Serialize, JsonSchema)]
struct FoundIn<'a> {
    /// Path of the file.
    file: &'a str,
    /// Its score.
    score: f64,
}

impl Recalled {
    /// Returns the answer as interfaces present it, with the key that checks its fences.
    pub fn to_json(&self, key: &Key) -> Value {
        json!({
            "items": self.items.iter().map(Evidence::to_json).collect::<Vec<_>>(),
            "text": self.text,
            "tokens": self.tokens,
            "fits": self.fits,
            "best": self.best,
            "notes": self.notes,
            "more": self.more,
            "missing": self.missing,
            "key": key.reveal(),
        })
    }

    /// Returns an answer without pieces.
    pub(super) fn nothing(asked: &Recall, gathered: &RankedCandidates) -> Self {
        let text = head(NOTHING_FITS, &gathered.notes, asked.budget);
        Self {
            fits: false,
            items: Vec::new(),
            tokens: count(&text),
            text,
            best: gathered.best,
            notes: gathered.notes.clone(),
            is_without_service: gathered.is_without_service,
            more: gathered.more,
            missing: gathered.missing,
        }
    }
}

impl Evidence {
    fn to_json(&self) -> Value {
        let range = |range: &Range<u64>| json!({"start": range.start, "end": range.end});
        let found_in = self.found_in.iter().map(|(file, score)| FoundIn { file, score: *score });
        json!({
            "number": self.number,
            "source": self.source,
            "path": self.path.as_str(),
            "layer": self.layer,
            "version": self.version.to_string(),
            "sha256": self.sha256,
            "bytes": range(&self.bytes),
            "lines": range(&self.lines),
            "whole": self.whole,
            "score": self.score,
            "parts": {
                "words": self.parts.words,
                "neighbours": self.parts.neighbours,
                "meaning": self.parts.meaning,
            },
            "found_in": found_in.collect::<Vec<_>>(),
            "why": self.why,
            "text": self.text,
            "tokens": self.tokens,
        })
    }
}
