//! Answer of a recall.

use std::ops::Range;

use serde_json::{Value, json};

use super::fence::Key;
use super::gather::Gathered;
use super::request::Recall;
use crate::count::count;
use garth_engine::model::{ScoreParts, VersionId};
use garth_engine::path::TreePath;

/// A piece of what is known.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Evidence {
    /// The URI of the memory, or the path of the file.
    pub source: String,
    /// The file that it was read from.
    pub path: TreePath,
    /// Of a memory which layer: 0, 1 or 2.
    pub layer: Option<u8>,
    /// The version of the file.
    pub version: VersionId,
    /// The SHA-256 of `text`, 64 hexadecimal digits.
    pub sha256: String,
    /// Which bytes of the file.
    pub bytes: Range<u64>,
    /// Which lines; the first of a file is 1, the end is excluded.
    pub lines: Range<u64>,
    /// Whether this is all of the file.
    pub whole: bool,
    /// How much of the question the source has: see [`Hit::score`](garth_engine::model::Hit::score). Of several
    /// passages and layers that were found the best.
    pub score: f64,
    /// What the score is the sum of, of the best of them.
    pub parts: ScoreParts,
    /// In which files of the source words of the question were found, and the score of each.
    pub found_in: Vec<(String, f64)>,
    /// Why it was chosen.
    pub why: String,
    /// What it says: secrets are marked, and lines like those of a fence have a backslash before them.
    pub text: String,
    /// Tokens of the text with its fence.
    pub tokens: usize,
}

/// What is known about a question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recalled {
    /// The pieces, the best source first. Empty if nothing fits.
    pub items: Vec<Evidence>,
    /// All of it as text for a model: each piece in its fence.
    pub text: String,
    /// Tokens of `text`.
    pub tokens: usize,
    /// The score of the best source that may be shown, whether it fits or not.
    pub best: Option<f64>,
    /// What is to be known about the answer.
    pub notes: Vec<&'static str>,
    /// Whether there may be more that fits.
    pub more: bool,
    /// Files of which some text is not indexed yet, counted up to 1,000.
    pub missing: u64,
}

impl Recalled {
    /// As interfaces give it, with the key by which fences can be checked.
    pub fn to_json(&self, key: &Key) -> Value {
        json!({
            "items": self.items.iter().map(Evidence::to_json).collect::<Vec<_>>(),
            "text": self.text,
            "tokens": self.tokens,
            "best": self.best,
            "notes": self.notes,
            "more": self.more,
            "missing": self.missing,
            "key": key.reveal(),
        })
    }

    /// Nothing fits.
    pub(super) fn nothing(asked: &Recall, gathered: &Gathered) -> Self {
        let text = head("Nothing fits the question.\n", &gathered.notes, asked.budget);
        Self {
            items: Vec::new(),
            tokens: count(&text),
            text,
            best: gathered.best,
            notes: gathered.notes.clone(),
            more: gathered.more,
            missing: gathered.missing,
        }
    }
}

impl Evidence {
    fn to_json(&self) -> Value {
        let range = |range: &Range<u64>| json!({"start": range.start, "end": range.end});
        let found_in = self.found_in.iter().map(|(file, score)| json!({"file": file, "score": score}));
        json!({
            "source": self.source,
            "path": self.path.as_str(),
            "layer": self.layer,
            "version": self.version.to_string(),
            "sha256": self.sha256,
            "bytes": range(&self.bytes),
            "lines": range(&self.lines),
            "whole": self.whole,
            "score": self.score,
            "parts": {"words": self.parts.words, "neighbours": self.parts.neighbours},
            "found_in": found_in.collect::<Vec<_>>(),
            "why": self.why,
            "text": self.text,
            "tokens": self.tokens,
        })
    }
}

/// What stands before the pieces, with as many of the notes as there is room for.
pub(super) fn head(first: &str, notes: &[&str], budget: usize) -> String {
    let mut head = first.to_owned();
    for note in notes {
        let longer = format!("{head}{note}\n");
        // most of the room is for what was found
        if count(&longer) <= budget / 2 {
            head = longer;
        }
    }
    head
}
